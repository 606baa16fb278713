/*
 * Adaptation of a stream: configuration, and what happens at each site when.
 * The arithmetic is in forge.c, the saved record in adapt_state.c.
 */
#include <string.h>

#include "context.h"
#include "refold/arena.h"

/* Images after a reset during which every one gets new tables. */
#define EAGER_IMAGES 32
#define LEAST_GRADE 1e-6f

static bool is_compiled_in(const refold_model *model)
{
    return model->adaptation != REFOLD_METHOD_OFF;
}

static size_t statistics_bytes(const refold_model *model)
{
    return REFOLD_ADAPT_BYTES((size_t)model->site_channels, (size_t)model->widest_site,
                              (size_t)model->site_count);
}

size_t refold_adapt_bytes(const refold_model *model)
{
    if (!is_compiled_in(model))
        return 0;
    return statistics_bytes(model) + refold_pace_bytes(model);
}

/* Hand out the next `bytes` of the arena. */
static void *take(uint8_t **memory, size_t bytes)
{
    void *taken = *memory;

    *memory += bytes;
    return taken;
}

/* Widest elements first, so that each array is aligned by the one before. */
static void divide(refold_ctx *ctx, uint8_t *memory)
{
    size_t channels = ctx->model->site_channels;
    size_t widest = ctx->model->widest_site;

    ctx->b = take(&memory, widest * sizeof *ctx->b);
    ctx->s1 = take(&memory, widest * sizeof *ctx->s1);
    ctx->s2 = take(&memory, widest * sizeof *ctx->s2);
    ctx->sites = take(&memory, ctx->model->site_count * sizeof *ctx->sites);
    ctx->e1 = take(&memory, channels * sizeof *ctx->e1);
    ctx->e2 = take(&memory, channels * sizeof *ctx->e2);
    ctx->w1 = take(&memory, channels * sizeof *ctx->w1);
    ctx->centre = take(&memory, channels * sizeof *ctx->centre);
    ctx->work = take(&memory, widest * sizeof *ctx->work);
    ctx->m = take(&memory, channels * sizeof *ctx->m);
}

void refold_adapt_init(refold_ctx *ctx, uint8_t *memory)
{
    refold_adapt_defaults(ctx->model, &ctx->config);
    ctx->config.method = REFOLD_METHOD_OFF;
    if (ctx->model->pace != NULL)
        refold_pace_complete(ctx->model, &ctx->config);
    if (is_compiled_in(ctx->model)) {
        uint32_t first = 0;
        divide(ctx, memory);
        for (int i = 0; i < ctx->model->site_count; i++) {
            ctx->sites[i].first = first;
            first += ctx->model->sites[i].channels;
        }
        if (ctx->model->pace != NULL)
            ctx->pace = refold_pace_init(ctx->model,
                                         memory + statistics_bytes(ctx->model));
    }
    refold_adapt_reset(ctx);
}

/* One site's view of the stream's state. */
static refold_forge view(const refold_ctx *ctx, int site)
{
    uint32_t first = ctx->sites[site].first;
    refold_forge forge = {
        .site = &ctx->model->sites[site],
        .rule = ctx->config.rule,
        .e1 = ctx->e1 + first,
        .e2 = ctx->e2 + first,
        .w1 = ctx->w1 + first,
        .m = ctx->m + first,
        .centre = ctx->centre + first,
        .b = ctx->b,
        .work = ctx->work,
    };
    return forge;
}

static bool forges(const refold_ctx *ctx, int site)
{
    return (ctx->config.method & REFOLD_METHOD_FORGE) != 0 &&
           (ctx->config.sites[site / 8] >> (site % 8) & 1) != 0;
}

static bool has_pace(const refold_ctx *ctx)
{
    return (ctx->config.method & REFOLD_METHOD_PACE) != 0;
}

/* Do recalibrated tables come into force? */
static bool recalibrates(const refold_ctx *ctx)
{
    return !(ctx->config.method & REFOLD_METHOD_FORGE) || !ctx->config.gate ||
           ctx->gate.phase == REFOLD_PHASE_OPEN;
}

/* Do the running statistics move? Not by static tables' images after others'. */
static bool absorbs(const refold_ctx *ctx)
{
    return !ctx->config.gate || ctx->gate.phase != REFOLD_PHASE_RECHECK;
}

