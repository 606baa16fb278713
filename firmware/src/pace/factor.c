#include "factor.h"

#include <math.h>

#include "../fp32.h"

#define LEAST_PIVOT (1.0f / (1 << 20))

static int is_full(uint32_t d)
{
    return d <= REFOLD_FULL_DIMENSION;
}

/* Row i of a triangle. */
static uint32_t row_of(uint32_t i)
{
    return i * (i + 1) / 2;
}

void refold_factor_clear(float *a, uint32_t d)
{
    for (uint32_t i = 0; i < REFOLD_FACTOR_FLOATS(d); i++)
        a[i] = 0.0f;
}

void refold_factor_add_diagonal(float *a, uint32_t d, float value)
{
    for (uint32_t i = 0; i < d; i++)
        a[is_full(d) ? row_of(i) + i : i] += value;
}

/* Last row first, so that y may be z. */
void refold_factor_apply(const float *a, uint32_t d, const float *z, float *y)
{
    for (uint32_t i = d; i-- > 0;) {
        if (is_full(d)) {
            const float *row = a + row_of(i);
            float sum = 0.0f;

            for (uint32_t j = 0; j <= i; j++)
                sum = sum + row[j] * z[j];
            y[i] = sum;
        } else {
            y[i] = a[i] * z[i];
        }
    }
}

void refold_factor_solve(const float *a, uint32_t d, const float *y, float *z)
{
    for (uint32_t i = 0; i < d; i++) {
        if (is_full(d)) {
            const float *row = a + row_of(i);
            float rest = y[i];

            for (uint32_t j = 0; j < i; j++)
                rest = rest - row[j] * z[j];
            z[i] = rest / row[i];
        } else {
            z[i] = y[i] / a[i];
        }
    }
}

void refold_factor_add_outer(float *m, uint32_t d, float weight, const float *z)
{
    for (uint32_t i = 0; i < d; i++) {
        float scaled = weight * z[i];

        if (is_full(d)) {
            float *row = m + row_of(i);

            for (uint32_t j = 0; j <= i; j++)
                row[j] = row[j] + scaled * z[j];
        } else {
            m[i] = m[i] + scaled * z[i];
        }
    }
}

/* m <- L with L L^T = m, a triangle, row by row. */
static void cholesky(float *m, uint32_t d)
{
    for (uint32_t i = 0; i < d; i++) {
        float *row = m + row_of(i);

        for (uint32_t j = 0; j <= i; j++) {
            const float *other = m + row_of(j);
            float rest = row[j];

            for (uint32_t k = 0; k < j; k++)
                rest = rest - row[k] * other[k];
            row[j] = i == j ? sqrtf(refold_fmax(rest, LEAST_PIVOT)) : rest / other[j];
        }
    }
}

/* a <- a l, triangles: entry (i, j) needs row i of a from column j on. */
static void multiply_triangles(float *a, const float *l, uint32_t d)
{
    for (uint32_t i = 0; i < d; i++) {
        float *row = a + row_of(i);

        for (uint32_t j = 0; j <= i; j++) {
            float sum = 0.0f;

            for (uint32_t k = j; k <= i; k++)
                sum = sum + row[k] * l[row_of(k) + j];
            row[j] = sum;
        }
    }
}

void refold_factor_multiply(float *a, float *m, uint32_t d)
{
    if (is_full(d)) {
        cholesky(m, d);
        multiply_triangles(a, m, d);
    } else {
        for (uint32_t i = 0; i < d; i++)
            a[i] = a[i] * sqrtf(refold_fmax(m[i], LEAST_PIVOT));
    }
}
