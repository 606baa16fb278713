#include "fastfood.h"

#include <math.h>

#include "random.h"
#include "wht.h"

/* Signs of a stream, a bit each: 128 a block. */
static void flip(uint32_t seed, uint32_t purpose, float *x, uint32_t count)
{
    refold_random stream = {seed, purpose, 0, 0};
    uint32_t words[4];

    for (uint32_t i = 0; i < count; i++) {
        if (i % 128 == 0)
            refold_random_block(&stream, i / 128, words);
        if (words[i / 32 % 4] >> i % 32 & 1u)
            x[i] = -x[i];
    }
}

/*
 * Fisher and Yates, on the values themselves: no indices to store. The product
 * draws from 0..i with probabilities that err by less than 2^-32.
 */
static void permute(uint32_t seed, float *x, uint32_t count)
{
    refold_random stream = {seed, REFOLD_RANDOM_PERMUTATION, 0, 0};
    uint32_t words[4];

    for (uint32_t i = count - 1; i > 0; i--) {
        if (i % 4 == 3 || i == count - 1)
            refold_random_block(&stream, i / 4, words);
        uint32_t j = (uint32_t)(((uint64_t)words[i % 4] * (i + 1)) >> 32);
        float held = x[i];
        x[i] = x[j];
        x[j] = held;
    }
}

uint32_t refold_fastfood_floats(uint32_t outputs)
{
    uint32_t n = 1;

    while (n < outputs)
        n *= 2;
    return n;
}

void refold_fastfood_project(const refold_fastfood *map, const float *v,
                             float *theta)
{
    uint32_t n = refold_fastfood_floats(map->outputs);
    float scale = 1.0f / sqrtf((float)n * (float)map->outputs);

    for (uint32_t i = 0; i < n; i++)
        theta[i] = i < map->inputs ? v[i] : 0.0f;
    flip(map->seed, REFOLD_RANDOM_SIGNS_IN, theta, n);
    refold_wht(theta, n);
    permute(map->seed, theta, n);
    flip(map->seed, REFOLD_RANDOM_SIGNS_MIDDLE, theta, n);
    refold_wht(theta, n);
    for (uint32_t i = 0; i < map->outputs; i++)
        theta[i] = scale * theta[i];
}