/* The shrinkage of the coming image, by the score of the one before. */
static float graded(const refold_ctx *ctx)
{
    float a = ctx->config.shrinkage;
    float g = ctx->config.grade;

    return g == 0.0f ? a : a * (ctx->shift_score / (ctx->shift_score + g));
}

/* The site as PACE has moved it: *moved, which must outlive the view, or the model's. */
static refold_forge moved_view(const refold_ctx *ctx, int site, refold_site *moved)
{
    refold_forge forge = view(ctx, site);

    if (has_pace(ctx))
        forge.site = refold_space_site(&ctx->pace->space, site, moved);
    return forge;
}

/* PACE moves targets, FORGE tells where they are moved from: a = 0 without it. */
static void make_table(refold_ctx *ctx, int site)
{
    refold_site moved;
    refold_forge forge = moved_view(ctx, site, &moved);
    float shrinkage = forges(ctx, site) ? ctx->shrinkage : 0.0f;

    ctx->sites[site].shift = refold_forge_table(&forge, shrinkage);
}

/* The table in force, until the next site's. */
static refold_requant table(const refold_ctx *ctx, int site)
{
    refold_requant requant = *ctx->model->sites[site].requant;
    uint8_t shift = ctx->sites[site].shift;
    refold_site moved;

    if (shift != 0) {
        refold_forge forge = moved_view(ctx, site, &moved);
        refold_forge_biases(&forge, shift);
        requant.m = forge.m;
        requant.b = forge.b;
        requant.shift = shift;
    }
    return requant;
}

/* Has anything been learnt that a table of this site would show? */
static bool has_learnt(const refold_ctx *ctx, int site)
{
    return (forges(ctx, site) && ctx->images > 0) ||
           (has_pace(ctx) && refold_space_moves(ctx->model, site) &&
            refold_pace_has_moved(ctx->pace));
}

void refold_adapt_retable(refold_ctx *ctx)
{
    if (!is_compiled_in(ctx->model))
        return;
    ctx->shrinkage = graded(ctx);
    for (int i = 0; i < ctx->model->site_count; i++) {
        ctx->sites[i].shift = 0;
        if (recalibrates(ctx) && has_learnt(ctx, i))
            make_table(ctx, i);
    }
}

void refold_adapt_move(refold_ctx *ctx)
{
    for (int i = 0; i < ctx->model->site_count; i++)
        if (refold_space_moves(ctx->model, i))
            make_table(ctx, i);
}

/* The arrays; the gate stays where it is. */
static void reset_statistics(refold_ctx *ctx)
{
    for (int i = 0; i < ctx->model->site_count; i++) {
        const refold_site *site = &ctx->model->sites[i];
        refold_forge forge = view(ctx, i);
        refold_forge_reset(&forge);
        memcpy(ctx->w1 + ctx->sites[i].first, site->clean, site->channels * sizeof *ctx->w1);
        ctx->sites[i].shift = 0;
    }
}

static void begin_again(refold_ctx *ctx)
{
    ctx->images = 0;
    ctx->shift_score = 0.0f;
    ctx->gate.phase = REFOLD_PHASE_CLOSED;
    ctx->gate.images = 0;
    if (is_compiled_in(ctx->model))
        reset_statistics(ctx);
}

void refold_adapt_reset(refold_ctx *ctx)
{
    begin_again(ctx);
    if (ctx->pace != NULL)
        refold_pace_reset(ctx->pace, &ctx->config);
}

void refold_adapt_defaults(const refold_model *model, refold_adapt_config *config)
{
    refold_adapt_config defaults = {
        .method = REFOLD_METHOD_FORGE,
        .stats = REFOLD_STATS_LAGGED,
        .rule = REFOLD_RULE_REFOLD,
        .gate = 1,
        .interval = 1,
        .warm = 8,
        .shrinkage = model->default_shrinkage,
        .momentum = 1.0f / 640.0f,
        .grade = 0.0f,
        .seed = 1,
        .generations = 20,
        .population = 12,
        .sigma = 0.03f,
        .lambda = 0.0f,
        .settle = 0.0f,
        .shift = 0.4f,
        .accept = 0.0f,
        .source = 0,
    };

    memcpy(defaults.sites, model->default_sites, sizeof defaults.sites);
    *config = defaults;
}

