/*
 * A model written by hand that uses every operator, for tests of the runtime.
 * Its weights are arbitrary; every offset is -z * sum(w) of its input.
 */
#include "tiny_model.h"

#ifndef TINY_ADAPTATION
#define TINY_ADAPTATION REFOLD_METHOD_FORGE
#endif

/* [C, 256] */
static const int8_t input_table[] = {
    -120, -119, -118, -117, -116, -115, -114, -113, -112, -111, -110, -109, -108,
    -107, -106, -105, -104, -103, -102, -101, -101, -100, -99, -98, -97, -96, -95,
    -94, -93, -92, -91, -90, -89, -88, -87, -86, -85, -84, -83, -82, -82, -81, -80,
    -79, -78, -77, -76, -75, -74, -73, -72, -71, -70, -69, -68, -67, -66, -65, -64,
    -63, -63, -62, -61, -60, -59, -58, -57, -56, -55, -54, -53, -52, -51, -50, -49,
    -48, -47, -46, -45, -44, -44, -43, -42, -41, -40, -39, -38, -37, -36, -35, -34,
    -33, -32, -31, -30, -29, -28, -27, -26, -25, -25, -24, -23, -22, -21, -20, -19,
    -18, -17, -16, -15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -6, -5, -4, -3, -2,
    -1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19,
    20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 32, 33, 34, 35, 36, 37, 38,
    39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 51, 52, 53, 54, 55, 56, 57,
    58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 70, 71, 72, 73, 74, 75, 76,
    77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 89, 90, 91, 92, 93, 94, 95,
    96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 108, 109, 110, 111,
    112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, -110, -109, -108, -107,
    -106, -106, -105, -104, -103, -102, -102, -101, -100, -99, -98, -98, -97, -96,
    -95, -94, -94, -93, -92, -91, -90, -90, -89, -88, -87, -86, -86, -85, -84, -83,
    -82, -82, -81, -80, -79, -78, -78, -77, -76, -75, -74, -74, -73, -72, -71, -70,
    -70, -69, -68, -67, -66, -66, -65, -64, -63, -62, -62, -61, -60, -59, -58, -58,
    -57, -56, -55, -54, -54, -53, -52, -51, -50, -50, -49, -48, -47, -46, -46, -45,
    -44, -43, -42, -42, -41, -40, -39, -38, -38, -37, -36, -35, -34, -34, -33, -32,
    -31, -30, -30, -29, -28, -27, -26, -26, -25, -24, -23, -22, -22, -21, -20, -19,
    -18, -18, -17, -16, -15, -14, -14, -13, -12, -11, -10, -10, -9, -8, -7, -6, -6,
    -5, -4, -3, -2, -2, -1, 0, 0, 1, 2, 2, 3, 4, 5, 6, 6, 7, 8, 9, 10, 10, 11, 12,
    13, 14, 14, 15, 16, 17, 18, 18, 19, 20, 21, 22, 22, 23, 24, 25, 26, 26, 27, 28,
    29, 30, 30, 31, 32, 33, 34, 34, 35, 36, 37, 38, 38, 39, 40, 41, 42, 42, 43, 44,
    45, 46, 46, 47, 48, 49, 50, 50, 51, 52, 53, 54, 54, 55, 56, 57, 58, 58, 59, 60,
    61, 62, 62, 63, 64, 65, 66, 66, 67, 68, 69, 70, 70, 71, 72, 73, 74, 74, 75, 76,
    77, 78, 78, 79, 80, 81, 82, 82, 83, 84, 85, 86, 86, 87, 88, 89, 90, 90, 91, 92,
    93, 94,
};

/* conv: 3x3, 2 to 4 channels */
static const int8_t conv_weights[] = {
    0, 12, -11, -36, -18, -40, 2, 54, -20, -25, 20, 14, 4, -37, -1, 28, -54, -18,
    -76, -52, -74, -9, -51, 11, 6, -7, -101, -22, -2, 5, -61, -19, -39, -32, 42,
    -32, -1, 35, -23, -4, 4, 3, -49, 3, 54, -62, 34, 5, -26, 80, 30, -48, 3, 23, -8,
    27, -3, 27, 58, -27, 8, -19, 5, -47, -23, -8, 36, 46, -53, -32, 26, -80,
};

static const int32_t conv_offset[] = {
    -2520, -10260, 1220, -1340,
};

