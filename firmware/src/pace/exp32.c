/* The definition of docs/numerics.md, "PACE": reduction by ln 2, then Taylor. */
#include "exp32.h"

#include "../fp32.h"

#define LEAST (-87.0f)
#define MOST 88.0f
#define LOG2_E 1.44269504f
/* 17 bits, so that its product with an integer below 2^7 is exact. */
#define LN2_HIGH 0.693145752f
#define LN2_LOW 1.42860677e-6f

float refold_exp32(float x)
{
    if (!(x >= LEAST))
        return 0.0f;
    x = refold_fmin(x, MOST);
    int k = (int)refold_floor(x * LOG2_E + 0.5f);
    float r = (x - (float)k * LN2_HIGH) - (float)k * LN2_LOW;
    float p = 1.0f / 5040.0f;

    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    return (1.0f + (r + (r * r) * p)) * refold_pow2(k);
}
