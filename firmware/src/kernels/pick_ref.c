/* Portable selection of positions, axis by axis. */
#include <string.h>

#include "refold/kernels.h"

static void pick_channels(const refold_pick_params *p, const int8_t *in, int8_t *out)
{
    for (int c = 0; c < p->out.c; c++)
        out[c] = p->channels[c] == REFOLD_NO_POSITION ? p->fill : in[p->channels[c]];
}

void refold_pick_ref(const refold_pick_params *p, const int8_t *in, int8_t *out)
{
    for (int y = 0; y < p->out.h; y++) {
        for (int x = 0; x < p->out.w; x++, out += p->out.c) {
            uint16_t row = p->rows[y], column = p->columns[x];
            if (row == REFOLD_NO_POSITION || column == REFOLD_NO_POSITION)
                memset(out, p->fill, p->out.c);
            else
                pick_channels(p, in + ((size_t)row * p->in.w + column) * p->in.c, out);
        }
    }
}