static const int16_t conv_m[] = {
    3557, 6973, 6198, 3789,
};

static const int64_t conv_b[] = {
    107543210, 59928542, -25351499, -28821234,
};

/* depthwise: 3x3, 4 channels */
static const int8_t depthwise_weights[] = {
    -10, 61, -17, -12, 14, -5, -8, -45, 0, -18, 47, 26, -1, 27, -14, 42, 0, 23, -52,
    14, -68, -81, -12, -36, 7, 90, -33, -25, 8, 20, -7, -8, 28, 21, -41, -3,
};

static const int32_t depthwise_offset[] = {
    -220, 1380, -1370, -470,
};

static const int16_t depthwise_m[] = {
    10608, 12023, 11944, 12484,
};

static const int64_t depthwise_b[] = {
    14680064, -48234496, 85983232, 2097152,
};

/* point: 1x1, 4 to 6 channels */
static const int8_t point_weights[] = {
    10, -34, 39, 8, 4, -24, -5, -80, -45, 15, -85, 34, -70, 30, -34, 31, 5, -61, 50,
    58, -3, -11, -6, -39,
};

static const int32_t point_offset[] = {
    -115, 525, 405, 215, -260, 295,
};

static const int16_t point_m[] = {
    15342, 15387, 18144, 13693, 19403, 18660,
};

static const int64_t point_b[] = {
    2097152, -123731968, 60817408, 35651584, -18874368, 169869312,
};

static const int8_t lookup[] = {
    -110, -109, -108, -108, -107, -106, -105, -104, -103, -102, -101, -100, -99,
    -98, -98, -97, -96, -95, -94, -93, -92, -91, -90, -90, -89, -88, -87, -86, -85,
    -84, -83, -82, -81, -80, -80, -79, -78, -77, -76, -75, -74, -73, -72, -72, -71,
    -70, -69, -68, -67, -66, -65, -64, -63, -62, -62, -61, -60, -59, -58, -57, -56,
    -55, -54, -54, -53, -52, -51, -50, -49, -48, -47, -46, -45, -44, -44, -43, -42,
    -41, -40, -39, -38, -37, -36, -36, -35, -34, -33, -32, -31, -30, -29, -28, -27,
    -26, -26, -25, -24, -23, -22, -21, -20, -19, -18, -18, -17, -16, -15, -14, -13,
    -12, -11, -10, -9, -8, -8, -7, -6, -5, -4, -3, -2, -1, 0, 0, 1, 2, 3, 4, 5, 6,
    7, 8, 9, 10, 10, 11, 12, 13, 14, 15, 16, 17, 18, 18, 19, 20, 21, 22, 23, 24, 25,
    26, 27, 28, 28, 29, 30, 31, 32, 33, 34, 35, 36, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 46, 47, 48, 49, 50, 51, 52, 53, 54, 54, 55, 56, 57, 58, 59, 60, 61,
    62, 63, 64, 64, 65, 66, 67, 68, 69, 70, 71, 72, 72, 73, 74, 75, 76, 77, 78, 79,
    80, 81, 82, 82, 83, 84, 85, 86, 87, 88, 89, 90, 90, 91, 92, 93, 94, 95, 96, 97,
    98, 99, 100, 100, 101, 102, 103, 104, 105, 106, 107, 108, 108, 109, 110, 111,
    112, 113, 114, 115, 116, 117, 118, 118, 119,
};

/* hidden: 6 to 5 */
static const int8_t hidden_weights[] = {
    -32, -25, -51, 50, -6, 39, 1, -28, -13, -22, 0, -15, -12, -55, -32, 66, -27,
    -42, 13, 56, -58, -8, -25, -70, 29, -1, 3, -30, 18, -22,
};

static const int32_t hidden_offset[] = {
    0, 0, 0, 0, 0,
};

static const int16_t hidden_m[] = {
    9035, 17404, 16697, 17967, 18850,
};

static const int64_t hidden_b[] = {
    2097152, -10485760, 60817408, 35651584, -18874368,
};

/* logits: 5 to 3 */
static const int8_t logits_weights[] = {
    53, -20, 12, -1, -18, -20, 25, -12, -6, 1, 47, 27, 15, -23, -55,
};

static const int32_t logits_offset[] = {
    78, -36, 33,
};

static const int16_t logits_m[] = {
    17029, 10199, 10826,
};

static const int64_t logits_b[] = {
    26345472, -78512128, 3801088,
};

