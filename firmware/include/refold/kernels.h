/*
 * The kernel contracts.
 *
 * Tensors are int8, NHWC, batch 1, 16-byte aligned, and followed by at least
 * REFOLD_TENSOR_SLACK readable bytes. `x` below is the stored int8 value, `z`
 * the zero point of the input. Accumulators are exact int32 and free of bias:
 *
 *     acc = sum(w * (x - z)) = sum(w * x) + offset[c]
 *     q   = clamp((acc * m[c] + b[c]) >> shift, lo, hi)     64-bit product, floor
 *
 * The compiler proves 255 * sum|w| + 2^15 < 2^31 for every channel, so no
 * kernel checks for overflow. Outside a convolution's image x = z.
 *
 * Every operator has one portable implementation, refold_<op>_ref, and may
 * have faster ones with the same signature and bit-identical results. Only
 * dispatch.c knows which exist; refold_<op> is the chosen one.
 */
#ifndef REFOLD_KERNELS_H
#define REFOLD_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that a kernel may read (never write) past the end of a tensor. */
#define REFOLD_TENSOR_SLACK 64
/* Alignment of every tensor in the arena, of weights and of scratch. */
#define REFOLD_ALIGNMENT 16
/* Gives a definition that alignment, where the compiler has the attribute. */
#if defined(__GNUC__)
#define REFOLD_ALIGNED __attribute__((aligned(REFOLD_ALIGNMENT)))
#else
#define REFOLD_ALIGNED
#endif

/* `array` where the build has the ESP32-S3's kernels, else NULL. */
#if defined REFOLD_ESP32S3
#define REFOLD_PACKED(array) array
#else
#define REFOLD_PACKED(array) NULL
#endif

/* The memory of the packed array of that name; a build defines it to choose one. */
#ifndef REFOLD_PLACE
#define REFOLD_PLACE(array)
#endif

typedef struct refold_shape {
    uint16_t h, w, c;
} refold_shape;

/* Per-channel requantisation; lo and hi are ReLU, ReLU6 or the int8 range. */
typedef struct refold_requant {
    const int16_t *m;      /* [C], 0..32767 */
    const int64_t *b;      /* [C], |b| <= 2^38 */
    uint8_t shift;         /* 16..31 for conv and dense, 0..31 for pooling */
    int8_t lo, hi;
} refold_requant;

/* Sums over a = sat16(acc >> shift) of one image: s1 = sum a, s2 = sum a*a. */
typedef struct refold_moments {
    int64_t *s1;           /* [C], zeroed by the kernel */
    int64_t *s2;           /* [C], zeroed by the kernel */
    uint8_t shift;         /* k */
} refold_moments;

/* refold_conv2d, refold_dwconv2d (groups == C_IN == C_OUT). */
typedef struct refold_conv2d_params {
    refold_shape in, out;
    uint16_t kernel_h, kernel_w;
    uint16_t stride_h, stride_w;
    uint16_t dilation_h, dilation_w;
    uint16_t pad_top, pad_left;
    uint16_t groups;
    int8_t zero_point;     /* z of the input; also what padding reads as */
    const int8_t *weights; /* [C_OUT, KH, KW, C_IN/groups]; depthwise [KH, KW, C] */
    const int32_t *offset; /* [C_OUT] = -z * sum(w) */
    refold_requant requant;
    const int8_t *packed;  /* weights again, as SIMD kernels want them, or NULL */
} refold_conv2d_params;

/* refold_dense (int8 out) and refold_dense_s32 (int32 logits, no clamp). */
typedef struct refold_dense_params {
    uint16_t inputs, outputs;
    const int8_t *weights; /* [OUT, IN] */
    const int32_t *offset; /* [OUT] = -z * sum(w) */
    refold_requant requant; /* dense_s32: logit = (acc * m + b) >> shift */
    const int8_t *packed;  /* weights again, as SIMD kernels want them, or NULL */
} refold_dense_params;

/* q = clamp((a * m1 + b * m2 + bias) >> shift, lo, hi); fits int32. */
typedef struct refold_add_params {
    uint32_t count;
    int16_t m1, m2;
    int32_t bias;
    uint8_t shift;         /* 0..23 */
    int8_t lo, hi;
} refold_add_params;

