/*
 * FORGE on one site: fp32 update, table and score of docs/numerics.md.
 *
 * Internal. Pure functions of their arguments: no context, no order between
 * sites.
 */
#ifndef REFOLD_FORGE_H
#define REFOLD_FORGE_H

#include <stdint.h>

#include "refold/model.h"

/* One site and its part of the adaptation state; arrays are [channels]. */
typedef struct refold_forge {
    const refold_site *site;
    uint8_t rule;          /* REFOLD_RULE_* */
    float *e1;             /* running E[a] */
    float *e2;             /* running E[a^2]; rule published: the variance */
    float *work;           /* scratch, shared by all sites */
    int16_t *m;            /* the recomputed table */
    int64_t *b;
} refold_forge;

/* The shift score of an image while it is summed up. */
typedef struct refold_forge_score {
    int64_t sum;           /* of KL terms in 2^-REFOLD_SCORE_FRACTION_BITS */
    uint32_t count;        /* live channels */
} refold_forge_score;

/* Weight of the image that follows `images` absorbed ones. */
float refold_forge_momentum(uint32_t images, uint16_t warm, float floor);

/* Running moments back to the targets. */
void refold_forge_reset(const refold_forge *forge);

/* Absorb the sums of one image. */
void refold_forge_update(const refold_forge *forge, float momentum,
                         const refold_moments *moments);

/* Recompute m and b; returns their shift, 16..31. */
uint8_t refold_forge_table(const refold_forge *forge, float shrinkage);

/* The variances that a score divides by, floored; [channels]. */
void refold_forge_variances(const refold_forge *forge, float *variance);

/* Add KL(moments || `mean`, `variance`) of the site's live channels to the score. */
void refold_forge_add_score(const refold_forge *forge, const float *mean,
                            const float *variance, refold_forge_score *score);

/* Mean KL divergence over the live channels, 0 where there are none. */
float refold_forge_mean_score(const refold_forge_score *score);

#endif