static const refold_input_table input = {36, 2, input_table};

static const refold_conv2d_params conv = {
    .in = {6, 6, 2}, .out = {6, 6, 4}, .kernel_h = 3, .kernel_w = 3,
    .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1,
    .pad_top = 1, .pad_left = 1, .groups = 1, .zero_point = -20,
    .weights = conv_weights, .offset = conv_offset,
    .requant = {conv_m, conv_b, 22, -10, 127},
};

static const refold_conv2d_params depthwise = {
    .in = {6, 6, 4}, .out = {6, 6, 4}, .kernel_h = 3, .kernel_w = 3,
    .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1,
    .pad_top = 1, .pad_left = 1, .groups = 4, .zero_point = -10,
    .weights = depthwise_weights, .offset = depthwise_offset,
    .requant = {depthwise_m, depthwise_b, 22, -128, 127},
};

static const refold_add_params add = {144, 14000, 9000, 90000, 14, -100, 120};

static const uint32_t max_count[] = {4};
static const refold_pool_params max_pool = {
    .in = {6, 6, 4}, .out = {3, 3, 4}, .kernel_h = 2, .kernel_w = 2,
    .stride_h = 2, .stride_w = 2, .entries = 1, .count = max_count,
    .requant = {NULL, NULL, 0, -128, 127},
};

static const refold_table_params table = {36, 1, lookup};

static const refold_conv2d_params point = {
    .in = {3, 3, 4}, .out = {3, 3, 6}, .kernel_h = 1, .kernel_w = 1,
    .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1,
    .groups = 1, .zero_point = 5,
    .weights = point_weights, .offset = point_offset,
    .requant = {point_m, point_b, 22, -128, 127},
};

static const uint32_t average_count[] = {9};
static const int16_t average_m[] = {29127};
static const int64_t average_b[] = {131072};
static const refold_pool_params average = {
    .in = {3, 3, 6}, .out = {1, 1, 6}, .kernel_h = 3, .kernel_w = 3,
    .stride_h = 1, .stride_w = 1, .entries = 1, .count = average_count,
    .requant = {average_m, average_b, 18, -128, 127},
};

static const refold_dense_params hidden = {
    6, 5, hidden_weights, hidden_offset, {hidden_m, hidden_b, 22, -3, 127},
};

static const refold_dense_params logits = {
    5, 3, logits_weights, logits_offset, {logits_m, logits_b, 18, 0, 0},
};

static const refold_layer layers[] = {
    {"conv", refold_run_conv2d, &conv, {0, REFOLD_NO_TENSOR}, 80, 144, 0, 0},
    {"depthwise", refold_run_dwconv2d, &depthwise, {80, REFOLD_NO_TENSOR}, 224, 144, 1, 0},
    {"add", refold_run_add, &add, {80, 224}, 80, 144, REFOLD_NO_SITE, 0},
    {"max", refold_run_max_pool, &max_pool, {80, REFOLD_NO_TENSOR}, 224, 36,
     REFOLD_NO_SITE, 0},
    {"table", refold_run_table, &table, {224, REFOLD_NO_TENSOR}, 224, 36,
     REFOLD_NO_SITE, 0},
    {"point", refold_run_conv2d, &point, {224, REFOLD_NO_TENSOR}, 272, 54, 2, 0},
    {"average", refold_run_avg_pool, &average, {272, REFOLD_NO_TENSOR}, 336, 6,
     REFOLD_NO_SITE, 0},
    {"hidden", refold_run_dense, &hidden, {336, REFOLD_NO_TENSOR}, 352, 5,
     REFOLD_NO_SITE, 0},
    {"logits", refold_run_dense_s32, &logits, {352, REFOLD_NO_TENSOR}, 368, 3,
     REFOLD_NO_SITE, 1},
};

