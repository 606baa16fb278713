/*
 * The safety gate and the detection of new domains: docs/numerics.md, "Gate".
 *
 * Internal. A state machine over distances of a window of images; it knows neither
 * sites nor tables, and does nothing itself but count.
 */
#ifndef REFOLD_GATE_H
#define REFOLD_GATE_H

#include <stdint.h>

#include "forge.h"

typedef struct refold_gate {
    uint8_t phase;               /* REFOLD_PHASE_* */
    uint8_t images;              /* of the window: n, up to refold_gate_window */
    refold_forge_score distance; /* of the window, while an image runs */
} refold_gate;

/* What the window is compared with after the coming image. */
typedef enum refold_gate_look {
    REFOLD_LOOK_NOT,
    REFOLD_LOOK_AT_CLEAN,
    REFOLD_LOOK_AT_STREAM,       /* the running statistics */
} refold_gate_look;

/* What follows from an image. */
typedef enum refold_gate_verdict {
    REFOLD_VERDICT_NONE,
    REFOLD_VERDICT_SWITCH,       /* other tables in force; the window begins again */
    REFOLD_VERDICT_OPEN,         /* so they are, and the momentum is warm again */
    REFOLD_VERDICT_FORGET,       /* the stream begins again */
} refold_gate_verdict;

/* The images that the window looks back on: above it, the oldest fade. */
int refold_gate_window(const refold_gate *gate);

/* `absorbed`: images in the running statistics before the coming one. */
refold_gate_look refold_gate_next(const refold_gate *gate, uint32_t absorbed);

/*
 * Count the image that `look` was announced for, and move to the next phase.
 * `absorbed` includes it. A window has shifted where its distance is more than
 * `margin` times what chance brings about: 1/n, and `doubt`, which is 1 over the
 * images behind what it is compared with.
 */
refold_gate_verdict refold_gate_decide(refold_gate *gate, refold_gate_look look,
                                       uint32_t absorbed, float margin, float doubt);

#endif
