/*
 * The arithmetic of docs/numerics.md, "Update", "Table" and "Shift score".
 *
 * This runs after every image, on cores that multiply and convert in an instruction
 * but call a function to divide, take a root, or convert 64 bits. So there is one pass
 * over the channels for each purpose, and as good as none of those in it.
 */
#include "forge.h"

#include <stdbool.h>

#include "fp32.h"
#include "refold/facts.h"

/* Least variance that a table or score divides by, as a part of the target's. */
#define VARIANCE_FLOOR (1.0f / 256.0f)
#define BIAS_LIMIT ((int64_t)1 << 38)
#define MULTIPLIER_MAX 32767.0f
#define SCORE_MAX 1023.0f
/* Of so many, S1 fits int32 and S2 47 bits. */
#define FEW_PIXELS 65536
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
void refold_forge_update(const refold_forge *forge, float momentum, float weight,
                         const refold_moments *moments)
{
    const refold_site *site = forge->site;
    bool published = forge->rule == REFOLD_RULE_PUBLISHED;
    bool few = site->pixels <= FEW_PIXELS;
    float reciprocal = 1.0f / (float)site->pixels;
    float h = 0.5f - refold_pow2(-(site->stat_shift + 1));
    float twice_h = 2.0f * h;
    float h_squared = h * h;

    for (int c = 0; c < site->channels; c++) {
        int64_t s1 = moments->s1[c], s2 = moments->s2[c];
        float u1 = (few ? (float)(int32_t)s1 : (float)s1) * reciprocal;
        float u2 = (few ? refold_from_int48(s2) : (float)s2) * reciprocal;
        float e1 = u1 + h;
        float e2 = (u2 + twice_h * u1) + h_squared;
        float second = published ? refold_fmax(e2 - e1 * e1, 0.0f) : e2;
        forge->e1[c] = forge->e1[c] + momentum * (e1 - forge->e1[c]);
        forge->e2[c] = forge->e2[c] + momentum * (second - forge->e2[c]);
        forge->w1[c] = forge->w1[c] + weight * (e1 - forge->w1[c]);
    }
}

/* v, the variance of the stream. */
static inline float variance(const refold_forge *forge, int c, bool published)
{
    float e1 = forge->e1[c], e2 = forge->e2[c];

    return published ? e2 : refold_fmax(e2 - e1 * e1, 0.0f);
}

/*
 * work[c] = M, the real multiplier from accumulator to output, and R. Returns the
 * largest M: none is negative, and such floats order as their bits.
 */
