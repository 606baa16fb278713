/* Gathering of padded input columns; see slab.h. */
#include "slab.h"

#include <stdbool.h>
#include <string.h>

#include "channels.h"

#if defined REFOLD_ESP32S3

refold_slab refold_slab_of(const refold_conv2d_params *p, int slot)
{
    int width = (p->out.w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
    refold_slab slab = {
        .p = p,
        .slot = slot,
        .column = refold_round_up(p->kernel_h * slot, 16),
        .width = width,
        .phase = (width + p->dilation_w - 1) / p->dilation_w,
    };
    return slab;
}

size_t refold_slab_bytes(const refold_slab *slab)
{
    size_t columns = (size_t)slab->phase * slab->p->dilation_w;

    return columns * (size_t)slab->column + (size_t)refold_round_up(slab->slot, 16);
}

void refold_slab_clear(refold_slab *slab, void *columns, refold_pie *pie)
{
    slab->columns = columns;
    memset(columns, slab->p->zero_point, refold_slab_bytes(slab));
    PIE_SCALAR(20 + refold_slab_bytes(slab) / 4);
}

/* Copy 16 bytes to each of `count` columns, from `from_step` bytes to the next. */
PIE_INLINE void copy_vectors(int8_t *to, int to_step, const int8_t *from, int from_step,
                             int count, refold_pie *pie)
{
    for (; count >= 4; count -= 4) {
        EE_VLD_128_XP(0, from, from_step);
        EE_VLD_128_XP(1, from, from_step);
        EE_VLD_128_XP(2, from, from_step);
        EE_VLD_128_XP(3, from, from_step);
        EE_VST_128_XP(0, to, to_step);
        EE_VST_128_XP(1, to, to_step);
        EE_VST_128_XP(2, to, to_step);
        EE_VST_128_XP(3, to, to_step);
        PIE_SCALAR(2);
    }
    for (; count > 0; count--) {
        EE_VLD_128_XP(0, from, from_step);
        EE_VST_128_XP(0, to, to_step);
        PIE_SCALAR(2);
    }
    PIE_SCALAR(8);
}

/* One input row into its slot of `count` columns. */
static void copy_row(const refold_slab *slab, int8_t *to, const int8_t *from,
                     int from_step, int count, refold_pie *pie)
{
    int channels = slab->p->in.c;

    if (channels % 16 == 0) {
        for (int c = 0; c < channels; c += 16)
            copy_vectors(to + c, slab->column, from + c, from_step, count, pie);
        return;
    }
    for (int i = 0; i < count; i++, to += slab->column, from += from_step) {
        if (channels == 3) /* an image: three bytes are cheaper than a call */
            memcpy(to, from, 3);
        else
            memcpy(to, from, (size_t)channels);
        PIE_SCALAR(channels == 3 ? 10 : 24 + channels);
    }
}

/* An input row outside the image, in every column. */
static void fill_row(const refold_slab *slab, int8_t *to, refold_pie *pie)
{
    int columns = slab->phase * slab->p->dilation_w;

    for (int i = 0; i < columns; i++, to += slab->column) {
        memset(to, slab->p->zero_point, slab->p->in.c);
        PIE_SCALAR(20 + slab->p->in.c / 4);
    }
}

void refold_slab_load(const refold_slab *slab, const int8_t *in, int oy, refold_pie *pie)
{
    const refold_conv2d_params *p = slab->p;
    int dilation = p->dilation_w;
    int end = p->pad_left + p->in.w < slab->width ? p->pad_left + p->in.w : slab->width;
    int8_t *slot = slab->columns;

    for (int ky = 0; ky < p->kernel_h; ky++, slot += slab->slot) {
        int y = oy * p->stride_h - p->pad_top + ky * p->dilation_h;
        if (y < 0 || y >= p->in.h) {
            fill_row(slab, slot, pie);
            continue;
        }
        const int8_t *row = in + (size_t)y * p->in.w * p->in.c;
        for (int x = p->pad_left; x < p->pad_left + dilation && x < end; x++) {
            int at = x % dilation * slab->phase + x / dilation;
            copy_row(slab, slot + (size_t)at * (size_t)slab->column,
                     row + (size_t)(x - p->pad_left) * p->in.c, dilation * p->in.c,
                     (end - x + dilation - 1) / dilation, pie);
            PIE_SCALAR(40);
        }
    }
}

#endif