/* No bit beyond the model's sites. */
static bool names_only_sites(const refold_model *model, const uint8_t *mask)
{
    for (int i = model->site_count; i < 8 * REFOLD_SITE_MASK_BYTES; i++)
        if (mask[i / 8] >> (i % 8) & 1)
            return false;
    return true;
}

/* Above 0 it must stay so in arithmetic that flushes the smallest numbers. */
static bool is_grade(float grade)
{
    return grade == 0.0f || (grade >= LEAST_GRADE && grade <= 1.0f);
}

/* Comparisons are written so that a NaN fails them. */
static bool in_range(const refold_model *model, const refold_adapt_config *config)
{
    return config->method <= REFOLD_METHOD_FORGE_PACE &&
           config->stats <= REFOLD_STATS_EXACT &&
           config->rule <= REFOLD_RULE_PUBLISHED && config->gate <= 1 &&
           config->interval >= 1 &&
           config->interval <= REFOLD_INTERVAL_MAX && config->shrinkage >= 0.0f &&
           config->shrinkage <= 1.0f && config->momentum > 0.0f &&
           config->momentum <= 1.0f && is_grade(config->grade) && names_only_sites(model, config->sites);
}

refold_status refold_adapt_set(refold_ctx *ctx, const refold_adapt_config *config)
{
    if (!in_range(ctx->model, config))
        return REFOLD_ERROR_CONFIG;
    if (config->method & ~ctx->model->adaptation)
        return REFOLD_ERROR_UNSUPPORTED;
    if ((config->method & REFOLD_METHOD_PACE) && !refold_pace_allows(ctx->model, config))
        return REFOLD_ERROR_CONFIG;
    refold_adapt_config before = ctx->config;
    ctx->config = *config;
    if (has_pace(ctx))
        refold_pace_complete(ctx->model, &ctx->config);
    if (config->rule != before.rule)
        refold_adapt_reset(ctx);
    if (has_pace(ctx))
        refold_pace_configure(ctx->pace, &before, &ctx->config);
    refold_adapt_retable(ctx);
    return REFOLD_OK;
}

void refold_adapt_get(const refold_ctx *ctx, refold_adapt_config *config)
{
    *config = ctx->config;
}

void refold_adapt_begin(refold_ctx *ctx)
{
    const refold_adapt_config *config = &ctx->config;

    memset(&ctx->report, 0, sizeof ctx->report);
    memset(&ctx->score, 0, sizeof ctx->score);
    memset(&ctx->gate.distance, 0, sizeof ctx->gate.distance);
    ctx->momentum = refold_forge_momentum(ctx->images, config->warm, config->momentum);
    ctx->shrinkage = graded(ctx);
    ctx->look = refold_gate_next(&ctx->gate, ctx->images);
    ctx->report.gate = !(config->method & REFOLD_METHOD_FORGE) || !config->gate
                           ? REFOLD_GATE_NONE
                       : recalibrates(ctx) ? REFOLD_GATE_OPEN
                                           : REFOLD_GATE_CLOSED;
    ctx->report.forward_passes = 1;
    if (has_pace(ctx))
        refold_pace_report(ctx->pace, &ctx->report);
}

/* PACE remembers what it found in the domain that has ended. */
static void change_domain(refold_ctx *ctx)
{
    begin_again(ctx);
    if (!has_pace(ctx))
        return;
    refold_pace_change(ctx->pace, &ctx->config);
    refold_pace_empty(ctx->pace);
}

/*
 * What the gate decides is done between images. Statistics gathered while it was
 * closed are where those of the new domain begin, but must not outweigh them.
 */
static void settle_gate(refold_ctx *ctx)
{
    const refold_model *model = ctx->model;
    float doubt = ctx->look == REFOLD_LOOK_AT_STREAM ? ctx->momentum : model->gate_doubt;
    refold_gate_verdict verdict = refold_gate_decide(&ctx->gate, ctx->look, ctx->images,
                                                     model->gate_margin, doubt);

    if (verdict == REFOLD_VERDICT_FORGET)
        change_domain(ctx);
    if (verdict == REFOLD_VERDICT_OPEN && ctx->images > REFOLD_GATE_FIRST)
        ctx->images = REFOLD_GATE_FIRST;
    if (verdict == REFOLD_VERDICT_OPEN || verdict == REFOLD_VERDICT_SWITCH)
        refold_adapt_retable(ctx);
}

