/* The adaptation state in NVS, over resets and power cycles. */
#ifndef REFOLD_STORAGE_H
#define REFOLD_STORAGE_H

#include <stdbool.h>

#include "refold/refold.h"

/*
 * Open the storage and load the newest saved state into `ctx`. A state of
 * another model is left unused. False where nothing can be saved: the model has
 * no state, or NVS or memory for it is wanting.
 */
bool refold_storage_open(refold_ctx *ctx, const refold_model *model);

/* Save the state. False where flash did not take it; the one before is kept. */
bool refold_storage_save(const refold_ctx *ctx);

#endif
