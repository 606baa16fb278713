#include "pace_exercise.h"

#include <string.h>

#include "pace/bank.h"
#include "pace/cma.h"
#include "pace/exp32.h"
#include "pace/fastfood.h"
#include "pace/fitness.h"
#include "pace/random.h"
#include "pace/shift.h"
#include "pace/source_shift.h"
#include "pace/wht.h"

enum { D = 8, WIDE = 70, OUTPUTS = 100, ROOM = 128, CHANNELS = 6, PIXELS = 64 };

typedef struct log {
    uint32_t *words;
    uint32_t count;
} log;

static void put(log *out, const float *x, uint32_t count)
{
    memcpy(out->words + out->count, x, count * sizeof *x);
    out->count += count;
}

static void put1(log *out, float x)
{
    put(out, &x, 1);
}

static float ellipsoid(const float *x, uint32_t d)
{
    float weight = 1.0f, sum = 0.0f;

    for (uint32_t i = 0; i < d; i++, weight = weight * 1.7f)
        sum = sum + weight * (x[i] - 1.0f) * (x[i] - 1.0f);
    return sum;
}

static void exercise_cma(log *out, uint32_t d, uint8_t active, float *memory)
{
    refold_cma_config config = {77, (uint16_t)d, refold_cma_default_population(d),
                                active};
    refold_cma cma;
    float x[WIDE], losses[REFOLD_CMA_POPULATION_MAX];

    refold_cma_init(&cma, &config, memory);
    refold_cma_restart(&cma, NULL, 0.4f);
    for (uint32_t i = 0; i < d; i++)
        x[i] = (float)i * 0.25f;
    refold_cma_inject(&cma, x);
    for (int t = 0; t < 12; t++) {
        for (uint32_t i = 0; i < config.population; i++) {
            refold_cma_ask(&cma, i, x);
            losses[i] = ellipsoid(x, d);
        }
        refold_cma_tell(&cma, losses);
    }
    put(out, cma.mean, d);
    put(out, cma.path_c, d);
    put(out, cma.factor, d);
    put(out, (float[]){cma.sigma, cma.change, cma.path_decay}, 3);
}

static void exercise_random(log *out)
{
    refold_random stream = {3, REFOLD_RANDOM_CANDIDATE, 1, 2};
    refold_fastfood map = {5, D, OUTPUTS};
    float x[ROOM];

    refold_random_normal(&stream, x, ROOM);
    put(out, x, ROOM);
    refold_wht(x, ROOM);
    put(out, x, ROOM);
    for (int i = 0; i < D; i++)
        x[i] = refold_exp32((float)(i * i) * 1.37f - 30.0f);
    put(out, x, D);
    float theta[ROOM];
    refold_fastfood_project(&map, x, theta);
    put(out, theta, OUTPUTS);
}

static void exercise_bank(log *out)
{
    float vectors[3 * D], v[D], losses[4] = {2.0f, 3.0f, 1.0f, 1.0f};
    const float *starts[REFOLD_BANK_STARTS];
    refold_bank bank = {D, 3, 0, vectors};

    for (uint32_t t = 0; t < 7; t++) {
        refold_random stream = {t, REFOLD_RANDOM_CANDIDATE, 0, 0};
        refold_random_normal(&stream, v, D);
        refold_bank_insert(&bank, v);
    }
    put(out, vectors, 3 * D);
    uint32_t count = refold_bank_pick(&bank, losses, starts);
    for (uint32_t i = 0; i < count; i++)
        put1(out, starts[i] ? starts[i][0] : 0.0f);
}

/* Sums of PIXELS accumulators a channel, different for each image t. */
static void image(uint32_t t, int64_t *s1, int64_t *s2)
{
    for (uint32_t c = 0; c < CHANNELS; c++) {
        s1[c] = s2[c] = 0;
        for (uint32_t i = 0; i < PIXELS; i++) {
            int64_t a = (int64_t)((i * 37 + t * 11) % 101) * (c + 1) - 150 * (c % 3);
            s1[c] += a;
            s2[c] += a * a;
        }
    }
}

static void exercise_statistics(log *out)
{
    int64_t s1[CHANNELS], s2[CHANNELS], sum1[CHANNELS], sum2[CHANNELS];
    float floor[CHANNELS] = {1, 1, 1, 1, 1, 1}, mean[CHANNELS], variance[CHANNELS];
    float source[CHANNELS] = {3, -40, -90, 100, 50, 7}, running[CHANNELS];
    int8_t feature[CHANNELS] = {30, -128, 127, 0, 1, -7};
    refold_window window = {CHANNELS, 0, 3, sum1, sum2};
    refold_source target = {source, floor, floor};
    refold_shift shift = {CHANNELS, 0, 0.8f, floor, mean, variance};
    refold_source_shift back = {CHANNELS, 0.1f, source, running};

    refold_source_shift_reset(&back);
    for (uint32_t t = 0; t < 6; t++) {
        refold_window_clear(&window);
        for (uint32_t i = 0; i < 3; i++) {
            image(3 * t + i, s1, s2);
            refold_window_add(&window, s1, s2, PIXELS);
        }
        put1(out, refold_discrepancy(&window, &target));
        put1(out, refold_shift_distance(&shift, &window));
        refold_shift_absorb(&shift, &window);
        refold_source_shift_absorb(&back, feature);
    }
    put(out, mean, CHANNELS);
    put(out, variance, CHANNELS);
    put(out, running, CHANNELS);
}

static void exercise_entropy(log *out)
{
    int32_t logits[10] = {5, -3000, 1200, 77, 0, 1199, -20000, 3, 800, 900};

    for (float scale = 1e-5f; scale < 1.0f; scale = scale * 3.0f) {
        float entropy = refold_entropy(logits, 10, scale);
        put1(out, entropy);
        put1(out, refold_fitness(entropy, 7, 0.4f, scale));
    }
}

uint32_t pace_exercise(uint32_t *words)
{
    float memory[REFOLD_CMA_FLOATS(WIDE)];
    log out = {words, 0};

    exercise_random(&out);
    exercise_cma(&out, D, 0, memory);
    exercise_cma(&out, D, 1, memory);
    exercise_cma(&out, WIDE, 1, memory);
    exercise_bank(&out);
    exercise_statistics(&out);
    exercise_entropy(&out);
    return out.count;
}
