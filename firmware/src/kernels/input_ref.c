/* Portable input stage: raw pixels to int8 through one table a channel. */
#include "refold/kernels.h"

void refold_input_ref(const refold_input_table *p, const uint8_t *in, int8_t *out)
{
    for (uint32_t i = 0; i < p->pixels; i++)
        for (int c = 0; c < p->channels; c++)
            *out++ = p->table[c * 256 + *in++];
}
