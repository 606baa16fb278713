/*
 * Everything the runtime does, in one program for the address and undefined
 * behaviour sanitizers: buffers are exactly as large as the contracts say.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tiny_model.h"

#define IMAGES 40

#define CHECK(condition)                                             \
    do {                                                             \
        if (!(condition)) {                                          \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            exit(1);                                                 \
        }                                                            \
    } while (0)

static void look(void *user, uint16_t layer, const void *data, uint32_t bytes)
{
    const uint8_t *p = data;
    uint32_t *sum = user;

    for (uint32_t i = 0; i < bytes; i++)
        *sum += (uint32_t)(layer + 1) * p[i];
}

static void run_images(refold_ctx *ctx, const refold_model *model, uint8_t base)
{
    uint8_t *image = malloc(model->input_bytes);
    int32_t *logits = malloc(model->output_count * sizeof *logits);
    uint32_t sum = 0;

    refold_set_trace(ctx, look, &sum);
    for (int t = 0; t < IMAGES; t++) {
        memset(image, base + t, model->input_bytes);
        image[t] = 255;
        CHECK(refold_infer(ctx, image, logits) == REFOLD_OK);
    }
    CHECK(sum != 0);
    free(logits);
    free(image);
}

/* Save, then restore it whole, damaged in every byte, and cut short. */
static void exercise_state(refold_ctx *ctx, const refold_model *model)
{
    size_t bytes = refold_adapt_state_bytes(model);
    uint8_t *record = malloc(bytes);

    CHECK(refold_adapt_save(ctx, record, bytes) == REFOLD_OK);
    CHECK(refold_adapt_load(ctx, record, bytes) == REFOLD_OK);
    for (size_t i = 0; i < bytes; i++) {
        uint8_t *copy = malloc(i + 1);
        memcpy(copy, record, i + 1);
        copy[i] ^= 0x80;
        CHECK(refold_adapt_load(ctx, copy, i + 1) == REFOLD_ERROR_STATE);
        free(copy);
    }
    free(record);
}

static void exercise_modes(const refold_model *model)
{
    size_t bytes = refold_arena_bytes(model);
    void *arena = malloc(bytes); /* aligned for any type, 16 bytes here */
    refold_adapt_config config;
    refold_ctx *ctx;

    CHECK(refold_init(&ctx, model, arena, bytes) == REFOLD_OK);
    run_images(ctx, model, 0);
    refold_adapt_defaults(model, &config);
    for (uint8_t stats = 0; stats <= REFOLD_STATS_EXACT; stats++) {
        for (uint8_t rule = 0; rule <= REFOLD_RULE_PUBLISHED; rule++) {
            config.stats = stats;
            config.rule = rule;
            config.shrinkage = 1.0f;
            CHECK(refold_adapt_set(ctx, &config) == REFOLD_OK);
            run_images(ctx, model, 200);
            CHECK(refold_last(ctx)->adapted);
            exercise_state(ctx, model);
        }
    }
    free(arena);
}

static void exercise_int8(const refold_model *model)
{
    size_t bytes = refold_arena_bytes(model);
    void *arena = malloc(bytes); /* aligned for any type, 16 bytes here */
    refold_ctx *ctx;

    CHECK(refold_init(&ctx, model, arena, bytes) == REFOLD_OK);
    run_images(ctx, model, 0);
    free(arena);
}

static void exercise_softmax(void)
{
    static const refold_softmax_table table = {{32768, 16384, 1}, 4};
    const int32_t logits[] = {INT32_MIN, INT32_MAX, 0};
    uint16_t p[3];

    refold_softmax(&table, logits, 3, p);
    CHECK(p[0] == 0 && p[1] == 32768 && p[2] == 0);
}

int main(void)
{
    CHECK(refold_arena_bytes(&tiny_model) == TINY_ARENA_BYTES);
    exercise_modes(&tiny_model);
    exercise_int8(&tiny_int8_model);
    exercise_softmax();
    return 0;
}
