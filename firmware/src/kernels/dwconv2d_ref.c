/*
 * Portable depthwise convolution: every tap is one multiply-add over the
 * channels, which lie side by side in input, weights and accumulators.
 *
 * Scratch: accumulators int32 [C], then a row of zero points int8 [C] that taps
 * outside the image read.
 */
#include <string.h>

#include "../moments.h"
#include "refold/kernels.h"
#include "../requant.h"

static size_t acc_bytes(const refold_conv2d_params *p)
{
    return p->out.c * sizeof(int32_t);
}

size_t refold_dwconv2d_scratch_bytes(const refold_conv2d_params *p)
{
    return acc_bytes(p) + p->out.c;
}

static void multiply_add(int32_t *restrict acc, const int8_t *restrict w,
                         const int8_t *restrict x, int channels)
{
    for (int c = 0; c < channels; c++)
        acc[c] += (int16_t)w[c] * (int16_t)x[c];
}

/* acc[c] = offset[c] + sum(w * x) at one output position. */
static void accumulate(const refold_conv2d_params *p, const int8_t *in, int oy, int ox,
                       int32_t *acc, const int8_t *padding)
{
    const int8_t *w = p->weights;
    int y0 = oy * p->stride_h - p->pad_top;
    int x0 = ox * p->stride_w - p->pad_left;

    memcpy(acc, p->offset, acc_bytes(p));
    for (int ky = 0; ky < p->kernel_h; ky++) {
        int y = y0 + ky * p->dilation_h;
        for (int kx = 0; kx < p->kernel_w; kx++, w += p->out.c) {
            int x = x0 + kx * p->dilation_w;
            int outside = y < 0 || y >= p->in.h || x < 0 || x >= p->in.w;
            const int8_t *tap =
                outside ? padding : in + ((size_t)y * p->in.w + x) * p->in.c;
            multiply_add(acc, w, tap, p->out.c);
        }
    }
}

void refold_dwconv2d_ref(const refold_conv2d_params *p, const refold_requant *requant,
                         const int8_t *in, int8_t *out, void *scratch,
                         const refold_moments *moments)
{
    int32_t *acc = scratch;
    int8_t *padding = (int8_t *)scratch + acc_bytes(p);

    memset(padding, p->zero_point, p->out.c);
    if (moments)
        refold_moments_clear(moments, p->out.c);
    for (int oy = 0; oy < p->out.h; oy++) {
        for (int ox = 0; ox < p->out.w; ox++) {
            accumulate(p, in, oy, ox, acc, padding);
            if (moments)
                refold_moments_row(moments, acc, p->out.c);
            if (out) {
                refold_requant_row(requant, acc, p->out.c, out);
                out += p->out.c;
            }
        }
    }
}