static float real_table(const refold_forge *forge, float shrinkage)
{
    const refold_site *site = forge->site;
    bool published = forge->rule == REFOLD_RULE_PUBLISHED;
    float keep = 1.0f - shrinkage;
    float unit = refold_pow2(site->stat_shift);
    float per_unit = refold_pow2(-site->stat_shift);
    int32_t largest = 0;

    for (int c = 0; c < site->channels; c++) {
        float v0 = site->variance[c], ep = site->epsilon[c], g = site->gain[c];
        float mt = keep * site->mean[c] + shrinkage * forge->e1[c];
        float vt = refold_fmax(keep * v0 + shrinkage * variance(forge, c, published),
                               v0 * VARIANCE_FLOOR);
        if (published)
            g = g * refold_rsqrt32(1.0f + ep * site->inverse[c]);
        float multiplier = (g * refold_rsqrt32(vt + ep)) * per_unit;
        int32_t bits = (int32_t)refold_bits(multiplier);
        largest = bits > largest ? bits : largest;
        forge->work[c] = multiplier;
        forge->centre[c] = refold_floor32(mt * unit + 0.5f);
    }
    return refold_from_bits((uint32_t)largest);
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

uint8_t refold_forge_table(const refold_forge *forge, float shrinkage)
{
    int shift = shift_for(real_table(forge, shrinkage));
    float scale = refold_pow2(shift);

    for (int c = 0; c < forge->site->channels; c++) {
        float rounded = forge->work[c] * scale + 0.5f; /* positive: floor = cast */
        forge->m[c] = (int16_t)(int32_t)refold_fmin(rounded, MULTIPLIER_MAX);
    }
    return (uint8_t)shift;
}

/*
 * O * 2^s is cut into 2^16 times an integer and a rest below 2^16, both of which are
 * exact. Where the integer saturates, B is at its limit whatever R and m are.
 */
void refold_forge_biases(const refold_forge *forge, uint8_t shift)
{
    float scale = refold_pow2(shift - 16);

    for (int c = 0; c < forge->site->channels; c++) {
        float scaled = forge->site->offset[c] * scale;
        int32_t high = refold_floor32(scaled);
        int32_t low = (int32_t)((scaled - (float)high) * 65536.0f);
        int64_t b = ((int64_t)high * 65536 + low) - (int64_t)forge->centre[c] * forge->m[c];
        forge->b[c] = b < -BIAS_LIMIT ? -BIAS_LIMIT : b > BIAS_LIMIT ? BIAS_LIMIT : b;
    }
}

/* Natural logarithm of a normal x > 0 within 2e-6: a term of the score is 2^-16. */
static inline float log16(float x)
{
    uint32_t bits = refold_bits(x);
    int e = (int32_t)(bits - 0x3F3504F3u) >> 23; /* x = (1 + f) * 2^e */
    float f = refold_from_bits(bits - ((uint32_t)e << 23)) - 1.0f;
    float p = ((((-0.1431986f * f + 0.2233008f) * f - 0.2547246f) * f + 0.3322587f) * f -
               0.4998505f) * f + 1.000013f;

    return (float)e * 0.69314718f + p * f;
}

/* KL(running || target) of Gaussians. */
static inline float divergence(const refold_forge *forge, int c, bool published)
{
    float w = forge->site->inverse[c];
    float r = refold_fmax(variance(forge, c, published) * w, VARIANCE_FLOOR);
    float d = forge->e1[c] - forge->site->mean[c];

    return 0.5f * (((r + (d * d) * w) - 1.0f) - log16(r));
}

/*
 * To fixed point. Terms are below 2^10 and no further below 0 than log16 errs, so that
 * truncation is the floor; eight fit int32.
 */
static inline int32_t fixed(float term)
{
    return (int32_t)(term * (1 << REFOLD_SCORE_FRACTION_BITS) + 0.5f);
}

void refold_forge_add_score(const refold_forge *forge, refold_forge_score *score)
{
    const refold_site *site = forge->site;
    bool published = forge->rule == REFOLD_RULE_PUBLISHED;

    for (int c = 0; c < site->channels;) {
        int end = c + 8 < site->channels ? c + 8 : site->channels;
        uint32_t live = site->live[c / 8];
        int32_t sum = 0;
        for (; c < end; c++, live >>= 1) {
            float kl = refold_fmin(divergence(forge, c, published), SCORE_MAX);
            sum += live & 1u ? fixed(kl) : 0;
            score->count += live & 1u;
        }
        score->sum += sum;
    }
}

void refold_forge_add_distance(const refold_forge *forge, const float *centre,
                               refold_forge_score *score)
{
    const refold_site *site = forge->site;

    for (int c = 0; c < site->channels;) {
        int end = c + 8 < site->channels ? c + 8 : site->channels;
        uint32_t live = site->live[c / 8];
        int32_t sum = 0;
        for (; c < end; c++, live >>= 1) {
            float d = forge->w1[c] - centre[c];
            float term = refold_fmin((d * d) * site->precision[c], DISTANCE_MAX);
            sum += live & 1u ? fixed(term) : 0;
            score->count += live & 1u;
        }
        score->sum += sum;
    }
}

float refold_forge_mean_score(const refold_forge_score *score)
{
    if (score->count == 0)
        return 0.0f;
    return ((float)score->sum / (float)score->count) *
           refold_pow2(-REFOLD_SCORE_FRACTION_BITS);
}
