#include "wht.h"

/* Butterflies over neighbours first: the order of docs/numerics.md, "PACE". */
void refold_wht(float *x, uint32_t count)
{
    for (uint32_t half = 1; half < count; half *= 2) {
        for (uint32_t start = 0; start < count; start += 2 * half) {
            for (uint32_t i = start; i < start + half; i++) {
                float a = x[i];
                float b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
        }
    }
}
