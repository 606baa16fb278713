/* Philox4x32-10 and the normal quantile of AS 241. */
#include "random.h"

#include <math.h>

#include "../fp32.h"

#define ROUNDS 10

static void philox_round(uint32_t c[4], uint32_t key0, uint32_t key1)
{
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];

    c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ key0;
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ key1;
    c[3] = (uint32_t)p0;
}

void refold_random_block(const refold_random *stream, uint32_t block,
                         uint32_t words[4])
{
    uint32_t key0 = stream->seed;
    uint32_t key1 = 0;

    words[0] = block;
    words[1] = stream->candidate;
    words[2] = stream->generation;
    words[3] = stream->purpose;
    for (int i = 0; i < ROUNDS; i++) {
        philox_round(words, key0, key1);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

float refold_random_uniform(uint32_t word)
{
    return ((float)(word >> 9) + 0.5f) * refold_pow2(-23);
}

/* |p - 1/2| <= 0.425; q = p - 1/2. */
static float central_quantile(float q)
{
    float r = 0.180625f - q * q;
    float numerator = ((59.109374720f * r + 159.29113202f) * r + 50.434271938f) * r +
                      3.3871327179f;
    float denominator =
        ((67.187563600f * r + 78.757757664f) * r + 17.895169469f) * r + 1.0f;

    return q * numerator / denominator;
}

/* Of the nearer end, in [2^-24, 0.075]: there sqrt(-ln p) stays below 5. */
static float tail_quantile(float p)
{
    float r = sqrtf(-refold_log32(p)) - 1.6f;
    float numerator = ((0.17023821103f * r + 1.3067284816f) * r + 2.7568153900f) * r +
                      1.4234372777f;
    float denominator = (0.12021132975f * r + 0.73700164250f) * r + 1.0f;

    return numerator / denominator;
}

float refold_normal_quantile(float p)
{
    float q = p - 0.5f;

    if (q >= -0.425f && q <= 0.425f)
        return central_quantile(q);
    return q < 0.0f ? -tail_quantile(p) : tail_quantile(1.0f - p);
}

void refold_random_normal(const refold_random *stream, float *x, uint32_t count)
{
    uint32_t words[4];

    for (uint32_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            refold_random_block(stream, i / 4, words);
        x[i] = refold_normal_quantile(refold_random_uniform(words[i % 4]));
    }
}
