/*
 * Change of domain, seen in the statistics of one layer's features.
 *
 * Internal. distance = mean over channels of the symmetric KL divergence of
 * diagonal Gaussians, (KL(p|q) + KL(q|p)), between a window and the reference.
 */
#ifndef REFOLD_PACE_SHIFT_H
#define REFOLD_PACE_SHIFT_H

#include <stdint.h>

#include "window.h"

/* Floats of memory. */
#define REFOLD_SHIFT_FLOATS(channels) (2 * (uint32_t)(channels))

typedef struct refold_shift {
    uint32_t channels;
    uint32_t windows;          /* absorbed since the start; 0: there is no reference */
    float keep;                /* weight of the old reference, 0..1; published 0.8 */
    const float *floor;        /* [channels] least variance, > 0: v0/256, say */
    float *mean;               /* [channels] reference */
    float *variance;           /* [channels] reference */
} refold_shift;

/* Distance of the window from the reference; 0 while there is none. */
float refold_shift_distance(const refold_shift *shift, const refold_window *window);

/* Moves the reference towards the window; the first one becomes the reference. */
void refold_shift_absorb(refold_shift *shift, const refold_window *window);

#endif
