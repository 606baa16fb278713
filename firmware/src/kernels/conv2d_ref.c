/*
 * Portable convolution: gather the patch of one output position, then one dot
 * product a channel.
 *
 * Scratch: accumulators int32 [C_OUT], then the patch int8 [KH, KW, C_IN/groups].
 */
#include <string.h>

#include "dot.h"
#include "../moments.h"
#include "refold/kernels.h"
#include "../requant.h"

static size_t acc_bytes(const refold_conv2d_params *p)
{
    return p->out.c * sizeof(int32_t);
}

size_t refold_conv2d_scratch_bytes(const refold_conv2d_params *p)
{
    return acc_bytes(p) + (size_t)p->kernel_h * p->kernel_w * (p->in.c / p->groups);
}

/* Copy the inputs that output position (oy, ox) sees in one group. */
static void gather(const refold_conv2d_params *p, const int8_t *in, int oy, int ox,
                   int group, int8_t *patch)
{
    size_t run = p->in.c / p->groups;
    int y0 = oy * p->stride_h - p->pad_top;
    int x0 = ox * p->stride_w - p->pad_left;

    for (int ky = 0; ky < p->kernel_h; ky++) {
        int y = y0 + ky * p->dilation_h;
        for (int kx = 0; kx < p->kernel_w; kx++, patch += run) {
            int x = x0 + kx * p->dilation_w;
            size_t at = ((size_t)y * p->in.w + x) * p->in.c + group * run;
            if (y < 0 || y >= p->in.h || x < 0 || x >= p->in.w)
                memset(patch, p->zero_point, run);
            else
                memcpy(patch, in + at, run);
        }
    }
}

/* acc[c] = offset[c] + sum(w * x) at one output position. */
static void accumulate(const refold_conv2d_params *p, const int8_t *in, int oy, int ox,
                       int32_t *acc, int8_t *patch)
{
    int length = p->kernel_h * p->kernel_w * (p->in.c / p->groups);
    int filters = p->out.c / p->groups;

    for (int group = 0; group < p->groups; group++) {
        gather(p, in, oy, ox, group, patch);
        for (int c = group * filters; c < (group + 1) * filters; c++) {
            const int8_t *w = p->weights + (size_t)c * length;
            acc[c] = p->offset[c] + refold_dot(patch, w, length);
        }
    }
}

void refold_conv2d_ref(const refold_conv2d_params *p, const refold_requant *requant,
                       const int8_t *in, int8_t *out, void *scratch,
                       const refold_moments *moments)
{
    int32_t *acc = scratch;
    int8_t *patch = (int8_t *)scratch + acc_bytes(p);

    if (moments)
        refold_moments_clear(moments, p->out.c);
    for (int oy = 0; oy < p->out.h; oy++) {
        for (int ox = 0; ox < p->out.w; ox++) {
            accumulate(p, in, oy, ox, acc, patch);
            if (moments)
                refold_moments_row(moments, acc, p->out.c);
            if (out) {
                refold_requant_row(requant, acc, p->out.c, out);
                out += p->out.c;
            }
        }
    }
}
