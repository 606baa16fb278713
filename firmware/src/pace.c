#include "pace.h"

#include <string.h>

#include "context.h"
#include "pace/fitness.h"
#include "pace/paired.h"
#include "refold/arena.h"

typedef char refold_proof_pace_fits[sizeof(refold_pace) <= REFOLD_PACE_HEAD_BYTES ? 1
                                                                                  : -1];

/* Of the old reference when a window joins it, as published. */
#define SHIFT_KEEP 0.8f
/* Of an image in the features' running mean. */
#define SOURCE_RATE (1.0f / 160.0f)
/* Least variance of a feature, as a part of the target's. */
#define VARIANCE_FLOOR (1.0f / 256.0f)

/* --- memory -------------------------------------------------------------------- */

int refold_pace_watched(const refold_model *model)
{
    int site = 0;

    while (!refold_space_moves(model, site))
        site++;
    return site;
}

/* Floats, sums and bytes that the arrays of refold_pace take. */
static size_t array_bytes(const refold_model *model)
{
    const refold_pace_plan *plan = model->pace;
    size_t watched = model->sites[refold_pace_watched(model)].channels;
    size_t floats = 2u * plan->window + plan->features +
                    REFOLD_CMA_FLOATS(plan->dimension) +
                    REFOLD_BANK_FLOATS(plan->bank, plan->dimension) +
                    REFOLD_SHIFT_FLOATS(watched) + watched + 2u * plan->dimension +
                    refold_fastfood_floats(2u * plan->channels) +
                    2u * (size_t)plan->channels;

    return 2 * sizeof(int64_t) * (watched + plan->features) + sizeof(float) * floats +
           (3 * sizeof(float) + sizeof(uint16_t)) * model->output_count +
           (size_t)plan->window * plan->kept_bytes;
}

size_t refold_pace_bytes(const refold_model *model)
{
    if (model->pace == NULL)
        return 0;
    return REFOLD_ALIGN_UP(REFOLD_PACE_HEAD_BYTES + array_bytes(model));
}

static void *take(uint8_t **memory, size_t bytes)
{
    void *taken = *memory;

    *memory += bytes;
    return taken;
}

/* Widest elements first, so that each array is aligned by the one before. */
static void divide(refold_pace *pace, const refold_model *model, uint8_t *memory)
{
    const refold_pace_plan *plan = model->pace;
    size_t watched = model->sites[refold_pace_watched(model)].channels;
    size_t outputs = model->output_count;
    size_t d = plan->dimension;

    pace->window.s1 = take(&memory, watched * sizeof(int64_t));
    pace->window.s2 = take(&memory, watched * sizeof(int64_t));
    pace->features.s1 = take(&memory, plan->features * sizeof(int64_t));
    pace->features.s2 = take(&memory, plan->features * sizeof(int64_t));
    pace->cma.mean = take(&memory, REFOLD_CMA_FLOATS(d) * sizeof(float));
    pace->bank.vectors = take(&memory, plan->bank * d * sizeof(float));
    pace->shift.mean = take(&memory, watched * sizeof(float));
    pace->shift.variance = take(&memory, watched * sizeof(float));
    pace->floor = take(&memory, watched * sizeof(float));
    pace->point = take(&memory, d * sizeof(float));
    pace->found = take(&memory, d * sizeof(float));
    pace->back.mean = take(&memory, plan->features * sizeof(float));
    pace->parts = take(&memory, 2u * plan->window * sizeof(float));
    pace->space.theta = take(
        &memory, refold_fastfood_floats(2u * plan->channels) * sizeof(float));
    pace->space.gain = take(&memory, plan->channels * sizeof(float));
    pace->space.offset = take(&memory, plan->channels * sizeof(float));
    pace->confidence.expected = take(&memory, outputs * sizeof(float));
    pace->confidence.sums = take(&memory, outputs * sizeof(uint32_t));
    pace->logits = take(&memory, outputs * sizeof(int32_t));
    pace->confidence.probabilities = take(&memory, outputs * sizeof(uint16_t));
    pace->images = memory;
}

refold_pace *refold_pace_init(const refold_model *model, uint8_t *memory)
{
    refold_pace *pace = (refold_pace *)(void *)memory;
    const refold_site *watched = &model->sites[refold_pace_watched(model)];

    memset(memory, 0, refold_pace_bytes(model)); /* a record holds unused floats, too */
    divide(pace, model, memory + REFOLD_PACE_HEAD_BYTES);
    pace->space.model = model;
    pace->confidence.model = model;
    pace->window.channels = watched->channels;
    pace->window.stat_shift = watched->stat_shift;
    pace->features.channels = model->pace->features;
    pace->shift.channels = watched->channels;
    pace->shift.keep = SHIFT_KEEP;
    pace->shift.floor = pace->floor;
    pace->back.channels = model->pace->features;
    pace->back.rate = SOURCE_RATE;
    pace->back.source = model->pace->feature_mean;
    for (int c = 0; c < watched->channels; c++)
        pace->floor[c] = watched->variance[c] * VARIANCE_FLOOR;
    return pace;
}

