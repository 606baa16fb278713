/*
 * Random numbers as a function of their place: nothing is stored or advanced.
 *
 * Internal. Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011). A stream is addressed by four words; number i of it can be
 * had without the ones before. Exact definition: docs/numerics.md, "PACE".
 */
#ifndef REFOLD_PACE_RANDOM_H
#define REFOLD_PACE_RANDOM_H

#include <stdint.h>

/* What a stream serves; streams of different purposes are independent. */
enum {
    REFOLD_RANDOM_CANDIDATE,   /* z of a candidate of CMA-ES */
    REFOLD_RANDOM_SIGNS_IN,    /* B of Fastfood */
    REFOLD_RANDOM_SIGNS_MIDDLE,/* G of Fastfood */
    REFOLD_RANDOM_PERMUTATION, /* Pi of Fastfood */
};

typedef struct refold_random {
    uint32_t seed;
    uint32_t purpose;          /* REFOLD_RANDOM_* */
    uint32_t generation;
    uint32_t candidate;
} refold_random;

/* Words 4*block .. 4*block + 3 of the stream. */
void refold_random_block(const refold_random *stream, uint32_t block,
                         uint32_t words[4]);

/* x[0..count): standard normal numbers 0..count-1 of the stream, |x| < 5.5. */
void refold_random_normal(const refold_random *stream, float *x, uint32_t count);

/* (k + 1/2) * 2^-23 with k the upper 23 bits: in (0, 1), never an end. */
float refold_random_uniform(uint32_t word);

/*
 * Standard normal quantile of p, 2^-24 <= p <= 1 - 2^-24, within 1e-6 relative:
 * Wichura, AS 241 (Applied Statistics 37, 1988), routine PPND7.
 */
float refold_normal_quantile(float p);

#endif
