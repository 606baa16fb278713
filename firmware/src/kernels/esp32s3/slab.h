/*
 * A slab: the input columns that one row of output needs, padded, and laid out
 * so that the window of every output pixel is one run of aligned memory.
 *
 * Internal. A column holds the KH inputs of one x below each other, a slot each:
 *
 *     [phase, x / dilation, KH, slot]     x % dilation is the phase
 *
 * and a window is KW neighbouring columns. Weights are packed in this order,
 * with zeros where a column is padded.
 */
#ifndef REFOLD_SLAB_H
#define REFOLD_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "pie.h"
#include "refold/kernels.h"

typedef struct refold_slab {
    const refold_conv2d_params *p;
    int8_t *columns;
    int slot;    /* bytes from one input of a column to the next */
    int column;  /* bytes of a column, a multiple of 16 */
    int width;   /* columns that the row of output sees, padding included */
    int phase;   /* columns of one phase */
} refold_slab;

/* Geometry alone; `slot` as above. */
refold_slab refold_slab_of(const refold_conv2d_params *p, int slot);

/* Bytes of the columns and of one slot that a kernel may load past them. */
size_t refold_slab_bytes(const refold_slab *slab);

/* Set everything, and so the padding left and right, to the zero point. */
void refold_slab_clear(refold_slab *slab, void *columns, refold_pie *pie);

/* Load what output row oy needs. */
void refold_slab_load(const refold_slab *slab, const int8_t *in, int oy,
                      refold_pie *pie);

/* The window of output column ox. */
static inline const int8_t *refold_slab_window(const refold_slab *slab, int ox)
{
    int x = ox * slab->p->stride_w;
    int dilation = slab->p->dilation_w;
    int at = dilation == 1 ? x : x % dilation * slab->phase + x / dilation;

    return slab->columns + (size_t)at * (size_t)slab->column;
}

#endif
