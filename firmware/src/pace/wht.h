/*
 * Fast Walsh-Hadamard transform, unnormalised, in natural (Hadamard) order.
 *
 * Internal.
 */
#ifndef REFOLD_PACE_WHT_H
#define REFOLD_PACE_WHT_H

#include <stdint.h>

/*
 * x <- H x in place, H[i][j] = (-1)^popcount(i & j). `count` is a power of two.
 * Twice applied it multiplies by count. Integers stay exact while the sum of
 * |x| is at most 2^24: values up to 2^15 at count 512, 2^13 at 2,048.
 */
void refold_wht(float *x, uint32_t count);

#endif
