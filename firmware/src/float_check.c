/*
 * What a compiler and its flags make of float arithmetic, asked at run time.
 *
 * The operands pass through volatile variables, so that the answers come from
 * the code that the flags produced and not from the compiler's own arithmetic.
 */
#include "float_check.h"

#include <float.h>
#include <math.h>

#include "fp32.h"

/*
 * (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 lies half way between two floats and rounds
 * to the even one, 1 + 2^-11. A fused multiply-add, an excess precision or
 * another rounding mode keeps the 2^-24 or rounds up. Each product is loaded anew:
 * a compiler does not fuse one that is used twice.
 */
static bool rounds_products(void)
{
    volatile float operand = 1.0f + 1.0f / 4096.0f;
    volatile float expected = 1.0f + 1.0f / 2048.0f;
    volatile float product_first = operand * operand - expected;
    volatile float product_last = expected - operand * operand;

    return product_first == 0.0f && product_last == 0.0f;
}

/* Half of the least normal number, neither flushed as a result nor as an operand. */
static bool keeps_subnormals(void)
{
    volatile float least = FLT_MIN;
    volatile float half = least * 0.5f;
    volatile float whole = half + half;

    return refold_bits(half) == 0x00400000u && whole == least;
}

/* Quotients that a product with the rounded reciprocal gets too high and too low. */
static bool divides(void)
{
    volatile float a = 3.0f, b = 7.0f, c = 5.0f, d = 25.0f;
    volatile float first = a / b;
    volatile float second = c / d;

    return refold_bits(first) == 0x3EDB6DB7u && refold_bits(second) == 0x3E4CCCCDu;
}

/* The last two roots lie as close to the middle of two floats as roots can. */
static bool takes_roots(void)
{
    volatile float two = 2.0f, below = 16777215.0f, above = 16777218.0f;
    volatile float root_two = sqrtf(two);
    volatile float root_below = sqrtf(below);
    volatile float root_above = sqrtf(above);

    return refold_bits(root_two) == 0x3FB504F3u &&
           refold_bits(root_below) == 0x457FFFFFu &&
           refold_bits(root_above) == 0x45800000u;
}

/* 2^62 + 2^38 + 1 must round up; by way of a double it would round to 2^62. */
static bool converts_integers(void)
{
    volatile int64_t sum = (int64_t)0x4000004000000001;
    volatile float value = (float)sum;

    return refold_bits(value) == 0x5E800001u;
}

bool refold_float_is_ieee(void)
{
    return rounds_products() && keeps_subnormals() && divides() && takes_roots() &&
           converts_integers();
}