/*
 * q = clamp(((a - z_a) * (b - z_b) * m + bias) >> shift, lo, hi), 64-bit product.
 * `a` and the output are [positions, channels]; `b` advances by position_step and
 * channel_step, where 0 broadcasts one value.
 */
typedef struct refold_mul_params {
    uint32_t positions;
    uint16_t channels;
    uint16_t position_step; /* 0, or the channels of b */
    uint8_t channel_step;   /* 0 or 1 */
    int8_t zero_point_a, zero_point_b;
    int16_t m;
    int64_t bias;          /* |bias| <= 2^38 */
    uint8_t shift;         /* 0..31 */
    int8_t lo, hi;
} refold_mul_params;

/*
 * refold_max_pool (ignores padding, keeps the scale) and refold_avg_pool:
 * q = clamp((sum * m[i] + b[i]) >> shift, lo, hi), i the entry whose count[i]
 * equals the number of positions averaged. With include_pad, padding counts
 * and reads as zero_point. A global average pool is one window over the input.
 */
typedef struct refold_pool_params {
    refold_shape in, out;
    uint16_t kernel_h, kernel_w;
    uint16_t stride_h, stride_w;
    uint16_t pad_top, pad_left;
    uint16_t pad_bottom, pad_right; /* only bound what include_pad counts */
    uint8_t include_pad;
    int8_t zero_point;     /* z of the input */
    uint8_t entries;       /* of count, requant.m and requant.b */
    const uint32_t *count;
    refold_requant requant;
} refold_pool_params;

/* Most inputs of one layer. */
#define REFOLD_LAYER_INPUTS 4

/*
 * refold_concat: each row of the output holds one row of every input in turn,
 * q = clamp((x * m + bias) >> shift, -128, 127); fits int32. A row is what lies
 * behind the axis that is joined.
 */
typedef struct refold_concat_part {
    uint32_t elements;     /* of one row */
    int16_t m;
    int32_t bias;
    uint8_t shift;         /* 0..23 */
} refold_concat_part;

typedef struct refold_concat_params {
    uint32_t rows;
    uint8_t parts;         /* 1..REFOLD_LAYER_INPUTS */
    const refold_concat_part *part;
} refold_concat_params;

/* A position of refold_pick_params that lies outside the input. */
#define REFOLD_NO_POSITION UINT16_MAX

/*
 * out[y][x][c] = in[rows[y]][columns[x]][channels[c]], or fill where any of the
 * three is REFOLD_NO_POSITION: slices, padding, repetition, permutations.
 */
typedef struct refold_pick_params {
    refold_shape in, out;
    const uint16_t *rows;     /* [out.h] */
    const uint16_t *columns;  /* [out.w] */
    const uint16_t *channels; /* [out.c] */
    int8_t fill;
} refold_pick_params;

/* out = table[c][x + 128], element by element; in and out may alias. */
typedef struct refold_table_params {
    uint32_t count;        /* elements, a multiple of channels */
    uint16_t channels;     /* tables in turn; 1 where one serves all */
    const int8_t *table;   /* [channels, 256] */
} refold_table_params;

/* A constant tensor, copied into the arena. */
typedef struct refold_stored_params {
    uint32_t count;
    const int8_t *values;  /* [count] */
} refold_stored_params;

/* Pixels to int8: out = table[c][p]. */
typedef struct refold_input_table {
    uint32_t pixels;       /* H * W */
    uint16_t channels;
    const int8_t *table;   /* [C, 256] */
} refold_input_table;

/*
 * Convolution. `requant` is p->requant or the adapted table of the site.
 * moments: NULL, or where to add up the statistics of this image.
 * out: NULL runs the statistics alone. in and out must not alias.
 * scratch: aligned, as many bytes as the implementation asks for.
 */
void refold_conv2d(const refold_conv2d_params *p, const refold_requant *requant,
                   const int8_t *in, int8_t *out, void *scratch,
                   const refold_moments *moments);
void refold_conv2d_ref(const refold_conv2d_params *p, const refold_requant *requant,
                       const int8_t *in, int8_t *out, void *scratch,
                       const refold_moments *moments);
size_t refold_conv2d_scratch_bytes(const refold_conv2d_params *p);

