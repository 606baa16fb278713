/*
 * The size of the arena: context, activations, kernel scratch, adaptation.
 *
 * Plain macros, so that an emitted model.h can size a static array with them
 * and the planner can state the same bytes: no size depends on the platform.
 */
#ifndef REFOLD_ARENA_H
#define REFOLD_ARENA_H

#include "refold/kernels.h"

/* Reserved for the context; runtime.c proves that it fits. */
#define REFOLD_CONTEXT_BYTES 336

#define REFOLD_ALIGN_UP(bytes) \
    (((bytes) + REFOLD_ALIGNMENT - 1) / REFOLD_ALIGNMENT * REFOLD_ALIGNMENT)

/*
 * State of FORGE: 18 bytes a channel (R int32, m int16, E1, E2 and the window's E1
 * float), 8 a site, and 28 for each channel of the widest site (S1, S2, b int64, one
 * float).
 */
#define REFOLD_ADAPT_BYTES(site_channels, widest_site, sites) \
    REFOLD_ALIGN_UP(18 * (site_channels) + 28 * (widest_site) + 8 * (sites))

/* adapt_bytes: REFOLD_ADAPT_BYTES(...), or 0 without adaptation. */
#define REFOLD_ARENA_BYTES(activation_bytes, scratch_bytes, adapt_bytes) \
    (REFOLD_CONTEXT_BYTES +                                              \
     REFOLD_ALIGN_UP((activation_bytes) + REFOLD_TENSOR_SLACK) +         \
     REFOLD_ALIGN_UP(scratch_bytes) + (adapt_bytes))

#endif
