/*
 * The safety gate and the detection of new domains: docs/numerics.md, "Gate".
 *
 * Internal. A state machine over scores of a window of images; it knows neither
 * sites nor tables, and does nothing itself but count.
 */
#ifndef REFOLD_GATE_H
#define REFOLD_GATE_H

#include <stdint.h>

#include "forge.h"

typedef struct refold_gate {
    uint8_t phase;            /* REFOLD_PHASE_* */
    uint8_t images;           /* of the window: n, up to REFOLD_GATE_WINDOW */
    refold_forge_score score; /* of the window, while an image runs */
} refold_gate;

/* What the window is compared with after the coming image. */
typedef enum refold_gate_look {
    REFOLD_LOOK_NOT,
    REFOLD_LOOK_AT_CLEAN,     /* KL(window || targets) */
    REFOLD_LOOK_AT_STREAM,    /* KL(window || running statistics) */
} refold_gate_look;

/* What follows from an image. */
typedef enum refold_gate_verdict {
    REFOLD_VERDICT_NONE,
    REFOLD_VERDICT_WINDOW,    /* the window begins again */
    REFOLD_VERDICT_OPEN,      /* so it does, and tables come into force */
    REFOLD_VERDICT_FORGET,    /* window and running statistics begin again */
} refold_gate_verdict;

/* `absorbed`: images in the running statistics once the coming one is. */
refold_gate_look refold_gate_next(const refold_gate *gate, uint32_t absorbed);

/*
 * Count the image that `look` was announced for, and move to the next phase.
 * Clean windows of n images score about level + noise / n.
 */
refold_gate_verdict refold_gate_decide(refold_gate *gate, refold_gate_look look,
                                       float level, float noise);

#endif
