/*
 * Fastfood: a random linear map R^inputs -> R^outputs that is never stored.
 *
 * Internal. P(v) = s * cut(H G Pi H B pad(v)), Le, Sarlos, Smola, ICML 2013,
 * without its S: B and G are random signs, Pi a random permutation, H the
 * Walsh-Hadamard matrix of size n, the least power of two >= outputs. All comes
 * from `seed`. s = 1/sqrt(n * outputs): a unit v has an image of unit mean
 * square norm over the seeds, and of unit norm exactly where outputs = n.
 */
#ifndef REFOLD_PACE_FASTFOOD_H
#define REFOLD_PACE_FASTFOOD_H

#include <stdint.h>

typedef struct refold_fastfood {
    uint32_t seed;
    uint32_t inputs;           /* d, 1..n */
    uint32_t outputs;          /* D, 1..2^20 */
} refold_fastfood;

/* n: the floats that `theta` of refold_fastfood_project must hold. */
uint32_t refold_fastfood_floats(uint32_t outputs);

/*
 * theta[0..outputs) = P(v). theta[n] doubles as scratch: what lies past outputs
 * means nothing. v [inputs] must not overlap it. About 2 n log2(n) additions and
 * n/4 evaluations of Philox.
 */
void refold_fastfood_project(const refold_fastfood *map, const float *v,
                             float *theta);

#endif