/* --- configuration -------------------------------------------------------------- */

/* Comparisons are written so that a NaN fails them. */
bool refold_pace_allows(const refold_model *model, const refold_adapt_config *config)
{
    const refold_pace_plan *plan = model->pace;

    return plan != NULL && config->dimension <= plan->dimension &&
           config->window <= plan->window &&
           config->population >= REFOLD_CMA_POPULATION_MIN &&
           config->population <= REFOLD_CMA_POPULATION_MAX && config->sigma > 0.0f &&
           config->sigma <= REFOLD_SIGMA_MAX && config->lambda >= 0.0f &&
           config->lambda <= REFOLD_LAMBDA_MAX &&
           (config->lambda == 0.0f || plan->features > 0) && config->settle >= 0.0f &&
           config->settle <= 1.0f && config->shift >= 0.0f &&
           config->shift <= REFOLD_SHIFT_MAX && config->accept >= 0.0f &&
           config->accept <= REFOLD_ACCEPT_MAX && config->source <= 1 &&
           (config->source == 0 || plan->features > 0);
}

void refold_pace_complete(const refold_model *model, refold_adapt_config *config)
{
    if (config->dimension == 0)
        config->dimension = model->pace->dimension;
    if (config->window == 0)
        config->window = model->pace->window;
}

static bool is_other_search(const refold_adapt_config *a, const refold_adapt_config *b)
{
    return a->seed != b->seed || a->dimension != b->dimension ||
           a->population != b->population || a->sigma != b->sigma;
}

void refold_pace_configure(refold_pace *pace, const refold_adapt_config *before,
                           const refold_adapt_config *config)
{
    if (!(before->method & REFOLD_METHOD_PACE) || is_other_search(before, config))
        refold_pace_reset(pace, config);
    refold_pace_empty(pace);
}

void refold_pace_reset(refold_pace *pace, const refold_adapt_config *config)
{
    const refold_pace_plan *plan = pace->space.model->pace;
    refold_cma_config cma = {config->seed, config->dimension, config->population, 1};

    refold_cma_init(&pace->cma, &cma, pace->cma.mean);
    pace->bank.dimension = config->dimension;
    pace->bank.capacity = plan->bank;
    pace->bank.count = 0;
    pace->space.map.seed = config->seed;
    pace->space.map.inputs = config->dimension;
    pace->space.map.outputs = 2u * plan->channels;
    pace->generations = 0;
    pace->passes = 0;
    pace->search_us = 0;
    refold_confidence_reset(&pace->confidence);
    refold_pace_change(pace, config);
    refold_pace_empty(pace);
}

void refold_pace_empty(refold_pace *pace)
{
    pace->kept = 0;
    refold_window_clear(&pace->window);
}

void refold_pace_change(refold_pace *pace, const refold_adapt_config *config)
{
    if (pace->generations > 0 && refold_pace_has_moved(pace))
        refold_bank_insert(&pace->bank, pace->found);
    refold_cma_restart(&pace->cma, NULL, config->sigma);
    memset(pace->found, 0, config->dimension * sizeof(float));
    refold_space_go(&pace->space, pace->found);
    refold_source_shift_reset(&pace->back);
    pace->generations = 0;
    pace->paused = false;
    pace->choosing = pace->bank.count > 0;
    pace->strange = false;
    pace->shift.windows = 0;
}

bool refold_pace_has_moved(const refold_pace *pace)
{
    for (uint32_t i = 0; i < pace->cma.config.dimension; i++)
        if (pace->found[i] != 0.0f)
            return true;
    return false;
}

/* --- an image ------------------------------------------------------------------- */

void refold_pace_watch(refold_pace *pace, const refold_moments *moments,
                       uint32_t pixels)
{
    refold_window_add(&pace->window, moments->s1, moments->s2, pixels);
}

void refold_pace_report(refold_pace *pace, refold_report *report)
{
    report->forward_passes = (uint16_t)(report->forward_passes + pace->passes);
    report->search_us = pace->search_us;
    report->adapt_us += pace->search_us;
    report->adapted = !pace->paused;
    pace->passes = 0;
    pace->search_us = 0;
}

static uint8_t *image_at(const refold_pace *pace, uint32_t index)
{
    return pace->images + (size_t)index * pace->space.model->pace->kept_bytes;
}

void refold_pace_take(refold_pace *pace, const void *kept)
{
    pace->taken = pace->kept;
    memcpy(image_at(pace, pace->taken), kept, pace->space.model->pace->kept_bytes);
}

/* The window may have been emptied while the image ran. */
void refold_pace_keep(refold_pace *pace, const int32_t *logits)
{
    if (pace->taken != pace->kept)
        memcpy(image_at(pace, pace->kept), image_at(pace, pace->taken),
               pace->space.model->pace->kept_bytes);
    pace->kept++;
    refold_confidence_expect(&pace->confidence, logits);
}

static void add_features(refold_pace *pace, const int8_t *features)
{
    refold_window *window = &pace->features;

    window->count++;
    for (uint32_t c = 0; c < window->channels; c++) {
        window->s1[c] += features[c];
        window->s2[c] += features[c] * features[c];
    }
}

