/*
 * The saved record of docs/numerics.md: header, E1, E2, W1, CRC-32.
 *
 * A record comes from flash or over the link and is untrusted: nothing is taken
 * from it before its length, identity, CRC and values have been checked.
 */
#include <string.h>

#include "context.h"
#include "crc32.h"
#include "bytes.h"
#include "pace_record.h"

#define VERSION 2
#define CRC_BYTES 4
#define MOMENTS 3

/* Offsets within the header. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_RULE = 6,
    AT_PHASE = 7,
    AT_SHA256 = 8,
    AT_IMAGES = 40,
    AT_CHANNELS = 44,
    AT_WINDOW = 48,
    AT_SCORE = 52,
    HEADER_BYTES = 56
};

/* Far beyond any stream's moments, and small enough for the table's int64. */
#define MEAN_LIMIT 2147483648.0f           /* 2^31 */
#define SECOND_LIMIT 4611686018427387904.0f /* 2^62 */

static const uint8_t magic[4] = {'R', 'F', 'S', 'T'};

/* Of the running statistics; every record begins with them. */
static size_t statistics_record_bytes(const refold_model *model)
{
    if (refold_adapt_bytes(model) == 0)
        return 0;
    return HEADER_BYTES + MOMENTS * sizeof(float) * (size_t)model->site_channels + CRC_BYTES;
}

size_t refold_adapt_state_bytes(const refold_model *model)
{
    size_t bytes = statistics_record_bytes(model);

    if (model->pace != NULL)
        bytes += refold_pace_record_bytes(model, model->pace->dimension);
    return bytes;
}

size_t refold_adapt_record_bytes(const refold_ctx *ctx)
{
    size_t bytes = statistics_record_bytes(ctx->model);

    if (ctx->config.method & REFOLD_METHOD_PACE)
        bytes += refold_pace_record_bytes(ctx->model, ctx->config.dimension);
    return bytes;
}

static void put_header(const refold_ctx *ctx, uint8_t *record)
{
    memcpy(record + AT_MAGIC, magic, sizeof magic);
    put_u16(record + AT_VERSION, VERSION);
    record[AT_RULE] = ctx->config.rule;
    record[AT_PHASE] = ctx->gate.phase;
    memcpy(record + AT_SHA256, ctx->model->sha256, sizeof ctx->model->sha256);
    put_u32(record + AT_IMAGES, ctx->images);
    put_u32(record + AT_CHANNELS, ctx->model->site_channels);
    put_u32(record + AT_WINDOW, ctx->gate.images);
    put_f32(record + AT_SCORE, ctx->shift_score);
}

/* The arrays of the record, in its order. */
static void list_moments(const refold_ctx *ctx, float *arrays[MOMENTS])
{
    arrays[0] = ctx->e1;
    arrays[1] = ctx->e2;
    arrays[2] = ctx->w1;
}

refold_status refold_adapt_save(const refold_ctx *ctx, void *buffer, size_t bytes)
{
    size_t needed = statistics_record_bytes(ctx->model);
    uint32_t channels = ctx->model->site_channels;
    uint8_t *record = buffer;
    uint8_t *at = record + HEADER_BYTES;
    float *arrays[MOMENTS];

    if (needed == 0)
        return REFOLD_ERROR_UNSUPPORTED;
    if (bytes < refold_adapt_record_bytes(ctx))
        return REFOLD_ERROR_SIZE;
    put_header(ctx, record);
    list_moments(ctx, arrays);
    for (int i = 0; i < MOMENTS; i++)
        for (uint32_t c = 0; c < channels; c++, at += 4)
            put_f32(at, arrays[i][c]);
    put_u32(at, refold_crc32(0, record, needed - CRC_BYTES));
    if (ctx->config.method & REFOLD_METHOD_PACE)
        refold_pace_save(ctx->pace, record + needed);
    return REFOLD_OK;
}

/* Is every one of `count` floats within +-limit? A NaN is not. */
static bool all_within(const uint8_t *at, uint32_t count, float limit)
{
    for (uint32_t i = 0; i < count; i++) {
        float value = get_f32(at + 4 * (size_t)i);
        if (!(value >= -limit && value <= limit))
            return false;
    }
    return true;
}

/* Are so many images what a window in that phase can count? */
static bool holds_window(const uint8_t *record)
{
    refold_gate gate = {.phase = record[AT_PHASE]};

    return get_u32(record + AT_WINDOW) <= (uint32_t)refold_gate_window(&gate);
}

static bool is_ours(const refold_ctx *ctx, const uint8_t *record)
{
    const refold_model *model = ctx->model;
    size_t bytes = statistics_record_bytes(model);
    uint32_t channels = model->site_channels;
    const uint8_t *first = record + HEADER_BYTES;
    size_t array_bytes = sizeof(float) * (size_t)channels;

    return memcmp(record + AT_MAGIC, magic, sizeof magic) == 0 &&
           get_u16(record + AT_VERSION) == VERSION &&
           record[AT_RULE] == ctx->config.rule && record[AT_PHASE] <= REFOLD_PHASE_RECHECK &&
           memcmp(record + AT_SHA256, model->sha256, sizeof model->sha256) == 0 &&
           get_u32(record + AT_CHANNELS) == channels &&
           holds_window(record) &&
           get_u32(record + bytes - CRC_BYTES) ==
               refold_crc32(0, record, bytes - CRC_BYTES) &&
           all_within(record + AT_SCORE, 1, MEAN_LIMIT) &&
           all_within(first, channels, MEAN_LIMIT) &&
           all_within(first + array_bytes, channels, SECOND_LIMIT) &&
           all_within(first + 2 * array_bytes, channels, MEAN_LIMIT);
}

refold_status refold_adapt_load(refold_ctx *ctx, const void *buffer, size_t bytes)
{
    uint32_t channels = ctx->model->site_channels;
    const uint8_t *record = buffer;
    const uint8_t *at = record + HEADER_BYTES;
    float *arrays[MOMENTS];

    if (refold_adapt_state_bytes(ctx->model) == 0)
        return REFOLD_ERROR_UNSUPPORTED;
    refold_adapt_reset(ctx);
    if (bytes != refold_adapt_record_bytes(ctx) || !is_ours(ctx, record))
        return REFOLD_ERROR_STATE;
    if ((ctx->config.method & REFOLD_METHOD_PACE) &&
        !refold_pace_load(ctx->pace, record + statistics_record_bytes(ctx->model)))
        return REFOLD_ERROR_STATE;
    ctx->images = get_u32(record + AT_IMAGES);
    ctx->gate.phase = record[AT_PHASE];
    ctx->gate.images = (uint8_t)get_u32(record + AT_WINDOW);
    ctx->shift_score = get_f32(record + AT_SCORE);
    list_moments(ctx, arrays);
    for (int i = 0; i < MOMENTS; i++)
        for (uint32_t c = 0; c < channels; c++, at += 4)
            arrays[i][c] = get_f32(at);
    refold_adapt_retable(ctx);
    return REFOLD_OK;
}
