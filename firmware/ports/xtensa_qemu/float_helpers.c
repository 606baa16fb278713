/*
 * Sums, products and conversions in single precision, with integers only.
 *
 * On the way to its rounding a magnitude is `significand * 2^(exponent - 157)`
 * with the significand's leading one in bit 30: seven bits more than a float
 * has, of which the lowest is sticky, that is, set where any bit below it was.
 */
#include "helpers.h"

#include <string.h>

#define SIGN 0x80000000u
#define INFINITE 0x7F800000u
#define QUIET_NAN 0x7FC00000u
#define EXTRA_BITS 7
#define HALF (1u << (EXTRA_BITS - 1))

/* A finite magnitude; `significand` as in memory, the implied one included. */
typedef struct magnitude {
    int exponent; /* biased; 1 for subnormals */
    uint32_t significand;
} magnitude;

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static magnitude unpack(uint32_t bits)
{
    int exponent = (int)(bits >> 23 & 0xFFu);
    uint32_t fraction = bits & 0x7FFFFFu;

    return exponent == 0 ? (magnitude){1, fraction}
                         : (magnitude){exponent, fraction | 0x800000u};
}

static uint32_t shift_right_sticky(uint32_t x, int count)
{
    if (count > 31)
        return x != 0;
    return x >> count | ((x & (((uint32_t)1 << count) - 1)) != 0);
}

/* The only rounding: any significand but zero, its leading one anywhere. */
static float pack(uint32_t sign, int exponent, uint32_t significand)
{
    int shift = __builtin_clz(significand) - 1;
    uint32_t rest;

    exponent -= shift;
    significand = shift < 0 ? shift_right_sticky(significand, 1) : significand << shift;
    if (exponent >= 255)
        return float_of(sign | INFINITE);
    if (exponent < 1) { /* subnormal: as if the exponent were 1, with leading zeros */
        significand = shift_right_sticky(significand, 1 - exponent);
        exponent = 1;
    }
    rest = significand & (2 * HALF - 1);
    significand = (significand + HALF) >> EXTRA_BITS;
    if (rest == HALF)
        significand &= ~1u;
    /* The leading one, and a carry out of the significand, count the exponent up. */
    return float_of(sign | (((uint32_t)(exponent - 1) << 23) + significand));
}

/* a + b, where one of them is infinite or no number. */
static float add_special(uint32_t a, uint32_t b)
{
    uint32_t a_size = a & ~SIGN, b_size = b & ~SIGN;

    if (a_size > INFINITE || b_size > INFINITE || (a_size == b_size && a != b))
        return float_of(QUIET_NAN);
    return float_of(a_size == INFINITE ? a : b);
}

/* a + b, where the magnitude of a is not the lesser. */
static float add_ordered(uint32_t a, uint32_t b)
{
    uint32_t sign = a & SIGN;
    magnitude large = unpack(a), small = unpack(b);
    uint32_t x = large.significand << EXTRA_BITS;
    uint32_t y = shift_right_sticky(small.significand << EXTRA_BITS,
                                    large.exponent - small.exponent);

    x = sign == (b & SIGN) ? x + y : x - y;
    if (x == 0) /* -0 only where both are */
        return float_of(a & b & SIGN);
    return pack(sign, large.exponent, x);
}

static float add(uint32_t a, uint32_t b)
{
    uint32_t a_size = a & ~SIGN, b_size = b & ~SIGN;

    if (a_size >= INFINITE || b_size >= INFINITE)
        return add_special(a, b);
    return a_size >= b_size ? add_ordered(a, b) : add_ordered(b, a);
}

float REFOLD_HELPER(addsf3)(float a, float b)
{
    return add(bits_of(a), bits_of(b));
}

float REFOLD_HELPER(subsf3)(float a, float b)
{
    return add(bits_of(a), bits_of(b) ^ SIGN);
}

/* pack for 64 bits: all that do not fit become the sticky one. */
static float pack_wide(uint32_t sign, int exponent, uint64_t significand)
{
    uint32_t high = (uint32_t)(significand >> 32);
    int shift = high == 0 ? 0 : 32 - __builtin_clz(high);
    uint64_t lost = significand & (((uint64_t)1 << shift) - 1);

    return pack(sign, exponent + shift, (uint32_t)(significand >> shift) | (lost != 0));
}

/* a * b, where one of them is infinite or no number; magnitudes. */
static float multiply_special(uint32_t sign, uint32_t a, uint32_t b)
{
    if (a > INFINITE || b > INFINITE || a == 0 || b == 0)
        return float_of(QUIET_NAN);
    return float_of(sign | INFINITE);
}

float REFOLD_HELPER(mulsf3)(float a, float b)
{
    uint32_t sign = (bits_of(a) ^ bits_of(b)) & SIGN;
    uint32_t a_size = bits_of(a) & ~SIGN, b_size = bits_of(b) & ~SIGN;
    magnitude x = unpack(a_size), y = unpack(b_size);
    int exponent = x.exponent + y.exponent - 127;

    if (a_size >= INFINITE || b_size >= INFINITE)
        return multiply_special(sign, a_size, b_size);
    if (a_size == 0 || b_size == 0)
        return float_of(sign);
    return pack_wide(sign, exponent - 16, (uint64_t)x.significand * y.significand);
}

float REFOLD_HELPER(floatunsisf)(uint32_t value)
{
    return value == 0 ? 0.0f : pack(0, 157, value);
}

float REFOLD_HELPER(floatsisf)(int32_t value)
{
    uint32_t size = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;

    return value == 0 ? 0.0f : pack(value < 0 ? SIGN : 0, 157, size);
}
