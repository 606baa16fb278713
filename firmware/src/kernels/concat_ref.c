/* Portable concatenation; everything fits int32, as for the sum. */
#include "refold/kernels.h"
#include "../requant.h"

static void rescale(const refold_concat_part *part, const int8_t *in, int8_t *out)
{
    for (uint32_t i = 0; i < part->elements; i++)
        out[i] = refold_clamp((in[i] * part->m + part->bias) >> part->shift, INT8_MIN,
                              INT8_MAX);
}

void refold_concat_ref(const refold_concat_params *p, const int8_t *const in[],
                       int8_t *out)
{
    for (uint32_t row = 0; row < p->rows; row++) {
        for (int i = 0; i < p->parts; i++) {
            const refold_concat_part *part = &p->part[i];
            rescale(part, in[i] + (size_t)row * part->elements, out);
            out += part->elements;
        }
    }
}
