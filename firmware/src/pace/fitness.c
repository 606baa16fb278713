#include "fitness.h"

#include <math.h>

#include "../fp32.h"
#include "exp32.h"

static int32_t largest(const int32_t *x, uint32_t count)
{
    int32_t most = x[0];

    for (uint32_t i = 1; i < count; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* ln Z + sum(e d)/Z with d = distance from the largest logit, e = exp(-d). */
float refold_entropy(const int32_t *logits, uint32_t count, float scale)
{
    int32_t top = largest(logits, count);
    float z = 0.0f;
    float weighted = 0.0f;

    for (uint32_t i = 0; i < count; i++) {
        float d = (float)((int64_t)top - logits[i]) * scale;
        float e = refold_exp32(-d);
        z = z + e;
        weighted = weighted + e * d;
    }
    return refold_log32(z) + weighted / z;
}

float refold_discrepancy(const refold_window *window, const refold_source *source)
{
    float means = 0.0f;
    float deviations = 0.0f;

    if (window->count == 0)
        return 0.0f;
    for (uint32_t c = 0; c < window->channels; c++) {
        refold_channel_moments m = refold_window_moments(window, c);
        float weight = source->weight[c];
        float mean = weight * (m.mean - source->mean[c]);
        float deviation = weight * (sqrtf(m.variance) - sqrtf(source->variance[c]));

        means = means + mean * mean;
        deviations = deviations + deviation * deviation;
    }
    return sqrtf(means) + sqrtf(deviations);
}

float refold_fitness(float entropy_sum, uint32_t images, float lambda,
                     float discrepancy_sum)
{
    return entropy_sum / (float)images + lambda * discrepancy_sum;
}
