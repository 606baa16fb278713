/* Softmax of the logits in integers; for confidence, never part of the logits. */
#include "refold/refold.h"

static int32_t largest(const int32_t *logits, uint32_t count)
{
    int32_t max = logits[0];

    for (uint32_t i = 1; i < count; i++)
        max = logits[i] > max ? logits[i] : max;
    return max;
}

void refold_softmax(const refold_softmax_table *table, const int32_t *logits,
                    uint32_t count, uint16_t *probabilities)
{
    int32_t max = largest(logits, count);
    uint32_t sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t below = ((uint32_t)max - (uint32_t)logits[i]) >> table->shift;
        probabilities[i] = table->exp[below < 255 ? below : 255];
        sum += probabilities[i];
    }
    for (uint32_t i = 0; i < count; i++)
        probabilities[i] = (uint16_t)(((uint32_t)probabilities[i] << 15) / sum);
}
