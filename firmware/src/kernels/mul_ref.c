/* Portable product of two tensors, the second perhaps broadcast. */
#include "refold/kernels.h"
#include "../requant.h"

static void multiply_row(const refold_mul_params *p, const int8_t *a, const int8_t *b,
                         int8_t *out)
{
    for (int c = 0; c < p->channels; c++) {
        int32_t other = b[c * p->channel_step] - p->zero_point_b;
        int32_t product = (a[c] - p->zero_point_a) * other;
        int64_t q = refold_scale(product, p->m, p->bias, p->shift);
        out[c] = refold_clamp(q, p->lo, p->hi);
    }
}

void refold_mul_ref(const refold_mul_params *p, const int8_t *a, const int8_t *b,
                    int8_t *out)
{
    for (uint32_t i = 0; i < p->positions; i++) {
        multiply_row(p, a, b, out);
        a += p->channels;
        b += p->position_step;
        out += p->channels;
    }
}
