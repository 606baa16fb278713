#include "paired.h"

#include <float.h>
#include <math.h>

#include "../fp32.h"

float refold_paired_error(const float *a, const float *b, uint32_t count)
{
    float sum = 0.0f;
    float squares = 0.0f;

    if (count < 2)
        return FLT_MAX;
    for (uint32_t i = 0; i < count; i++)
        sum = sum + (b[i] - a[i]);
    float mean = sum / (float)count;
    for (uint32_t i = 0; i < count; i++) {
        float off = (b[i] - a[i]) - mean;
        squares = squares + off * off;
    }
    return sqrtf(squares / ((float)count * (float)(count - 1)));
}
