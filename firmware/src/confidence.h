/*
 * How sure and how varied predictions are.
 *
 * Internal. Their mean entropy alone is least where every image gets the same
 * class, so that the entropy of the mean prediction, to be large, joins it in the
 * loss: together they are the mutual information between image and class. A window
 * of few images is too short to tell classes that are rare from classes that were
 * lost: its mean prediction is mixed with the stream's running one.
 */
#ifndef REFOLD_CONFIDENCE_H
#define REFOLD_CONFIDENCE_H

#include <stdint.h>

#include "refold/refold.h"

typedef struct refold_confidence {
    const refold_model *model;
    uint32_t images;           /* in the sums below */
    float entropy_sum;         /* nats */
    float entropy;             /* of the image added last */
    uint32_t *sums;            /* [output_count] of Q15 probabilities */
    uint16_t *probabilities;   /* [output_count] scratch */
    float *expected;           /* [output_count] running mean prediction */
} refold_confidence;

/* The running mean prediction is that of a network that knows nothing. */
void refold_confidence_reset(refold_confidence *confidence);

/* Moves the running mean prediction towards that of one image. */
void refold_confidence_expect(refold_confidence *confidence, const int32_t *logits);

/* Empties the sums. */
void refold_confidence_clear(refold_confidence *confidence);

/* Adds one image's prediction to the sums. */
void refold_confidence_add(refold_confidence *confidence, const int32_t *logits);

/*
 * What the image added last puts into the loss, to first order in how far the mean
 * prediction is from the running one, a constant apart: mean over images + constant
 * = entropy_sum / images - variety.
 */
float refold_confidence_part(const refold_confidence *confidence);

/* Entropy in nats of the mean prediction of the images added; images > 0. */
float refold_confidence_variety(const refold_confidence *confidence);

#endif
