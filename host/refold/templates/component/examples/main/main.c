/*
 * Runs the golden inputs through the network and compares every logit with what
 * refold's host model computed: PASS where all are equal.
 */
#include <stdio.h>

#include "golden.h"
#include "model.h"
#include "refold/refold.h"

static REFOLD_ALIGNED uint8_t arena[REFOLD_MODEL_ARENA_BYTES];

/* The logits of one image that differ from the host model's; -1: an error. */
static int mismatches(refold_ctx *ctx, int image)
{
    const int32_t *expected = golden_logits + (size_t)image * REFOLD_MODEL_OUTPUTS;
    static int32_t logits[REFOLD_MODEL_OUTPUTS];
    int wrong = 0;

    if (refold_infer(ctx, golden_inputs + (size_t)image * REFOLD_MODEL_INPUT_BYTES,
                     logits) < 0)
        return -1;
    for (int i = 0; i < REFOLD_MODEL_OUTPUTS; i++)
        wrong += logits[i] != expected[i];
    return wrong;
}

static int run(void)
{
    refold_ctx *ctx;
    refold_status status = refold_init(&ctx, &refold_model_data, arena, sizeof arena);
    int failed = 0;

    if (status < 0) {
        printf("FAIL: refold_init: status %d\n", (int)status);
        return 1;
    }
    for (int image = 0; image < GOLDEN_IMAGES; image++) {
        int wrong = mismatches(ctx, image);

        printf("image %d: %d of %d logits differ\n", image, wrong, REFOLD_MODEL_OUTPUTS);
        failed |= wrong != 0;
    }
    printf("%s\n", failed ? "FAIL" : "PASS");
    return failed;
}

#if defined ESP_PLATFORM
void app_main(void);

void app_main(void)
{
    run();
}
#else
int main(void)
{
    return run();
}
#endif
