/* Integer division, and products wider than the core's 32 bits. */
#include "helpers.h"

typedef struct division {
    uint32_t quotient, remainder;
} division;

/* Long division in base two, beginning at the first bit that can count. */
static division divide(uint32_t numerator, uint32_t denominator)
{
    division d = {0, numerator};
    int bit;

    if (denominator == 0)
        return (division){UINT32_MAX, numerator};
    if (numerator < denominator)
        return d;
    bit = __builtin_clz(denominator) - __builtin_clz(numerator);
    for (denominator <<= bit; bit >= 0; bit--, denominator >>= 1) {
        if (d.remainder >= denominator) {
            d.remainder -= denominator;
            d.quotient |= (uint32_t)1 << bit;
        }
    }
    return d;
}

uint32_t REFOLD_HELPER(udivsi3)(uint32_t numerator, uint32_t denominator)
{
    return divide(numerator, denominator).quotient;
}

uint32_t REFOLD_HELPER(umodsi3)(uint32_t numerator, uint32_t denominator)
{
    return divide(numerator, denominator).remainder;
}

/* a * b from products of halves; the core multiplies 32 bits to 32. */
static uint64_t wide_product(uint32_t a, uint32_t b)
{
    uint32_t a0 = a & 0xFFFFu, a1 = a >> 16;
    uint32_t b0 = b & 0xFFFFu, b1 = b >> 16;
    uint32_t low = a0 * b0;
    uint32_t cross = a1 * b0;
    uint32_t middle = a0 * b1 + (low >> 16) + (cross & 0xFFFFu); /* < 2^32 */
    uint32_t high = a1 * b1 + (middle >> 16) + (cross >> 16);

    return (uint64_t)high << 32 | middle << 16 | (low & 0xFFFFu);
}

uint64_t REFOLD_HELPER(muldi3)(uint64_t a, uint64_t b)
{
    uint32_t a_low = (uint32_t)a, a_high = (uint32_t)(a >> 32);
    uint32_t b_low = (uint32_t)b, b_high = (uint32_t)(b >> 32);

    return wide_product(a_low, b_low) +
           ((uint64_t)(a_high * b_low + a_low * b_high) << 32);
}
