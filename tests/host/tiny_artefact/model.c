/*
 * logits[c] = floor((c + 1) * sum(pixel - 128) / 4): what a test can say without
 * a compiler.
 */
#include "model.h"

/* Pixel to int8: p - 128. */
#define T4(x) (int8_t)((x)-128), (int8_t)((x)-127), (int8_t)((x)-126), (int8_t)((x)-125)
#define T16(x) T4(x), T4((x) + 4), T4((x) + 8), T4((x) + 12)
#define T64(x) T16(x), T16((x) + 16), T16((x) + 32), T16((x) + 48)
static const int8_t table[256] = {T64(0), T64(64), T64(128), T64(192)};
static const refold_input_table input_table = {12, 1, table};

static const REFOLD_ALIGNED int8_t weights[36 + REFOLD_TENSOR_SLACK] = {
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* */
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, /* */
    3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
};
static const int32_t offset[3] = {0, 0, 0};
static const int16_t m[3] = {16384, 16384, 16384};
static const int64_t b[3] = {0, 0, 0};
static const refold_dense_params dense = {
    .inputs = 12,
    .outputs = 3,
    .weights = weights,
    .offset = offset,
    .requant = {m, b, 16, -128, 127},
};

static const refold_layer layers[1] = {
    {.name = "logits",
     .run = refold_run_dense_s32,
     .params = &dense,
     .in = {0, REFOLD_NO_TENSOR, REFOLD_NO_TENSOR, REFOLD_NO_TENSOR},
     .out = 16,
     .out_elements = 3,
     .site = REFOLD_NO_SITE,
     .out_is_s32 = 1},
};

static const refold_input_tensor inputs[1] = {{0, REFOLD_MODEL_INPUT_BYTES}};
static const refold_output_tensor outputs[1] = {{.layer = 0, .scale = 1.0f}};

static const refold_softmax_table softmax = {{32768}, 0};

const refold_model refold_model_data = {
    .abi = REFOLD_ABI,
    .name = "tiny",
    .sha256 = {1, 2, 3},
    .input_kind = REFOLD_INPUT_PIXELS,
    .input_bytes = REFOLD_MODEL_INPUT_BYTES,
    .input_table = &input_table,
    .inputs = inputs,
    .input_tensors = 1,
    .layer_count = 1,
    .layers = layers,
    .outputs = outputs,
    .output_tensors = 1,
    .output_count = REFOLD_MODEL_OUTPUTS,
    .softmax = &softmax,
    .activation_bytes = 128,
};
