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
    float *w1;             /* E[a] of the gate's window */
    int16_t *m;            /* the recomputed table: multipliers, */
    int32_t *centre;       /* and R, which B is made from */
    int64_t *b;            /* scratch, shared by all sites: B */
    float *work;           /* scratch, shared by all sites */
} refold_forge;

/* A score of an image while it is summed up. */
typedef struct refold_forge_score {
    int64_t sum;           /* of terms in 2^-REFOLD_SCORE_FRACTION_BITS */
    uint32_t count;        /* live channels */
} refold_forge_score;

/* Weight of the image that follows `images` absorbed ones. */
float refold_forge_momentum(uint32_t images, uint16_t warm, float floor);

/* Running moments back to the targets. */
void refold_forge_reset(const refold_forge *forge);

/*
 * Absorb the sums of one image: into the stream with `momentum`, into the window with
 * `weight`. 0 leaves them.
 */
void refold_forge_update(const refold_forge *forge, float momentum, float weight,
                         const refold_moments *moments);

/* Recompute m and R; returns the shift of m, 16..31. */
uint8_t refold_forge_table(const refold_forge *forge, float shrinkage);

/* b from m, R and the shift that refold_forge_table returned. */
void refold_forge_biases(const refold_forge *forge, uint8_t shift);

/* Add the site's live channels to the score. */
void refold_forge_add_score(const refold_forge *forge, refold_forge_score *score);

/*
 * Add the distance of the window from `centre`, [channels]: squared, in units of the
 * variance from clean image to clean image, of the site's live channels.
 */
void refold_forge_add_distance(const refold_forge *forge, const float *centre,
                               refold_forge_score *score);

/* Mean over the live channels, 0 where there are none. */
float refold_forge_mean_score(const refold_forge_score *score);

#endif
