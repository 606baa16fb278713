/* Portable input stage: raw pixels to int8 through one table a channel. */
#include "refold/kernels.h"

/* A channel at a time: what stays the same stays in registers. */
void refold_input_ref(const refold_input_table *p, const uint8_t *in, int8_t *out)
{
    uint32_t values = p->pixels * p->channels;
    uint32_t step = p->channels;
    const int8_t *table = p->table;

    for (uint32_t c = 0; c < step; c++, table += 256)
        for (uint32_t i = c; i < values; i += step)
            out[i] = table[in[i]];
}
