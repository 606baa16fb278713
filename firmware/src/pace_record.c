#include "pace_record.h"

#include <float.h>
#include <string.h>

#include "bytes.h"
#include "crc32.h"

#define VERSION 2
#define CRC_BYTES 4

/* Offsets within the header. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_FLAGS = 6,
    AT_BANK = 7,
    AT_SHA256 = 8,
    AT_SITES = 40,
    AT_SEED = 72,
    AT_DIMENSION = 76,
    AT_GENERATIONS = 78,
    AT_TOLD = 80,
    AT_WINDOWS = 84,
    HEADER_BYTES = 88
};

enum { PAUSED = 1, CHOOSING = 2, STRANGE = 4 };

#define MAX_BLOCKS 9

static const uint8_t magic[4] = {'R', 'F', 'P', 'C'};

/* Floats that a record holds one after the other. */
typedef struct block {
    float *values;
    uint32_t count;
} block;

static void list_blocks(refold_pace *pace, block blocks[MAX_BLOCKS])
{
    const refold_model *model = pace->space.model;
    uint32_t d = pace->cma.config.dimension;

    blocks[0] = (block){&pace->cma.sigma, 1};
    blocks[1] = (block){&pace->cma.path_decay, 1};
    blocks[2] = (block){&pace->cma.change, 1};
    blocks[3] = (block){pace->cma.mean, REFOLD_CMA_STATE_FLOATS(d)};
    blocks[4] = (block){pace->bank.vectors, REFOLD_BANK_FLOATS(model->pace->bank, d)};
    blocks[5] = (block){pace->shift.mean, REFOLD_SHIFT_FLOATS(pace->shift.channels)};
    blocks[6] = (block){pace->confidence.expected, model->output_count};
    blocks[7] = (block){pace->found, d};
    blocks[8] = (block){pace->back.mean, pace->back.channels};
}

size_t refold_pace_record_bytes(const refold_model *model, uint32_t d)
{
    const refold_pace_plan *plan = model->pace;
    size_t watched = model->sites[refold_pace_watched(model)].channels;
    size_t floats = 3 + REFOLD_CMA_STATE_FLOATS(d) + REFOLD_BANK_FLOATS(plan->bank, d) +
                    REFOLD_SHIFT_FLOATS(watched) + model->output_count + d +
                    plan->features;

    return HEADER_BYTES + sizeof(float) * floats + CRC_BYTES;
}

static void put_identity(const refold_pace *pace, uint8_t *record)
{
    const refold_model *model = pace->space.model;

    memcpy(record + AT_MAGIC, magic, sizeof magic);
    put_u16(record + AT_VERSION, VERSION);
    memcpy(record + AT_SHA256, model->sha256, sizeof model->sha256);
    memcpy(record + AT_SITES, model->pace->sites, sizeof model->pace->sites);
    put_u32(record + AT_SEED, pace->cma.config.seed);
    put_u16(record + AT_DIMENSION, pace->cma.config.dimension);
}

/* What is no longer used is saved as empty: equal searches have equal records. */
static void blank_unused(refold_pace *pace)
{
    const refold_bank *bank = &pace->bank;
    uint32_t used = REFOLD_BANK_FLOATS(bank->count, bank->dimension);
    uint32_t all = REFOLD_BANK_FLOATS(bank->capacity, bank->dimension);

    for (uint32_t i = used; i < all; i++)
        bank->vectors[i] = 0.0f;
    if (pace->shift.windows == 0)
        memset(pace->shift.mean, 0,
               REFOLD_SHIFT_FLOATS(pace->shift.channels) * sizeof(float));
}

void refold_pace_save(refold_pace *pace, uint8_t *record)
{
    size_t bytes = refold_pace_record_bytes(pace->space.model,
                                            pace->cma.config.dimension);
    uint8_t *at = record + HEADER_BYTES;
    block blocks[MAX_BLOCKS];

    put_identity(pace, record);
    record[AT_FLAGS] = (uint8_t)((pace->paused ? PAUSED : 0) |
                                 (pace->choosing ? CHOOSING : 0) |
                                 (pace->strange ? STRANGE : 0));
    record[AT_BANK] = pace->bank.count;
    put_u16(record + AT_GENERATIONS, pace->generations);
    put_u32(record + AT_TOLD, pace->cma.generation);
    put_u32(record + AT_WINDOWS, pace->shift.windows);
    blank_unused(pace);
    list_blocks(pace, blocks);
    for (int b = 0; b < MAX_BLOCKS; b++)
        for (uint32_t i = 0; i < blocks[b].count; i++, at += 4)
            put_f32(at, blocks[b].values[i]);
    put_u32(at, refold_crc32(0, record, bytes - CRC_BYTES));
}

/* Neither infinite nor NaN, all of them. */
static bool all_finite(const uint8_t *at, const uint8_t *end)
{
    for (; at < end; at += 4) {
        float value = get_f32(at);
        if (!(value >= -FLT_MAX && value <= FLT_MAX))
            return false;
    }
    return true;
}

static bool is_ours(const refold_pace *pace, const uint8_t *record, size_t bytes)
{
    uint8_t expected[AT_GENERATIONS] = {0};
    const uint8_t *crc = record + bytes - CRC_BYTES;

    put_identity(pace, expected);
    expected[AT_FLAGS] = record[AT_FLAGS];
    expected[AT_BANK] = record[AT_BANK];
    return memcmp(record, expected, sizeof expected) == 0 &&
           record[AT_FLAGS] <= (PAUSED | CHOOSING | STRANGE) &&
           record[AT_BANK] <= pace->bank.capacity &&
           get_u32(crc) == refold_crc32(0, record, bytes - CRC_BYTES) &&
           all_finite(record + HEADER_BYTES, crc);
}

bool refold_pace_load(refold_pace *pace, const uint8_t *record)
{
    size_t bytes = refold_pace_record_bytes(pace->space.model,
                                            pace->cma.config.dimension);
    const uint8_t *at = record + HEADER_BYTES;
    block blocks[MAX_BLOCKS];

    if (!is_ours(pace, record, bytes))
        return false;
    pace->paused = (record[AT_FLAGS] & PAUSED) != 0;
    pace->choosing = (record[AT_FLAGS] & CHOOSING) != 0;
    pace->strange = (record[AT_FLAGS] & STRANGE) != 0;
    pace->bank.count = record[AT_BANK];
    pace->generations = get_u16(record + AT_GENERATIONS);
    pace->cma.generation = get_u32(record + AT_TOLD);
    pace->shift.windows = get_u32(record + AT_WINDOWS);
    list_blocks(pace, blocks);
    for (int b = 0; b < MAX_BLOCKS; b++)
        for (uint32_t i = 0; i < blocks[b].count; i++, at += 4)
            blocks[b].values[i] = get_f32(at);
    pace->cma.injected_count = 0;
    refold_space_go(&pace->space, pace->found);
    refold_pace_empty(pace);
    return true;
}