/* Depthwise convolution, one filter a channel; arguments as refold_conv2d. */
void refold_dwconv2d(const refold_conv2d_params *p, const refold_requant *requant,
                     const int8_t *in, int8_t *out, void *scratch,
                     const refold_moments *moments);
void refold_dwconv2d_ref(const refold_conv2d_params *p, const refold_requant *requant,
                         const int8_t *in, int8_t *out, void *scratch,
                         const refold_moments *moments);
size_t refold_dwconv2d_scratch_bytes(const refold_conv2d_params *p);

/* Fully connected. in and out must not alias. */
void refold_dense(const refold_dense_params *p, const int8_t *in, int8_t *out);
void refold_dense_ref(const refold_dense_params *p, const int8_t *in, int8_t *out);
void refold_dense_s32(const refold_dense_params *p, const int8_t *in, int32_t *out);
void refold_dense_s32_ref(const refold_dense_params *p, const int8_t *in, int32_t *out);

/* Element-wise sum; out may alias a or b. */
void refold_add(const refold_add_params *p, const int8_t *a, const int8_t *b, int8_t *out);
void refold_add_ref(const refold_add_params *p, const int8_t *a, const int8_t *b,
                    int8_t *out);

/* Element-wise product; out may alias a, and b where nothing is broadcast. */
void refold_mul(const refold_mul_params *p, const int8_t *a, const int8_t *b, int8_t *out);
void refold_mul_ref(const refold_mul_params *p, const int8_t *a, const int8_t *b,
                    int8_t *out);

void refold_max_pool(const refold_pool_params *p, const int8_t *in, int8_t *out);
void refold_max_pool_ref(const refold_pool_params *p, const int8_t *in, int8_t *out);
void refold_avg_pool(const refold_pool_params *p, const int8_t *in, int8_t *out);
void refold_avg_pool_ref(const refold_pool_params *p, const int8_t *in, int8_t *out);

/* Inputs one behind the other; out aliases none. */
void refold_concat(const refold_concat_params *p, const int8_t *const in[], int8_t *out);
void refold_concat_ref(const refold_concat_params *p, const int8_t *const in[],
                       int8_t *out);

/* Positions of a tensor; in and out must not alias. */
void refold_pick(const refold_pick_params *p, const int8_t *in, int8_t *out);
void refold_pick_ref(const refold_pick_params *p, const int8_t *in, int8_t *out);

void refold_table(const refold_table_params *p, const int8_t *in, int8_t *out);
void refold_table_ref(const refold_table_params *p, const int8_t *in, int8_t *out);

void refold_input(const refold_input_table *p, const uint8_t *in, int8_t *out);
void refold_input_ref(const refold_input_table *p, const uint8_t *in, int8_t *out);

/* What the runtime hands to a layer. */
typedef struct refold_call {
    const void *params;
    const int8_t *in[REFOLD_LAYER_INPUTS];
    void *out;                     /* NULL: statistics alone (sites only) */
    void *scratch;
    const refold_requant *requant; /* NULL: the static one in params */
    const refold_moments *moments; /* NULL: none wanted */
} refold_call;

typedef void (*refold_kernel)(const refold_call *call);

/* One per operator; named by emitted models, so only what a model uses links. */
void refold_run_conv2d(const refold_call *call);    /* refold_conv2d_params */
void refold_run_dwconv2d(const refold_call *call);  /* refold_conv2d_params */
void refold_run_dense(const refold_call *call);     /* refold_dense_params */
void refold_run_dense_s32(const refold_call *call); /* refold_dense_params */
void refold_run_add(const refold_call *call);       /* refold_add_params */
void refold_run_mul(const refold_call *call);       /* refold_mul_params */
void refold_run_max_pool(const refold_call *call);  /* refold_pool_params */
void refold_run_avg_pool(const refold_call *call);  /* refold_pool_params */
void refold_run_concat(const refold_call *call);    /* refold_concat_params */
void refold_run_pick(const refold_call *call);      /* refold_pick_params */
void refold_run_table(const refold_call *call);     /* refold_table_params */
void refold_run_stored(const refold_call *call);    /* refold_stored_params, no input */

#ifdef __cplusplus
}
#endif

#endif