void refold_pace_features(refold_ctx *ctx, int8_t *features)
{
    refold_pace *pace = ctx->pace;

    if (ctx->rehearsing)
        add_features(pace, features);
    if (!ctx->config.source)
        return;
    if (!ctx->rehearsing)
        refold_source_shift_absorb(&pace->back, features);
    refold_source_shift_apply(&pace->back, features);
}

/* --- a full window -------------------------------------------------------------- */

/* The loss of the images rehearsed. */
static float loss(const refold_pace *pace, float lambda)
{
    const refold_pace_plan *plan = pace->space.model->pace;
    refold_source source = {plan->feature_mean, plan->feature_variance,
                            plan->feature_weight};
    float fitness = refold_fitness(pace->confidence.entropy_sum, pace->kept, lambda,
                                   refold_discrepancy(&pace->features, &source));

    return fitness - refold_confidence_variety(&pace->confidence);
}

/*
 * The loss of v [d]: every image of the window runs under its targets. What each has
 * in the loss goes to parts [kept], unless NULL.
 */
static float judge(refold_ctx *ctx, const float *v, float *parts)
{
    refold_pace *pace = ctx->pace;

    refold_space_go(&pace->space, v);
    refold_adapt_move(ctx);
    refold_confidence_clear(&pace->confidence);
    refold_window_clear(&pace->features);
    for (uint32_t i = 0; i < pace->kept; i++) {
        refold_rehearse(ctx, image_at(pace, i), pace->logits);
        refold_confidence_add(&pace->confidence, pace->logits);
        if (parts != NULL)
            parts[i] = refold_confidence_part(&pace->confidence);
    }
    pace->passes = (uint16_t)(pace->passes + pace->kept);
    return loss(pace, ctx->config.lambda);
}

/* Starts from the stored vector, or none, that serves best; the next join in. */
static void choose_start(refold_ctx *ctx)
{
    refold_pace *pace = ctx->pace;
    const float *starts[REFOLD_BANK_STARTS];
    float losses[REFOLD_BANK_CAPACITY_MAX + 1];

    memset(pace->point, 0, pace->cma.config.dimension * sizeof(float));
    losses[0] = judge(ctx, pace->point, NULL);
    for (uint32_t i = 0; i < pace->bank.count; i++)
        losses[1 + i] = judge(ctx, refold_bank_vector(&pace->bank, i), NULL);
    uint32_t count = refold_bank_pick(&pace->bank, losses, starts);
    refold_cma_restart(&pace->cma, starts[0], ctx->config.sigma);
    for (uint32_t i = 1; i < count; i++)
        refold_cma_inject(&pace->cma, starts[i] != NULL ? starts[i] : pace->point);
    pace->choosing = false;
}

static void advance(refold_ctx *ctx)
{
    refold_pace *pace = ctx->pace;
    float losses[REFOLD_CMA_POPULATION_MAX];

    for (uint32_t i = 0; i < pace->cma.config.population; i++) {
        refold_cma_ask(&pace->cma, i, pace->point);
        losses[i] = judge(ctx, pace->point, NULL);
    }
    refold_cma_tell(&pace->cma, losses);
    pace->generations++;
    pace->paused = refold_cma_has_settled(&pace->cma, ctx->config.settle) ||
                   (ctx->config.generations != 0 &&
                    pace->generations >= ctx->config.generations);
}

/* Does the mean serve better than what is in force, by more than chance? */
static bool improves(refold_ctx *ctx)
{
    refold_pace *pace = ctx->pace;
    float *before = pace->parts;
    float *after = before + pace->kept;
    float gain = judge(ctx, pace->found, before);

    gain = gain - judge(ctx, pace->cma.mean, after);
    return gain > ctx->config.accept * refold_paired_error(before, after, pace->kept);
}

/*
 * One strange window may be chance where images differ more than their pixels do, as
 * under low contrast: it is neither searched nor absorbed. Two in a row are a change.
 */
static void look_for_change(refold_ctx *ctx)
{
    refold_pace *pace = ctx->pace;
    bool strange =
        refold_shift_distance(&pace->shift, &pace->window) > ctx->config.shift;

    if (strange && pace->strange)
        refold_pace_change(pace, &ctx->config);
    else
        pace->strange = strange;
}

void refold_pace_search(refold_ctx *ctx)
{
    refold_pace *pace = ctx->pace;
    uint32_t start = refold_now(ctx);

    if (pace->kept < ctx->config.window)
        return;
    look_for_change(ctx);
    if (!pace->paused && !pace->strange) {
        if (pace->choosing)
            choose_start(ctx);
        advance(ctx);
        refold_shift_absorb(&pace->shift, &pace->window);
        if (ctx->config.accept == 0.0f || improves(ctx))
            memcpy(pace->found, pace->cma.mean, ctx->config.dimension * sizeof(float));
        refold_space_go(&pace->space, pace->found);
        refold_adapt_move(ctx);
    }
    refold_pace_empty(pace);
    pace->search_us += refold_now(ctx) - start;
}
