/*
 * The part of a pooling window that lies inside the image. Internal.
 */
#ifndef REFOLD_WINDOW_H
#define REFOLD_WINDOW_H

#include "refold/kernels.h"

/* Half-open ranges of input rows and columns. */
typedef struct refold_window {
    int top, bottom, left, right;
} refold_window;

static inline int refold_min(int a, int b)
{
    return a < b ? a : b;
}

static inline int refold_max(int a, int b)
{
    return a > b ? a : b;
}

static inline refold_window refold_window_inside(const refold_pool_params *p, int oy,
                                                 int ox)
{
    int y = oy * p->stride_h - p->pad_top;
    int x = ox * p->stride_w - p->pad_left;
    refold_window window = {
        .top = refold_max(y, 0),
        .bottom = refold_min(y + p->kernel_h, p->in.h),
        .left = refold_max(x, 0),
        .right = refold_min(x + p->kernel_w, p->in.w),
    };
    return window;
}

static inline int refold_window_area(refold_window w)
{
    return refold_max(w.bottom - w.top, 0) * refold_max(w.right - w.left, 0);
}

#endif
