/*
 * A factor A of a covariance C = A A^T: lower triangular, or diagonal.
 *
 * Internal. Up to REFOLD_FULL_DIMENSION dimensions A is triangular and stored by
 * rows, a(i, j) at i*(i+1)/2 + j; above it is diagonal. A triangle is half a
 * square's memory, its condition is the root of C's, and z = A^-1 y needs no
 * eigenvectors: that is why single precision is enough for CMA-ES.
 */
#ifndef REFOLD_PACE_FACTOR_H
#define REFOLD_PACE_FACTOR_H

#include <stdint.h>

/* Most dimensions with a full covariance. */
#define REFOLD_FULL_DIMENSION 64
/* Floats of a factor of d dimensions; 1 <= d <= 65535. */
#define REFOLD_FACTOR_FLOATS(d) \
    ((uint32_t)(d) <= REFOLD_FULL_DIMENSION ? (uint32_t)(d) * ((d) + 1) / 2 : (uint32_t)(d))

/* A = 0, of either kind of matrix below. */
void refold_factor_clear(float *a, uint32_t d);

/* A += value * I. */
void refold_factor_add_diagonal(float *a, uint32_t d, float value);

/* y = A z; y may be z. */
void refold_factor_apply(const float *a, uint32_t d, const float *z, float *y);

/* z = A^-1 y; z may be y. */
void refold_factor_solve(const float *a, uint32_t d, const float *y, float *z);

/* M += weight * z z^T (its diagonal where A is diagonal), M stored as A is. */
void refold_factor_add_outer(float *m, uint32_t d, float weight, const float *z);

/*
 * A <- A L with L L^T = M, so that C <- A M A^T. M is destroyed. A pivot of M
 * below 2^-20 counts as 2^-20: rounding cannot make A singular.
 */
void refold_factor_multiply(float *a, float *m, uint32_t d);

#endif
