/*
 * The statistics that recalibration needs, summed where the accumulators are.
 *
 * Internal. Exact integers: any order of summation gives the same sums.
 */
#ifndef REFOLD_MOMENTS_H
#define REFOLD_MOMENTS_H

#include <string.h>

#include "refold/kernels.h"

static inline void refold_moments_clear(const refold_moments *moments, int channels)
{
    memset(moments->s1, 0, (size_t)channels * sizeof *moments->s1);
    memset(moments->s2, 0, (size_t)channels * sizeof *moments->s2);
}

/* s1[c] += a, s2[c] += a * a with a = sat16(acc[c] >> shift) */
static inline void refold_moments_row(const refold_moments *moments, const int32_t *acc,
                                      int channels)
{
    int64_t *restrict s1 = moments->s1;
    int64_t *restrict s2 = moments->s2;

    for (int c = 0; c < channels; c++) {
        int32_t a = acc[c] >> moments->shift;
        a = a < INT16_MIN ? INT16_MIN : a > INT16_MAX ? INT16_MAX : a;
        s1[c] += a;
        s2[c] += a * a;
    }
}

#endif
