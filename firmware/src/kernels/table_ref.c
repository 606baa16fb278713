/* Portable lookup, element by element. */
#include "refold/kernels.h"

void refold_table_ref(const refold_table_params *p, const int8_t *in, int8_t *out)
{
    for (uint32_t i = 0; i < p->count; i++)
        out[i] = p->table[in[i] + 128];
}
