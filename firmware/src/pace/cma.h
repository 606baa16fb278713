/*
 * CMA-ES: minimises a loss over R^d from the order of candidates' losses alone.
 *
 * Internal. Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772v2,
 * with every constant of its table 1, apart from:
 *   - C is the tutorial's but kept as its Cholesky factor A (factor.h), updated as
 *     C <- A M A^T with M eq. 47 in the coordinates z of the candidates, and
 *     p_sigma lives in these coordinates instead of those of C^(1/2);
 *   - above REFOLD_FULL_DIMENSION C is diagonal and c_1, c_mu are (d + 2)/3 times
 *     larger, at most so that their sum is 1 (Ros and Hansen, PPSN 2008);
 *   - `active` = 0 drops the negative weights (the CMA-ES before 2010);
 *   - injected points enter as in Hansen, arXiv 1110.4181, eq. 3: |z| is cut to
 *     sqrt(d) + 2d/(d + 2) in the update, and no other quantity is.
 *
 * Candidates are a function of (seed, generation, index): ask may be called in
 * any order, again, or not at all, and tell regenerates what it needs. Results
 * are equal bit for bit on all machines.
 *
 *     refold_cma_start(&cma, &config, memory, start);
 *     for each generation:
 *         for i in 0..population: refold_cma_ask(&cma, i, x); losses[i] = f(x);
 *         refold_cma_tell(&cma, losses);
 *     best guess: cma.mean
 */
#ifndef REFOLD_PACE_CMA_H
#define REFOLD_PACE_CMA_H

#include <stdbool.h>
#include <stdint.h>

#include "factor.h"

#define REFOLD_CMA_DIMENSION_MAX 65535
#define REFOLD_CMA_POPULATION_MIN 4
#define REFOLD_CMA_POPULATION_MAX 64
#define REFOLD_CMA_INJECTED_MAX 4

/* Floats of a run that saving it needs; they come first in its memory. */
#define REFOLD_CMA_STATE_FLOATS(d) (3 * (uint32_t)(d) + REFOLD_FACTOR_FLOATS(d))
/* Floats of memory of a run; d = 32: 1,344 (5.3 KB), d = 64: 4,736 (18.5 KB). */
#define REFOLD_CMA_FLOATS(d) \
    ((5 + REFOLD_CMA_INJECTED_MAX) * (uint32_t)(d) + 2 * REFOLD_FACTOR_FLOATS(d))

typedef struct refold_cma_config {
    uint32_t seed;
    uint16_t dimension;        /* d >= 1 */
    uint8_t population;        /* lambda, REFOLD_CMA_POPULATION_MIN..MAX */
    uint8_t active;            /* 1: the worse half of the candidates counts too */
} refold_cma_config;

/* Constants of a run, functions of its configuration: tutorial, table 1. */
typedef struct refold_cma_rates {
    float mu_eff;
    float c_sigma, d_sigma, c_c, c_1, c_mu;
    float chi;                 /* E|N(0, I)| */
    float weights[REFOLD_CMA_POPULATION_MAX]; /* by rank; negative ones unscaled by z */
} refold_cma_rates;

typedef struct refold_cma {
    refold_cma_config config;
    refold_cma_rates rates;
    uint32_t generation;       /* told so far, restarts included: feeds the generator */
    float sigma;
    float path_decay;          /* (1 - c_sigma)^(2 * generations since the start) */
    float change;              /* |m_t - m_(t-1)| / |m_(t-1)| of the last tell */
    uint8_t injected_count;    /* points in the next population */
    float *mean;               /* [d] m */
    float *path_sigma;         /* [d] p_sigma, in coordinates z */
    float *path_c;             /* [d] p_c */
    float *factor;             /* [REFOLD_FACTOR_FLOATS(d)] A */
    float *injected;           /* [REFOLD_CMA_INJECTED_MAX][d], coordinates z */
    float *z, *step;           /* [d] scratch */
    float *matrix;             /* [REFOLD_FACTOR_FLOATS(d)] scratch */
} refold_cma;

/* 4 + floor(3 ln d), the tutorial's lambda. */
uint8_t refold_cma_default_population(uint32_t dimension);

/*
 * Begins a run: generation 0, C = I, mean 0, sigma 1, change FLT_MAX. `memory`
 * holds REFOLD_CMA_FLOATS(d) floats and outlives the run; the caller has checked
 * the configuration.
 */
void refold_cma_init(refold_cma *cma, const refold_cma_config *config,
                     float *memory);

/*
 * Searches anew from `mean` ([d]; NULL: 0) with step `sigma` > 0: paths and C are
 * forgotten, the mean is kept as given, and the generation runs on, so that no
 * random number comes twice. Injected points are dropped.
 */
void refold_cma_restart(refold_cma *cma, const float *mean, float sigma);

/*
 * Puts x [d] into the next population, as its candidate injected_count. Returns
 * false, and does nothing, where REFOLD_CMA_INJECTED_MAX or population are in.
 */
bool refold_cma_inject(refold_cma *cma, const float *x);

/* x [d] = candidate `index` < population. Scratch of `cma` is overwritten. */
void refold_cma_ask(refold_cma *cma, uint32_t index, float *x);

/*
 * Takes losses[population] of this generation's candidates and moves mean, sigma
 * and C. Equal losses rank by index; NaN ranks last.
 */
void refold_cma_tell(refold_cma *cma, const float *losses);

/* The stopping rule: the mean moved by less than `epsilon` of its length. */
bool refold_cma_has_settled(const refold_cma *cma, float epsilon);

#endif
