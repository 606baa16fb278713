#include "gate.h"

#include <stdbool.h>

#include "fp32.h"
#include "refold/facts.h"

refold_gate_look refold_gate_next(const refold_gate *gate, uint32_t absorbed)
{
    int n = gate->images + 1;

    if (n < (gate->phase == REFOLD_PHASE_TRIAL ? REFOLD_CHANGE_WINDOW : REFOLD_GATE_FIRST))
        return REFOLD_LOOK_NOT;
    if (gate->phase != REFOLD_PHASE_OPEN)
        return REFOLD_LOOK_AT_CLEAN;
    return absorbed >= REFOLD_CHANGE_SETTLED ? REFOLD_LOOK_AT_STREAM : REFOLD_LOOK_NOT;
}

/*
 * Has the window drifted further than chance takes it? A trial doubts less: a
 * gate that closes on a shifted stream costs more than one that stays open.
 */
static bool has_shifted(const refold_gate *gate, refold_gate_look look, float level,
                        float noise)
{
    float n = gate->images;
    float score = refold_forge_mean_score(&gate->score);

    if (look == REFOLD_LOOK_NOT)
        return false;
    if (look == REFOLD_LOOK_AT_STREAM)
        return score > REFOLD_CHANGE_MARGIN * noise / n;
    int margin = gate->phase == REFOLD_PHASE_TRIAL ? REFOLD_TRIAL_MARGIN
                                                   : REFOLD_GATE_MARGIN;
    return score > level + (float)margin * noise / n;
}

refold_gate_verdict refold_gate_decide(refold_gate *gate, refold_gate_look look,
                                       float level, float noise)
{
    gate->images++;
    bool shifted = has_shifted(gate, look, level, noise);
    uint8_t phase = gate->phase;
    bool is_full = gate->images >= (phase == REFOLD_PHASE_CLOSED ? REFOLD_GATE_WINDOW
                                                                : REFOLD_CHANGE_WINDOW);

    if (phase == REFOLD_PHASE_OPEN && shifted) {
        gate->phase = REFOLD_PHASE_TRIAL;
        return REFOLD_VERDICT_FORGET;
    }
    if (shifted) {
        gate->phase = REFOLD_PHASE_OPEN;
        return phase == REFOLD_PHASE_TRIAL ? REFOLD_VERDICT_WINDOW : REFOLD_VERDICT_OPEN;
    }
    if (!is_full)
        return REFOLD_VERDICT_NONE;
    if (phase == REFOLD_PHASE_OPEN)
        return REFOLD_VERDICT_WINDOW;
    gate->phase = REFOLD_PHASE_CLOSED;
    return REFOLD_VERDICT_FORGET;
}
