/* MLPerf Tiny's protocol on the serial line, in place of refold's. */
#ifndef REFOLD_SERVE_MLPERF_H
#define REFOLD_SERVE_MLPERF_H

#include "refold/mlperf.h"

/*
 * Serve for ever, from the task that the watchdog watches. `memory` is of
 * REFOLD_MLPERF_BYTES for the model of `ctx`. Returns only what
 * refold_mlperf_init refuses.
 */
refold_status refold_serve_mlperf(refold_ctx *ctx, const refold_model *model,
                                  refold_clock clock, void *memory, size_t bytes);

#endif
