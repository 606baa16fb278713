/*
 * What PACE moves: the targets of a few sites, seen from a few dimensions.
 *
 * Internal. theta = P(v) (Fastfood) holds two values for each channel of the
 * moved sites. Within each site every value is joined by the sum of all over the
 * square root of their number, so that a candidate shifts and scales a site as a
 * whole as much as channel by channel. Then the site's
 *     gain   = G * exp(theta_1)      theta_1 clamped to +-3
 *     offset = O + G * theta_2       theta_2 to +-64; G: a deviation, output units
 * v = 0 gives the model's own targets, bit for bit.
 */
#ifndef REFOLD_SPACE_H
#define REFOLD_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "pace/fastfood.h"
#include "refold/model.h"

typedef struct refold_space {
    const refold_model *model; /* with a PACE plan */
    refold_fastfood map;       /* outputs: 2 * plan->channels */
    float *theta;              /* [refold_fastfood_floats(map.outputs)] */
    float *gain;               /* [plan->channels], of the moved sites in order */
    float *offset;             /* [plan->channels] */
} refold_space;

/* Is `site` one that the model's PACE moves? */
bool refold_space_moves(const refold_model *model, int site);

/* Point gain and offset at v [map.inputs]. */
void refold_space_go(const refold_space *space, const float *v);

/* `site`, with gain and offset of the space where it is moved: site or *copy. */
const refold_site *refold_space_site(const refold_space *space, int site,
                                     refold_site *copy);

#endif
