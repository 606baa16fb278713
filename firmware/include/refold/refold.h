/*
 * refold: int8 CNN inference that adapts itself.
 *
 *     static REFOLD_ALIGNED uint8_t arena[REFOLD_MODEL_ARENA_BYTES];
 *     refold_ctx *ctx;
 *     refold_adapt_config config;
 *     int32_t logits[REFOLD_MODEL_OUTPUTS];
 *
 *     if (refold_init(&ctx, &refold_model_data, arena, sizeof arena) < 0) ...
 *     refold_adapt_defaults(&refold_model_data, &config);
 *     if (refold_adapt_set(ctx, &config) < 0) ...
 *     if (refold_infer(ctx, pixels, logits) < 0) ...
 *
 * C99, no heap, no mutable globals: all state lives in the caller's arena.
 * A context belongs to one thread at a time.
 *
 * Compile with -ffp-contract=off, without -ffast-math, and link libm: GCC
 * contracts a * b + c by default, which changes the last bits of the statistics,
 * and refold_init then returns REFOLD_ERROR_FLOAT.
 */
#ifndef REFOLD_REFOLD_H
#define REFOLD_REFOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "refold/adapt.h"
#include "refold/model.h"
#include "refold/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Microseconds from any origin; wraps. */
typedef uint32_t (*refold_clock)(void);

/* Called after each layer; `data` is the layer's output, int8 or int32. */
typedef void (*refold_trace)(void *user, uint16_t layer, const void *data,
                             uint32_t bytes);

/* Bytes of arena that `model` needs: REFOLD_MODEL_ARENA_BYTES of model.h. */
size_t refold_arena_bytes(const refold_model *model);

/*
 * Build a context at the start of `arena`, aligned to REFOLD_ALIGNMENT.
 * Adaptation starts switched off.
 *
 * Returns REFOLD_ERROR_ABI for a model of another ABI, REFOLD_ERROR_SIZE where
 * the arena is too small or misaligned, REFOLD_ERROR_FLOAT where the compiler
 * or its flags do not give IEEE single precision without contraction.
 */
refold_status refold_init(refold_ctx **ctx, const refold_model *model, void *arena,
                          size_t arena_bytes);

/*
 * Run one image. input: model->input_bytes bytes, uint8 HWC pixels or int8
 * tensors, each of several at a multiple of REFOLD_ALIGNMENT from its start.
 * logits: model->output_count values, the outputs in turn. Adaptation, where on, sees the image once.
 */
refold_status refold_infer(refold_ctx *ctx, const void *input, int32_t *logits);

/*
 * Softmax of logits as Q15 probabilities, `count` of them, for confidence and
 * entropy: p = exp15(max - logit) / sum, integers only.
 */
void refold_softmax(const refold_softmax_table *table, const int32_t *logits,
                    uint32_t count, uint16_t *probabilities);

/*
 * Called where an inference, or within it the work of adapting at one site, begins
 * (`on`) and ends. Put on a pin, it lets an instrument tell what energy each takes.
 */
#define REFOLD_TRIGGER_INFER 0
#define REFOLD_TRIGGER_ADAPT 1
typedef void (*refold_trigger)(void *user, uint8_t what, bool on);

/* Optional hooks; NULL removes them. */
void refold_set_clock(refold_ctx *ctx, refold_clock clock);
void refold_set_trigger(refold_ctx *ctx, refold_trigger trigger, void *user);
void refold_set_trace(refold_ctx *ctx, refold_trace trace, void *user);

#ifdef __cplusplus
}
#endif

#endif
