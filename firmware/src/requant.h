/*
 * Requantisation: the only rounding code of the kernels.
 *
 * Internal. Row functions work on the accumulators of one output position,
 * one per channel.
 */
#ifndef REFOLD_REQUANT_H
#define REFOLD_REQUANT_H

#include "refold/kernels.h"

#if (-3 >> 1) != -2
#error "refold needs an arithmetic right shift of negative integers"
#endif

static inline int8_t refold_clamp(int64_t value, int8_t lo, int8_t hi)
{
    return (int8_t)(value < lo ? lo : value > hi ? hi : value);
}

/* Floor of (value * m + b) / 2^shift, exact. */
static inline int64_t refold_scale(int32_t value, int16_t m, int64_t b, uint8_t shift)
{
    return ((int64_t)value * m + b) >> shift;
}

/* out[c] = clamp((acc[c] * m[c] + b[c]) >> shift, lo, hi) */
static inline void refold_requant_row(const refold_requant *requant, const int32_t *acc,
                                      int channels, int8_t *out)
{
    for (int c = 0; c < channels; c++) {
        int64_t q = refold_scale(acc[c], requant->m[c], requant->b[c], requant->shift);
        out[c] = refold_clamp(q, requant->lo, requant->hi);
    }
}

#endif
