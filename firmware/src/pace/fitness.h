/*
 * Loss of a candidate: entropy of the predictions + lambda * discrepancy of the
 * features from the source's.
 *
 * Internal. Sums run over images, sites and channels in index order.
 */
#ifndef REFOLD_PACE_FITNESS_H
#define REFOLD_PACE_FITNESS_H

#include <stdint.h>

#include "window.h"

/* What clean images gave, arrays [channels] in the units of the window's a. */
typedef struct refold_source {
    const float *mean;
    const float *variance;
    const float *weight;       /* of the channel: 1/deviation, or a's real unit */
} refold_source;

/*
 * Entropy in nats of softmax(scale * logits[0..count)), count > 0, scale > 0;
 * within 1e-6 * (1 + ln count) of the exact value, never below 0.
 */
float refold_entropy(const int32_t *logits, uint32_t count, float scale);

/*
 * |weight * (mean - mean_src)|_2 + |weight * (std - std_src)|_2 of one site over
 * its channels. 0 for an empty window.
 */
float refold_discrepancy(const refold_window *window, const refold_source *source);

/* entropy_sum / images + lambda * discrepancy_sum; images > 0. */
float refold_fitness(float entropy_sum, uint32_t images, float lambda,
                     float discrepancy_sum);

#endif