/* mu0, v0, 1 / v0, ep, G, O of the three sites, one after the other. */
static const float means[] = {
    50.25f, -200.5f, 310.0f, 4.0f, -90.0f, 12.5f, 77.0f, 0.0f,
    20.0f, -33.0f, 150.0f, 0.125f, -64.0f, 9.0f,
};
static const float variances[] = {
    160000.0f, 90000.0f, 250000.0f, 40000.0f, 14000.0f, 52000.0f, 9000.0f, 31000.0f,
    20000.0f, 8000.0f, 12000.0f, 0.0004f, 5000.0f, 16000.0f,
};
#define INVERSE(x) (1.0f / (x))
static const float inverses[] = {
    INVERSE(160000.0f), INVERSE(90000.0f), INVERSE(250000.0f), INVERSE(40000.0f),
    INVERSE(14000.0f), INVERSE(52000.0f), INVERSE(9000.0f), INVERSE(31000.0f),
    INVERSE(20000.0f), INVERSE(8000.0f), INVERSE(12000.0f), INVERSE(0.0004f),
    INVERSE(5000.0f), INVERSE(16000.0f),
};
static const float epsilons[] = {
    0.5f, 0.25f, 0.75f, 1.5f, 0.125f, 2.0f, 0.5f, 0.25f,
    0.5f, 0.25f, 0.75f, 1.5f, 0.125f, 2.0f,
};
static const float gains[] = {
    9.5f, 8.0f, 12.25f, 6.5f, 5.0f, 7.0f, 4.0f, 6.0f,
    10.0f, 6.0f, 7.0f, 0.001f, 4.0f, 9.0f,
};
static const float offsets[] = {
    3.5f, -12.0f, 20.25f, 0.5f, 4.0f, -9.5f, 11.0f, 1.0f,
    0.5f, -30.0f, 14.0f, 8.5f, -5.0f, 40.0f,
};
/* Of clean images' means: 1 / variance, and where they lie. */
static const float precisions[] = {
    0.01f, 0.02f, 0.015f, 0.03f, 0.05f, 0.02f, 0.1f, 0.04f,
    0.05f, 0.1f, 0.08f, 900.0f, 0.2f, 0.06f,
};
static const float cleans[] = {
    40.0f, -190.5f, 300.0f, 9.0f, -80.0f, 14.5f, 70.0f, 1.0f,
    25.0f, -30.0f, 140.0f, 0.25f, -60.0f, 8.0f,
};
static const uint8_t all_live[] = {0x0F};
static const uint8_t fourth_dead[] = {0x37};

static const refold_site sites[] = {
    {0, 4, 36, 4, &conv.requant, means, variances, inverses, epsilons, gains, offsets, cleans,
     precisions, all_live},
    {1, 4, 36, 3, &depthwise.requant, means + 4, variances + 4, inverses + 4, epsilons + 4, gains + 4,
     offsets + 4, cleans + 4, precisions + 4, all_live},
    {5, 6, 9, 4, &point.requant, means + 8, variances + 8, inverses + 8, epsilons + 8, gains + 8,
     offsets + 8, cleans + 8, precisions + 8, fourth_dead},
};

static const refold_input_tensor inputs[] = {{0, TINY_INPUT_BYTES}};
static const refold_output_tensor outputs[] = {{8, 0, 0.01f}};
static const refold_output_tensor int8_outputs[] = {{7, -3, 0.1f}};

const refold_model tiny_model = {
    .abi = REFOLD_ABI,
    .name = "tiny",
    .sha256 = {1, 2, 3, 250},
    .input_kind = REFOLD_INPUT_PIXELS,
    .input_bytes = TINY_INPUT_BYTES,
    .input_table = &input,
    .inputs = inputs,
    .input_tensors = 1,
    .layer_count = 9,
    .layers = layers,
    .site_count = 3,
    .sites = sites,
    .default_sites = {0x03},
    .default_shrinkage = 0.5f,
    .outputs = outputs,
    .output_tensors = 1,
    .output_count = TINY_OUTPUTS,
    .activation_bytes = 380,
    .scratch_bytes = 34,
    .site_channels = 14,
    .widest_site = 6,
    .adaptation = TINY_ADAPTATION,
    .gate_margin = 3.0f,
    .gate_doubt = 0.01f,
};

/* The same up to `hidden`, whose int8 output is the model's; from a tensor. */
const refold_model tiny_int8_model = {
    .abi = REFOLD_ABI,
    .name = "tiny-int8",
    .input_kind = REFOLD_INPUT_TENSOR,
    .input_bytes = TINY_INPUT_BYTES,
    .inputs = inputs,
    .input_tensors = 1,
    .layer_count = 8,
    .layers = layers,
    .site_count = 3,
    .sites = sites,
    .outputs = int8_outputs,
    .output_tensors = 1,
    .output_count = 5,
    .activation_bytes = 380,
    .scratch_bytes = 34,
    .site_channels = 14,
    .widest_site = 6,
    .adaptation = REFOLD_METHOD_OFF,
};
