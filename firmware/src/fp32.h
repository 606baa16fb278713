/*
 * IEEE single precision without a math library.
 *
 * Internal. Every operation below rounds once, in the order written; that is
 * what makes the results equal on all platforms. Build with -ffp-contract=off;
 * float_check.c refuses at run time what the preprocessor cannot see.
 */
#ifndef REFOLD_FP32_H
#define REFOLD_FP32_H

#include <stdint.h>
#include <string.h>

#if defined __FAST_MATH__ || defined __RECIPROCAL_MATH__ || defined __ASSOCIATIVE_MATH__
#error "refold needs IEEE arithmetic: build without -ffast-math and its parts"
#endif

static inline uint32_t refold_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float refold_from_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^e, for e in [-126, 127]. */
static inline float refold_pow2(int e)
{
    return refold_from_bits((uint32_t)(e + 127) << 23);
}

static inline float refold_fmax(float a, float b)
{
    return a > b ? a : b;
}

static inline float refold_fmin(float a, float b)
{
    return a < b ? a : b;
}

/* Floor, for |x| < 2^63. Where truncation changes x, x is below 2^23. */
static inline int64_t refold_floor(float x)
{
    int64_t t = (int64_t)x;

    return t - ((float)t > x);
}

/* Floor, saturated to int32. */
static inline int32_t refold_floor32(float x)
{
    float bounded = refold_fmin(refold_fmax(x, -2147483648.0f), 2147483520.0f);
    int32_t t = (int32_t)bounded;

    return t - ((float)t > bounded);
}

/* (float)x for |x| <= 2^47: both parts convert exactly, so that only their sum rounds. */
static inline float refold_from_int48(int64_t x)
{
    return (float)(int32_t)(x >> 24) * 16777216.0f + (float)(int32_t)(x & 0xFFFFFF);
}

/* 1 / sqrt(x) of a normal x > 0, as docs/numerics.md defines it. */
static inline float refold_rsqrt32(float x)
{
    float half = 0.5f * x;
    float y = refold_from_bits(0x5F3759DFu - (refold_bits(x) >> 1));

    y = y * (1.5f - (half * y) * y);
    y = y * (1.5f - (half * y) * y);
    return y * (1.5f - (half * y) * y);
}

/* Natural logarithm of a normal x > 0, as docs/numerics.md defines it. */
static inline float refold_log32(float x)
{
    uint32_t bits = refold_bits(x);
    int e = (int)(bits >> 23) - 127;
    float m = refold_from_bits((bits & 0x007FFFFFu) | 0x3F800000u);
    int high = m > 1.41421356f;

    m = high ? m * 0.5f : m;
    e += high;
    float f = m - 1.0f;
    float s = f / (2.0f + f);
    float z = s * s;
    float p = ((z * (1.0f / 9.0f) + 1.0f / 7.0f) * z + 1.0f / 5.0f) * z + 1.0f / 3.0f;
    return (float)e * 0.69314718f + (2.0f * s) * (1.0f + z * p);
}

#endif
