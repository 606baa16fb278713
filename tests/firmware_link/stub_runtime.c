/*
 * A runtime without a network, for tests of the link: its answers depend on
 * every image it has run since the last reset, in their order, so that an image
 * run twice, out of order or with a wrong byte shows in all later logits.
 *
 * Its one layer, for the trace, copies the image.
 *
 *     history <- crc32(image, continuing history)     logits[i] = history + i
 */
#include "stub_runtime.h"

#include <string.h>

#include "../../firmware/src/crc32.h"

static struct refold_ctx {
    const refold_model *model;
    refold_adapt_config config;
    refold_report report;
    uint32_t history;
    uint32_t images;
    uint32_t fails_at;
    refold_trace trace;
    void *trace_user;
} stub;

uint32_t stub_images(void)
{
    return stub.images;
}

void stub_fail_at(uint32_t image)
{
    stub.fails_at = image;
}

size_t refold_arena_bytes(const refold_model *model)
{
    return model->activation_bytes;
}

refold_status refold_init(refold_ctx **ctx, const refold_model *model, void *arena,
                          size_t arena_bytes)
{
    (void)arena;
    (void)arena_bytes;
    memset(&stub, 0, sizeof stub);
    stub.model = model;
    stub.fails_at = UINT32_MAX;
    *ctx = &stub;
    return REFOLD_OK;
}

refold_status refold_infer(refold_ctx *ctx, const void *input, int32_t *logits)
{
    if (ctx->images == ctx->fails_at)
        return REFOLD_ERROR_SIZE;
    ctx->history = refold_crc32(ctx->history, input, ctx->model->input_bytes);
    for (uint32_t i = 0; i < ctx->model->output_count; i++)
        logits[i] = (int32_t)(ctx->history + i);
    for (uint16_t i = 0; ctx->trace && i < ctx->model->layer_count; i++)
        ctx->trace(ctx->trace_user, i, input, i == 0 ? ctx->model->input_bytes : 0);
    ctx->images++;
    ctx->report.shift_score = 0.25f;
    ctx->report.infer_us = 500;
    ctx->report.adapt_us = 20;
    ctx->report.search_us = 7;
    ctx->report.forward_passes = 1;
    ctx->report.adapted = ctx->config.method != REFOLD_METHOD_OFF;
    ctx->report.gate = REFOLD_GATE_NONE;
    return REFOLD_OK;
}

void refold_set_clock(refold_ctx *ctx, refold_clock clock)
{
    (void)ctx;
    (void)clock;
}

void refold_set_trace(refold_ctx *ctx, refold_trace trace, void *user)
{
    ctx->trace = trace;
    ctx->trace_user = user;
}

const refold_report *refold_last(const refold_ctx *ctx)
{
    return &ctx->report;
}

refold_status refold_adapt_set(refold_ctx *ctx, const refold_adapt_config *config)
{
    if (config->interval == 0 || !(config->shrinkage >= 0.0f))
        return REFOLD_ERROR_CONFIG;
    ctx->config = *config;
    return REFOLD_OK;
}

void refold_adapt_get(const refold_ctx *ctx, refold_adapt_config *config)
{
    *config = ctx->config;
}

void refold_adapt_reset(refold_ctx *ctx)
{
    ctx->history = 0;
}

void refold_adapt_search(refold_ctx *ctx)
{
    (void)ctx;
}

/* The state: the history, then bytes that count up from it. */
size_t refold_adapt_state_bytes(const refold_model *model)
{
    return model->site_channels;
}

size_t refold_adapt_record_bytes(const refold_ctx *ctx)
{
    return refold_adapt_state_bytes(ctx->model);
}

refold_status refold_adapt_save(const refold_ctx *ctx, void *buffer, size_t bytes)
{
    uint8_t *p = buffer;

    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(i < 4 ? ctx->history >> 8 * i : ctx->history + i);
    return REFOLD_OK;
}

refold_status refold_adapt_load(refold_ctx *ctx, const void *buffer, size_t bytes)
{
    const uint8_t *p = buffer;
    uint32_t history =
        p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;

    for (size_t i = 4; i < bytes; i++)
        if (p[i] != (uint8_t)(history + i)) {
            ctx->history = 0;
            return REFOLD_ERROR_STATE;
        }
    ctx->history = history;
    return REFOLD_OK;
}
