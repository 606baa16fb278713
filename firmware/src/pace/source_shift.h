/*
 * Back-to-source shift of the pooled feature.
 *
 * Internal. Features move by source mean - running mean, FOA's activation
 * shifting (Niu et al., ICML 2024), image by image. The running mean starts at the
 * source's, so an unshifted stream begins unchanged.
 */
#ifndef REFOLD_PACE_SOURCE_SHIFT_H
#define REFOLD_PACE_SOURCE_SHIFT_H

#include <stdint.h>

typedef struct refold_source_shift {
    uint32_t channels;
    float rate;                /* weight of an image in the running mean, 0..1 */
    const float *source;       /* [channels] mean on clean images, LSB of the feature */
    float *mean;               /* [channels] running mean, LSB */
} refold_source_shift;

/* Running mean = source mean. */
void refold_source_shift_reset(refold_source_shift *shift);

/* Moves the running mean towards an image's unshifted features, [channels]. */
void refold_source_shift_absorb(refold_source_shift *shift, const int8_t *feature);

/* feature[c] = clamp(feature[c] + floor(source - mean + 1/2)), int8, [channels]. */
void refold_source_shift_apply(const refold_source_shift *shift, int8_t *feature);

#endif
