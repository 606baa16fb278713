/*
 * The arithmetic of docs/numerics.md, "Update", "Table" and "Shift score".
 *
 * Passes over the channels are kept apart and free of calls and branches, so
 * that a compiler can vectorise each: this runs after every image.
 */
#include "forge.h"

#include <math.h>

#include "fp32.h"
#include "refold/facts.h"

/* Least variance that a table or score divides by, as a part of the target's. */
#define VARIANCE_FLOOR (1.0f / 256.0f)
#define BIAS_LIMIT ((int64_t)1 << 38)
#define MULTIPLIER_MAX 32767.0f
#define SCORE_MAX 1023.0f
/* So that a few channels whose mean hardly ever moves do not decide alone. */
#define DISTANCE_MAX 8.0f

float refold_forge_momentum(uint32_t images, uint16_t warm, float floor)
{
    if (warm == 0)
        return floor;
    return refold_fmax(floor, 1.0f / (float)((uint64_t)images + warm));
}

void refold_forge_reset(const refold_forge *forge)
{
    const refold_site *site = forge->site;

    for (int c = 0; c < site->channels; c++) {
        float mean = site->mean[c];
        float v0 = site->variance[c];
        forge->e1[c] = mean;
        forge->e2[c] = forge->rule == REFOLD_RULE_PUBLISHED ? v0 : v0 + mean * mean;
    }
}

/*
 * `h` is half a unit of `a` less half a unit of `acc`: what the floor in
 * acc >> k takes away on average.
 */
void refold_forge_update(const refold_forge *forge, float momentum,
                         const refold_moments *moments)
{
    int channels = forge->site->channels;
    int published = forge->rule == REFOLD_RULE_PUBLISHED;
    float n = (float)forge->site->pixels;
    float h = 0.5f - refold_pow2(-(forge->site->stat_shift + 1));
    float twice_h = 2.0f * h;
    float h_squared = h * h;
    float *restrict running1 = forge->e1;
    float *restrict running2 = forge->e2;

    for (int c = 0; c < channels; c++) {
        float u1 = (float)moments->s1[c] / n;
        float u2 = (float)moments->s2[c] / n;
        float e1 = u1 + h;
        float e2 = (u2 + twice_h * u1) + h_squared;
        float second = published ? refold_fmax(e2 - e1 * e1, 0.0f) : e2;
        running1[c] = running1[c] + momentum * (e1 - running1[c]);
        running2[c] = running2[c] + momentum * (second - running2[c]);
    }
}

void refold_forge_follow(const refold_forge *forge, float *mean, float momentum,
                         const refold_moments *moments)
{
    int channels = forge->site->channels;
    float n = (float)forge->site->pixels;
    float h = 0.5f - refold_pow2(-(forge->site->stat_shift + 1));
    float *restrict running = mean;

    for (int c = 0; c < channels; c++) {
        float e1 = (float)moments->s1[c] / n + h;
        running[c] = running[c] + momentum * (e1 - running[c]);
    }
}

/* work[c] = v, the variance of the stream. */
static void variances(const refold_forge *forge)
{
    int channels = forge->site->channels;
    int published = forge->rule == REFOLD_RULE_PUBLISHED;
    const float *e1 = forge->e1;
    const float *e2 = forge->e2;
    float *restrict work = forge->work;

    for (int c = 0; c < channels; c++)
        work[c] = published ? e2[c] : refold_fmax(e2[c] - e1[c] * e1[c], 0.0f);
}

/* work[c] = M, the real multiplier from accumulator to output; v goes in. */
static void real_multipliers(const refold_forge *forge, float shrinkage)
{
    const refold_site *site = forge->site;
    int channels = site->channels;
    int published = forge->rule == REFOLD_RULE_PUBLISHED;
    float keep = 1.0f - shrinkage;
    float unit = refold_pow2(-site->stat_shift);
    float *restrict work = forge->work;

    for (int c = 0; c < channels; c++) {
        float v0 = site->variance[c];
        float ep = site->epsilon[c];
        float vt = refold_fmax(keep * v0 + shrinkage * work[c], v0 * VARIANCE_FLOOR);
        float g = published ? site->gain[c] * sqrtf(v0 / (v0 + ep)) : site->gain[c];
        work[c] = (g / sqrtf(vt + ep)) * unit;
    }
}

/* Largest of `x`, none of which is negative: such floats order as their bits. */
static float largest(const float *x, int count)
{
    int32_t max = 0;

    for (int i = 0; i < count; i++) {
        int32_t bits = (int32_t)refold_bits(x[i]);
        max = bits > max ? bits : max;
    }
    return refold_from_bits((uint32_t)max);
}

