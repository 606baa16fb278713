/*
 * Runs one image through an emitted model whose kernels are those of the ESP32-S3
 * on the C model of its instructions, and prints what each layer executed: a line
 * of five numbers, in the order of enum refold_pie_class.
 *
 * The arguments are the numbers of the sites that adapt.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/esp32s3/pie.h"
#include "model.h"
#include "refold/refold.h"

static uint32_t counted[PIE_CLASSES];

void refold_pie_counted(const refold_pie *pie)
{
    for (int i = 0; i < PIE_CLASSES; i++)
        counted[i] += pie->count[i];
}

static void print_layer(void *user, uint16_t layer, const void *data, uint32_t bytes)
{
    (void)user, (void)layer, (void)data, (void)bytes;
    for (int i = 0; i < PIE_CLASSES; i++)
        printf("%u%c", (unsigned)counted[i], i < PIE_CLASSES - 1 ? ' ' : '\n');
    memset(counted, 0, sizeof counted);
}

int main(int argc, char **argv)
{
    static uint8_t arena[REFOLD_MODEL_ARENA_BYTES]
        __attribute__((aligned(REFOLD_ALIGNMENT)));
    static uint8_t input[REFOLD_MODEL_INPUT_BYTES];
    static int32_t output[REFOLD_MODEL_OUTPUTS];
    refold_adapt_config config;
    refold_ctx *ctx;

    if (refold_init(&ctx, &refold_model_data, arena, sizeof arena) < 0)
        return 1;
    refold_adapt_defaults(&refold_model_data, &config);
    config.method = argc > 1 ? REFOLD_METHOD_FORGE : REFOLD_METHOD_OFF;
    memset(config.sites, 0, sizeof config.sites);
    for (int i = 1; i < argc; i++) {
        int site = atoi(argv[i]);
        config.sites[site / 8] |= (uint8_t)(1 << site % 8);
    }
    if (refold_adapt_set(ctx, &config) < 0)
        return 1;
    refold_set_trace(ctx, print_layer, NULL);
    return refold_infer(ctx, input, output) < 0;
}
