/*
 * Portable average pool. The multiplier is chosen by the number of positions
 * averaged, so that the division stays an exact multiplication and shift.
 */
#include "window.h"
#include "refold/kernels.h"
#include "../requant.h"

/* Channels summed together: bounds the accumulators on the stack. */
#define BLOCK 16

/* Positions of the window inside the padded image. */
static int padded_area(const refold_pool_params *p, int oy, int ox)
{
    int y = oy * p->stride_h - p->pad_top;
    int x = ox * p->stride_w - p->pad_left;

    return (refold_min(y + p->kernel_h, p->in.h + p->pad_bottom) - y) *
           (refold_min(x + p->kernel_w, p->in.w + p->pad_right) - x);
}

static int entry_of(const refold_pool_params *p, int count)
{
    int i = 0;

    while (i < p->entries - 1 && p->count[i] != (uint32_t)count)
        i++;
    return i;
}

static void sum_block(const refold_pool_params *p, refold_window w, const int8_t *in,
                      int channels, int32_t *sum)
{
    for (int y = w.top; y < w.bottom; y++) {
        for (int x = w.left; x < w.right; x++) {
            const int8_t *at = in + ((size_t)y * p->in.w + x) * p->in.c;
            for (int c = 0; c < channels; c++)
                sum[c] += at[c];
        }
    }
}

static void pool(const refold_pool_params *p, int oy, int ox, const int8_t *in,
                 int8_t *out)
{
    refold_window w = refold_window_inside(p, oy, ox);
    int inside = refold_window_area(w);
    int count = p->include_pad ? padded_area(p, oy, ox) : inside;
    int i = entry_of(p, count);
    const refold_requant *r = &p->requant;

    for (int first = 0; first < p->in.c; first += BLOCK) {
        int channels = refold_min(BLOCK, p->in.c - first);
        int32_t sum[BLOCK];
        for (int c = 0; c < channels; c++)
            sum[c] = (count - inside) * p->zero_point;
        sum_block(p, w, in + first, channels, sum);
        for (int c = 0; c < channels; c++) {
            int64_t q = refold_scale(sum[c], r->m[i], r->b[i], r->shift);
            out[first + c] = refold_clamp(q, r->lo, r->hi);
        }
    }
}

void refold_avg_pool_ref(const refold_pool_params *p, const int8_t *in, int8_t *out)
{
    for (int oy = 0; oy < p->out.h; oy++)
        for (int ox = 0; ox < p->out.w; ox++, out += p->out.c)
            pool(p, oy, ox, in, out);
}
