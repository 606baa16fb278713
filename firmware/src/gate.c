#include "gate.h"

#include <stdbool.h>

#include "refold/facts.h"

refold_gate_look refold_gate_next(const refold_gate *gate, uint32_t absorbed)
{
    if (gate->phase == REFOLD_PHASE_OPEN)
        return absorbed >= REFOLD_GATE_SETTLED ? REFOLD_LOOK_AT_STREAM : REFOLD_LOOK_NOT;
    return gate->images + 1 >= REFOLD_GATE_FIRST ? REFOLD_LOOK_AT_CLEAN : REFOLD_LOOK_NOT;
}

int refold_gate_window(const refold_gate *gate)
{
    return gate->phase == REFOLD_PHASE_OPEN ? REFOLD_GATE_OPEN_WINDOW : REFOLD_GATE_WINDOW;
}

static bool has_shifted(const refold_gate *gate, refold_gate_look look, float margin,
                        float doubt)
{
    float chance = 1.0f / (float)gate->images + doubt;

    return look != REFOLD_LOOK_NOT &&
           refold_forge_mean_score(&gate->distance) > margin * chance;
}

static refold_gate_verdict enter(refold_gate *gate, uint8_t phase,
                                 refold_gate_verdict verdict)
{
    gate->phase = phase;
    gate->images = 0;
    return verdict;
}

refold_gate_verdict refold_gate_decide(refold_gate *gate, refold_gate_look look,
                                       uint32_t absorbed, float margin, float doubt)
{
    if (gate->images < refold_gate_window(gate))
        gate->images++;
    bool shifted = has_shifted(gate, look, margin, doubt);

    switch (gate->phase) {
    case REFOLD_PHASE_OPEN:
        if (shifted)
            return enter(gate, REFOLD_PHASE_CLOSED, REFOLD_VERDICT_FORGET);
        if (absorbed % REFOLD_GATE_RECHECK == 0)
            return enter(gate, REFOLD_PHASE_RECHECK, REFOLD_VERDICT_SWITCH);
        break;
    case REFOLD_PHASE_RECHECK:
        if (shifted)
            return enter(gate, REFOLD_PHASE_OPEN, REFOLD_VERDICT_SWITCH);
        if (gate->images == REFOLD_GATE_WINDOW)
            return enter(gate, REFOLD_PHASE_CLOSED, REFOLD_VERDICT_FORGET);
        break;
    default:
        if (shifted)
            return enter(gate, REFOLD_PHASE_OPEN, REFOLD_VERDICT_OPEN);
    }
    return REFOLD_VERDICT_NONE;
}
