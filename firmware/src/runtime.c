/*
 * The runtime: lays out the arena and executes a model's layers in order.
 */
#include <string.h>

#include "context.h"
#include "float_check.h"
#include "refold/arena.h"

/* Compile-time proofs of the sizes that arena.h promises. */
typedef char refold_proof_context_fits[sizeof(refold_ctx) <= REFOLD_CONTEXT_BYTES ? 1
                                                                                  : -1];
typedef char refold_proof_site_state[sizeof(refold_site_state) == 8 ? 1 : -1];

size_t refold_arena_bytes(const refold_model *model)
{
    return REFOLD_ARENA_BYTES((size_t)model->activation_bytes,
                              (size_t)model->scratch_bytes, refold_adapt_bytes(model));
}

refold_status refold_init(refold_ctx **ctx, const refold_model *model, void *arena,
                          size_t arena_bytes)
{
    refold_ctx *made = arena;

    if (model->abi != REFOLD_ABI)
        return REFOLD_ERROR_ABI;
    if ((uintptr_t)arena % REFOLD_ALIGNMENT != 0 ||
        arena_bytes < refold_arena_bytes(model))
        return REFOLD_ERROR_SIZE;
    if (!refold_float_is_ieee())
        return REFOLD_ERROR_FLOAT;
    memset(made, 0, sizeof *made);
    made->model = model;
    made->activations = (uint8_t *)arena + REFOLD_CONTEXT_BYTES;
    uint8_t *scratch = made->activations +
                       REFOLD_ALIGN_UP(model->activation_bytes + REFOLD_TENSOR_SLACK);
    made->scratch = scratch;
    refold_adapt_init(made, scratch + REFOLD_ALIGN_UP(model->scratch_bytes));
    *ctx = made;
    return REFOLD_OK;
}

void refold_set_clock(refold_ctx *ctx, refold_clock clock)
{
    ctx->clock = clock;
}

void refold_set_trace(refold_ctx *ctx, refold_trace trace, void *user)
{
    ctx->trace = trace;
    ctx->trace_user = user;
}

void refold_set_trigger(refold_ctx *ctx, refold_trigger trigger, void *user)
{
    ctx->trigger = trigger;
    ctx->trigger_user = user;
}

static void load_input(refold_ctx *ctx, const void *input)
{
    const refold_model *model = ctx->model;
    const uint8_t *source = input;

    for (int i = 0; i < model->input_tensors; i++) {
        uint8_t *tensor = ctx->activations + model->inputs[i].tensor;

        if (model->input_kind == REFOLD_INPUT_PIXELS)
            refold_input(model->input_table, source, (int8_t *)tensor);
        else
            memcpy(tensor, source, model->inputs[i].bytes);
        source += REFOLD_ALIGN_UP(model->inputs[i].bytes);
    }
}

static int8_t *tensor_at(const refold_ctx *ctx, uint32_t offset)
{
    return offset == REFOLD_NO_TENSOR ? NULL : (int8_t *)(ctx->activations + offset);
}

static void run_layer(refold_ctx *ctx, const refold_layer *layer)
{
    refold_call call = {
        .params = layer->params,
        .out = ctx->activations + layer->out,
        .scratch = ctx->scratch,
    };

    for (int i = 0; i < REFOLD_LAYER_INPUTS; i++)
        call.in[i] = tensor_at(ctx, layer->in[i]);

    if (layer->site != REFOLD_NO_SITE && ctx->config.method != REFOLD_METHOD_OFF)
        refold_adapt_run(ctx, layer->site, layer->run, &call);
    else
        layer->run(&call);
}

static void trace_layer(const refold_ctx *ctx, uint16_t index)
{
    const refold_layer *layer = &ctx->model->layers[index];
    uint32_t bytes = layer->out_elements * (layer->out_is_s32 ? 4u : 1u);

    ctx->trace(ctx->trace_user, index, ctx->activations + layer->out, bytes);
}

/* Write one output as int32; returns where the next one goes. */
static int32_t *copy_output(const refold_ctx *ctx, const refold_output_tensor *output,
                            int32_t *logits)
{
    const refold_layer *layer = &ctx->model->layers[output->layer];
    const void *tensor = ctx->activations + layer->out;
    const int8_t *q = tensor;

    if (layer->out_is_s32)
        memcpy(logits, tensor, layer->out_elements * sizeof *logits);
    else
        for (uint32_t i = 0; i < layer->out_elements; i++)
            logits[i] = q[i] - output->zero_point;
    return logits + layer->out_elements;
}

int8_t *refold_last_input(const refold_ctx *ctx)
{
    const refold_model *model = ctx->model;

    return tensor_at(ctx, model->layers[model->layer_count - 1].in[0]);
}

/* The layers from `first` to before `end`. */
static void run_layers(refold_ctx *ctx, uint16_t first, uint16_t end)
{
    for (uint16_t i = first; i < end; i++) {
        if (i + 1 == ctx->model->layer_count)
            refold_adapt_features(ctx);
        run_layer(ctx, &ctx->model->layers[i]);
        if (ctx->trace && !ctx->rehearsing)
            trace_layer(ctx, i);
    }
}

static void run_to_end(refold_ctx *ctx, uint16_t first, int32_t *logits)
{
    run_layers(ctx, first, ctx->model->layer_count);
    for (int i = 0; i < ctx->model->output_tensors; i++)
        logits = copy_output(ctx, &ctx->model->outputs[i], logits);
}

/* The image's way to the layers in which candidates differ, and what those read. */
static uint16_t run_shared(refold_ctx *ctx, const void *input)
{
    const refold_pace_plan *plan = ctx->model->pace;
    uint16_t first = plan != NULL ? plan->first : 0;

    load_input(ctx, input);
    run_layers(ctx, 0, first);
    refold_adapt_take(ctx, first > 0 ? ctx->activations + plan->kept : input);
    return first;
}

void refold_rehearse(refold_ctx *ctx, const void *kept, int32_t *logits)
{
    const refold_pace_plan *plan = ctx->model->pace;

    if (plan->first > 0)
        memcpy(ctx->activations + plan->kept, kept, plan->kept_bytes);
    else
        load_input(ctx, kept);
    ctx->rehearsing = true;
    run_to_end(ctx, plan->first, logits);
    ctx->rehearsing = false;
}

refold_status refold_infer(refold_ctx *ctx, const void *input, int32_t *logits)
{
    refold_adapt_search(ctx);
    uint32_t start = refold_now(ctx);
    refold_signal(ctx, REFOLD_TRIGGER_INFER, true);
    refold_adapt_begin(ctx);
    run_to_end(ctx, run_shared(ctx, input), logits);
    refold_adapt_end(ctx);
    refold_adapt_keep(ctx, logits);
    ctx->report.infer_us = refold_now(ctx) - start;
    refold_signal(ctx, REFOLD_TRIGGER_INFER, false);
    return REFOLD_OK;
}
