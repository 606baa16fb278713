/* Portable lookup, element by element; the channels take their tables in turn. */
#include "refold/kernels.h"

void refold_table_ref(const refold_table_params *p, const int8_t *in, int8_t *out)
{
    for (uint32_t i = 0; i < p->count; i += p->channels)
        for (uint32_t c = 0; c < p->channels; c++)
            out[i + c] = p->table[256 * c + (uint32_t)(in[i + c] + 128)];
}
