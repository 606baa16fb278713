/* Portable fully connected layer, int32 logits without a clamp. */
#include "dot.h"
#include "refold/kernels.h"
#include "../requant.h"

void refold_dense_s32_ref(const refold_dense_params *p, const int8_t *in, int32_t *out)
{
    const refold_requant *r = &p->requant;

    for (int i = 0; i < p->outputs; i++) {
        int32_t acc =
            p->offset[i] + refold_dot(in, p->weights + (size_t)i * p->inputs, p->inputs);
        out[i] = (int32_t)refold_scale(acc, r->m[i], r->b[i], r->shift);
    }
}
