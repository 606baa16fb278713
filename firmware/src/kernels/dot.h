/*
 * Dot product of int8 vectors, the inner loop of conv2d and dense. Internal.
 */
#ifndef REFOLD_DOT_H
#define REFOLD_DOT_H

#include <stdint.h>

static inline int32_t refold_dot(const int8_t *a, const int8_t *b, int count)
{
    int32_t sum = 0;

    for (int i = 0; i < count; i++)
        sum += (int16_t)a[i] * (int16_t)b[i];
    return sum;
}

#endif
