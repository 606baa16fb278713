#include "confidence.h"

#include "fp32.h"
#include "pace/fitness.h"

#define PROBABILITY_ONE 32768.0f
/* Of one image in the running mean prediction. */
#define EXPECT_RATE 0.02f
/* Of the window in the mean prediction that the loss judges. */
#define WINDOW_PART (1.0f / 3.0f)
/* p ln p of less is nothing, and refold_log32 needs a normal number. */
#define PROBABILITY_MIN 1e-9f

void refold_confidence_reset(refold_confidence *confidence)
{
    uint32_t count = confidence->model->output_count;

    for (uint32_t i = 0; i < count; i++)
        confidence->expected[i] = 1.0f / (float)count;
}

void refold_confidence_expect(refold_confidence *confidence, const int32_t *logits)
{
    const refold_model *model = confidence->model;
    float *expected = confidence->expected;

    refold_softmax(model->softmax, logits, model->output_count,
                   confidence->probabilities);
    for (uint32_t i = 0; i < model->output_count; i++) {
        float p = (float)confidence->probabilities[i] / PROBABILITY_ONE;
        expected[i] = expected[i] + EXPECT_RATE * (p - expected[i]);
    }
}

void refold_confidence_clear(refold_confidence *confidence)
{
    confidence->images = 0;
    confidence->entropy_sum = 0.0f;
    for (uint32_t i = 0; i < confidence->model->output_count; i++)
        confidence->sums[i] = 0;
}

void refold_confidence_add(refold_confidence *confidence, const int32_t *logits)
{
    const refold_model *model = confidence->model;

    confidence->images++;
    confidence->entropy =
        refold_entropy(logits, model->output_count, model->outputs[0].scale);
    confidence->entropy_sum = confidence->entropy_sum + confidence->entropy;
    refold_softmax(model->softmax, logits, model->output_count,
                   confidence->probabilities);
    for (uint32_t i = 0; i < model->output_count; i++)
        confidence->sums[i] += confidence->probabilities[i];
}

float refold_confidence_part(const refold_confidence *confidence)
{
    float part = confidence->entropy;

    for (uint32_t i = 0; i < confidence->model->output_count; i++) {
        float expected = confidence->expected[i];
        float p = (float)confidence->probabilities[i] / PROBABILITY_ONE;
        if (expected > PROBABILITY_MIN)
            part = part + WINDOW_PART * p * refold_log32(expected);
    }
    return part;
}

float refold_confidence_variety(const refold_confidence *confidence)
{
    float whole = (float)confidence->images * PROBABILITY_ONE;
    float variety = 0.0f;

    for (uint32_t i = 0; i < confidence->model->output_count; i++) {
        float expected = confidence->expected[i];
        float p = expected + WINDOW_PART * ((float)confidence->sums[i] / whole - expected);
        if (p > PROBABILITY_MIN)
            variety = variety - p * refold_log32(p);
    }
    return variety;
}
