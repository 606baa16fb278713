/* Portable sum of two tensors; everything fits int32, as the compiler proved. */
#include "refold/kernels.h"
#include "../requant.h"

void refold_add_ref(const refold_add_params *p, const int8_t *a, const int8_t *b,
                    int8_t *out)
{
    for (uint32_t i = 0; i < p->count; i++) {
        int32_t q = (a[i] * p->m1 + b[i] * p->m2 + p->bias) >> p->shift;
        out[i] = (int8_t)(q < p->lo ? p->lo : q > p->hi ? p->hi : q);
    }
}