/* t counts once an image, so that all its sites share one momentum. */
void refold_adapt_end(refold_ctx *ctx)
{
    if (!(ctx->config.method & REFOLD_METHOD_FORGE))
        return;
    ctx->shift_score = refold_forge_mean_score(&ctx->score);
    ctx->report.shift_score = ctx->shift_score;
    ctx->report.adapted = 1;
    if (absorbs(ctx) && ctx->images < UINT32_MAX - 1)
        ctx->images++;
    if (ctx->config.gate)
        settle_gate(ctx);
}

void refold_adapt_features(refold_ctx *ctx)
{
    if (has_pace(ctx) && recalibrates(ctx))
        refold_pace_features(ctx, refold_last_input(ctx));
}

void refold_adapt_take(refold_ctx *ctx, const void *kept)
{
    if (has_pace(ctx))
        refold_pace_take(ctx->pace, kept);
}

/* While the gate is closed there is nothing to search for. */
void refold_adapt_keep(refold_ctx *ctx, const int32_t *logits)
{
    if (!has_pace(ctx))
        return;
    if (recalibrates(ctx))
        refold_pace_keep(ctx->pace, logits);
    else
        refold_pace_empty(ctx->pace);
}

void refold_adapt_search(refold_ctx *ctx)
{
    if (has_pace(ctx))
        refold_pace_search(ctx);
}

static bool table_is_due(const refold_ctx *ctx)
{
    return ctx->images < EAGER_IMAGES || (ctx->images + 1) % ctx->config.interval == 0;
}

/* The image's weight in the gate's window: a plain mean, whose oldest images fade. */
static float window_weight(const refold_ctx *ctx)
{
    float least = 1.0f / (float)refold_gate_window(&ctx->gate);

    return refold_forge_momentum(ctx->gate.images, 1, least);
}

static void absorb_forge(refold_ctx *ctx, int site, const refold_moments *moments)
{
    uint32_t start = refold_now(ctx);
    bool gate = ctx->config.gate != 0;
    refold_forge forge = view(ctx, site);

    refold_forge_update(&forge, absorbs(ctx) ? ctx->momentum : 0.0f,
                        gate ? window_weight(ctx) : 0.0f, moments);
    refold_forge_add_score(&forge, &ctx->score);
    if (gate && ctx->look != REFOLD_LOOK_NOT)
        refold_forge_add_distance(
            &forge, ctx->look == REFOLD_LOOK_AT_CLEAN ? forge.site->clean : forge.e1,
            &ctx->gate.distance);
    if (recalibrates(ctx) && table_is_due(ctx))
        make_table(ctx, site);
    ctx->report.adapt_us += refold_now(ctx) - start;
}

/* Does PACE tell domains apart by this site? */
static bool watches(const refold_ctx *ctx, int site)
{
    return has_pace(ctx) && site == refold_pace_watched(ctx->model);
}

static void absorb(refold_ctx *ctx, int site, const refold_moments *moments)
{
    refold_signal(ctx, REFOLD_TRIGGER_ADAPT, true);
    if (forges(ctx, site))
        absorb_forge(ctx, site, moments);
    if (watches(ctx, site))
        refold_pace_watch(ctx->pace, moments, ctx->model->sites[site].pixels);
    refold_signal(ctx, REFOLD_TRIGGER_ADAPT, false);
}

void refold_adapt_run(refold_ctx *ctx, int site, refold_kernel run, refold_call *call)
{
    refold_requant requant = table(ctx, site);
    refold_moments moments = {ctx->s1, ctx->s2, ctx->model->sites[site].stat_shift};
    void *out = call->out;

    call->requant = &requant;
    if (ctx->rehearsing || !(forges(ctx, site) || watches(ctx, site))) {
        run(call);
        return;
    }
    call->moments = &moments;
    if (ctx->config.stats == REFOLD_STATS_EXACT && forges(ctx, site))
        call->out = NULL;
    run(call);
    absorb(ctx, site, &moments);
    if (call->out == NULL) {
        requant = table(ctx, site);
        call->out = out;
        call->moments = NULL;
        run(call);
    }
}

const refold_report *refold_last(const refold_ctx *ctx)
{
    return &ctx->report;
}
