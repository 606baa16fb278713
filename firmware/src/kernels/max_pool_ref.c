/* Portable max pool; padding never wins, the clamp is a fused activation. */
#include <string.h>

#include "window.h"
#include "refold/kernels.h"
#include "../requant.h"

static void maximum_row(int8_t *restrict best, const int8_t *restrict x, int channels)
{
    for (int c = 0; c < channels; c++)
        best[c] = x[c] > best[c] ? x[c] : best[c];
}

static void pool(const refold_pool_params *p, refold_window w, const int8_t *in,
                 int8_t *out)
{
    int channels = p->in.c;

    memset(out, INT8_MIN, (size_t)channels);
    for (int y = w.top; y < w.bottom; y++)
        for (int x = w.left; x < w.right; x++)
            maximum_row(out, in + ((size_t)y * p->in.w + x) * channels, channels);
    for (int c = 0; c < channels; c++)
        out[c] = refold_clamp(out[c], p->requant.lo, p->requant.hi);
}

void refold_max_pool_ref(const refold_pool_params *p, const int8_t *in, int8_t *out)
{
    for (int oy = 0; oy < p->out.h; oy++)
        for (int ox = 0; ox < p->out.w; ox++, out += p->out.c)
            pool(p, refold_window_inside(p, oy, ox), in, out);
}