/* The most fraction bits with which `multiplier` rounds to 15 bits. */
static int shift_for(float multiplier)
{
    uint32_t bits = refold_bits(multiplier);
    int exponent = (int)(bits >> 23) - 126; /* multiplier = f * 2^exponent */
    float f = refold_from_bits((bits & 0x007FFFFFu) | 0x3F000000u);
    int shift = 15 - exponent;

    if (f * 32768.0f + 0.5f >= MULTIPLIER_MAX + 1.0f)
        shift--;
    return multiplier == 0.0f || shift > 31 ? 31 : shift < 16 ? 16 : shift;
}

static void integer_table(const refold_forge *forge, float shrinkage, int shift)
{
    const refold_site *site = forge->site;
    int channels = site->channels;
    float keep = 1.0f - shrinkage;
    float scale = refold_pow2(shift);
    float unit = refold_pow2(site->stat_shift);
    const float *multiplier = forge->work;
    int16_t *restrict table_m = forge->m;
    int64_t *restrict table_b = forge->b;

    for (int c = 0; c < channels; c++) {
        float mt = keep * site->mean[c] + shrinkage * forge->e1[c];
        float rounded = multiplier[c] * scale + 0.5f; /* positive: floor = cast */
        int32_t m = (int32_t)refold_fmin(rounded, MULTIPLIER_MAX);
        int64_t b = refold_floor(site->offset[c] * scale) -
                    refold_floor(mt * unit + 0.5f) * m;
        table_m[c] = (int16_t)m;
        table_b[c] = b < -BIAS_LIMIT ? -BIAS_LIMIT : b > BIAS_LIMIT ? BIAS_LIMIT : b;
    }
}

uint8_t refold_forge_table(const refold_forge *forge, float shrinkage)
{
    variances(forge);
    real_multipliers(forge, shrinkage);
    int shift = shift_for(largest(forge->work, forge->site->channels));
    integer_table(forge, shrinkage, shift);
    return (uint8_t)shift;
}

/* work[c] = KL(running || target) of Gaussians in fixed point, to be floored. */
static void divergences(const refold_forge *forge)
{
    const refold_site *site = forge->site;
    int channels = site->channels;
    const float *e1 = forge->e1;
    float *restrict work = forge->work;

    for (int c = 0; c < channels; c++) {
        float v0 = site->variance[c];
        float r = refold_fmax(work[c], v0 * VARIANCE_FLOOR) / v0;
        float d = e1[c] - site->mean[c];
        float kl = 0.5f * (((r + (d * d) / v0) - 1.0f) - refold_log32(r));
        work[c] = refold_fmin(kl, SCORE_MAX) * (1 << REFOLD_SCORE_FRACTION_BITS) + 0.5f;
    }
}

/* Floor of a term, which is below 2^26: int32 vectorises where int64 does not. */
static inline int32_t floor_term(float x)
{
    int32_t t = (int32_t)x;

    return t - ((float)t > x);
}

/* Add those of eight terms that `live` has a bit for; eight fit int32. */
static void add_terms(refold_forge_score *score, const float *terms, uint32_t live)
{
    int32_t sum = 0;

    if (live == 0xFF) { /* the usual case, free of branches */
        for (int i = 0; i < 8; i++)
            sum += floor_term(terms[i]);
        score->count += 8;
    } else {
        for (int i = 0; live >> i != 0; i++) {
            if (live >> i & 1u) {
                sum += floor_term(terms[i]);
                score->count++;
            }
        }
    }
    score->sum += sum;
}

static void add_live_terms(const refold_forge *forge, refold_forge_score *score)
{
    const refold_site *site = forge->site;

    for (int first = 0; first < site->channels; first += 8)
        add_terms(score, forge->work + first, site->live[first / 8]);
}

void refold_forge_add_score(const refold_forge *forge, refold_forge_score *score)
{
    variances(forge);
    divergences(forge);
    add_live_terms(forge, score);
}

void refold_forge_add_distance(const refold_forge *forge, const float *mean,
                               const float *centre, refold_forge_score *score)
{
    int channels = forge->site->channels;
    const float *precision = forge->site->precision;
    float *restrict work = forge->work;

    for (int c = 0; c < channels; c++) {
        float d = mean[c] - centre[c];
        float term = refold_fmin((d * d) * precision[c], DISTANCE_MAX);
        work[c] = term * (1 << REFOLD_SCORE_FRACTION_BITS) + 0.5f;
    }
    add_live_terms(forge, score);
}

float refold_forge_mean_score(const refold_forge_score *score)
{
    if (score->count == 0)
        return 0.0f;
    return ((float)score->sum / (float)score->count) *
           refold_pow2(-REFOLD_SCORE_FRACTION_BITS);
}
