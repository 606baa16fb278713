#include "operations.h"

#include <math.h>
#include <string.h>

#ifdef REFOLD_HELPER
#include "helpers.h"
#define ADD(a, b) REFOLD_HELPER(addsf3)(a, b)
#define SUB(a, b) REFOLD_HELPER(subsf3)(a, b)
#define MUL(a, b) REFOLD_HELPER(mulsf3)(a, b)
#define FROM_INT(a) REFOLD_HELPER(floatsisf)(a)
#define FROM_UINT(a) REFOLD_HELPER(floatunsisf)(a)
#define WIDE_MUL(a, b) REFOLD_HELPER(muldi3)(a, b)
#define UDIV(a, b) REFOLD_HELPER(udivsi3)(a, b)
#define UMOD(a, b) REFOLD_HELPER(umodsi3)(a, b)
#else
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define FROM_INT(a) ((float)(a))
#define FROM_UINT(a) ((float)(a))
#define WIDE_MUL(a, b) ((a) * (b))
#define UDIV(a, b) ((a) / (b))
#define UMOD(a, b) ((a) % (b))
#endif

static float f(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits(float x)
{
    uint32_t b;

    memcpy(&b, &x, sizeof b);
    return b;
}

static uint32_t compare(float a, float b)
{
    return (uint32_t)((a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 |
                      (a >= b) << 4 | (a > b) << 5);
}

static int fits(float x, float limit)
{
    return x > -limit && x < limit;
}

void operate(const uint32_t *pairs, size_t count, uint64_t *answers)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t a = pairs[2 * i], b = pairs[2 * i + 1];
        uint64_t wide = (uint64_t)b << 32 | a;
        uint64_t all[OPERATIONS] = {
            bits(ADD(f(a), f(b))),
            bits(SUB(f(a), f(b))),
            bits(MUL(f(a), f(b))),
            bits(FROM_INT((int32_t)a)),
            bits(FROM_UINT(a)),
            WIDE_MUL(wide, ((uint64_t)a << 32 | b)),
            WIDE_MUL((uint64_t)a, (uint64_t)b),
            b == 0 ? 0 : UDIV(a, b),
            b == 0 ? 0 : UMOD(a, b),
            bits(f(a) / f(b)),
            bits(sqrtf(f(a))),
            compare(f(a), f(b)),
            (uint32_t)(fits(f(a), 2147483648.0f) ? (int32_t)f(a) : 0),
            (uint64_t)(fits(f(a), 9223372036854775808.0f) ? (int64_t)f(a) : 0),
            bits((float)(int64_t)wide),
            bits((float)wide),
            (uint64_t)((int64_t)wide >> (a & 63)) ^ (wide << (b & 63)),
        };
        memcpy(answers + i * OPERATIONS, all, sizeof all);
    }
}
