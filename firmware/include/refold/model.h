/*
 * The data an emitted model.c fills in: what the runtime executes.
 *
 * Everything here is const and lives in flash. Shapes are NHWC without the
 * batch; weights are [C_OUT, KH, KW, C_IN / groups]. The emitted file refuses
 * to compile against a header of another REFOLD_ABI.
 */
#ifndef REFOLD_MODEL_H
#define REFOLD_MODEL_H

#include <stdint.h>

#include "refold/facts.h"
#include "refold/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Value of refold_layer.in[] where a layer has no further input. */
#define REFOLD_NO_TENSOR UINT32_MAX
/* Value of refold_layer.site where a layer is no recalibration site. */
#define REFOLD_NO_SITE (-1)

/* One step of the network, executed in table order. */
typedef struct refold_layer {
    const char *name;      /* the name that refold.json and golden.npz use */
    refold_kernel run;     /* one of the refold_run_* of kernels.h */
    const void *params;    /* the struct that this run function documents */
    uint32_t in[REFOLD_LAYER_INPUTS]; /* byte offsets into the activation arena */
    uint32_t out;          /* byte offset; may equal in[0] where run allows it */
    uint32_t out_elements; /* int8 elements, or int32 for the logits layer */
    int16_t site;          /* index into refold_model.sites or REFOLD_NO_SITE */
    uint8_t out_is_s32;    /* 1: int32 logits */
} refold_layer;

/* Where refold_infer puts an input: in model order, each REFOLD_ALIGNED there too. */
typedef struct refold_input_tensor {
    uint32_t tensor;       /* byte offset into the activation arena */
    uint32_t bytes;
} refold_input_tensor;

/* An output of the network: what a layer leaves; real = scale * int32 value. */
typedef struct refold_output_tensor {
    uint16_t layer;        /* index into refold_model.layers */
    int8_t zero_point;     /* an int8 q is answered as q - zero_point */
    float scale;
} refold_output_tensor;

/*
 * A convolution whose BatchNorm was folded. The accumulator statistics are
 * kept in units of a = sat16(acc >> stat_shift); see docs/numerics.md.
 * Every array has `channels` entries.
 */
typedef struct refold_site {
    uint16_t layer;        /* index into refold_model.layers */
    uint16_t channels;
    uint32_t pixels;       /* output positions summed per image */
    uint8_t stat_shift;    /* k */
    const refold_requant *requant; /* static table, in force until the first update */
    const float *mean;     /* mu0: target mean of a */
    const float *variance; /* v0: target variance of a, floored */
    const float *inverse;  /* w: 1 / v0 */
    const float *epsilon;  /* ep: 1e-5 in units of a^2 */
    const float *gain;     /* G: target deviation / output scale */
    const float *offset;   /* O: target mean / output scale + zero point + 1/2 */
    const float *clean;    /* mean of a over clean images, static tables */
    const float *precision; /* 1 / variance of that mean from image to image */
    const uint8_t *live;   /* bit c of [(channels+7)/8]: 0 = dead, not scored */
} refold_site;

/* exp(-x) for the softmax of the logits, Q15; see refold_softmax. */
typedef struct refold_softmax_table {
    uint16_t exp[256];
    uint8_t shift;         /* t: the index is (max - logit) >> t, clamped to 255 */
} refold_softmax_table;

/* What PACE may move, and how much memory it has. */
typedef struct refold_pace_plan {
    uint8_t sites[REFOLD_SITE_MASK_BYTES]; /* bit i: site i moves; one at least */
    uint16_t channels;     /* of those sites */
    uint16_t dimension;    /* most dimensions of a search */
    uint8_t window;        /* most images of a window */
    uint8_t bank;          /* domain vectors stored, 1..64 */
    /*
     * The first layer that differs between candidates, or one before: each runs from
     * there on. Of an image that one tensor is kept which the layers from there on
     * read, as it was when the image was answered; with 0 it is the image itself.
     */
    uint16_t first;
    uint32_t kept;         /* byte offset of that tensor; not used with 0 */
    uint32_t kept_bytes;   /* input_bytes with 0 */
    /* What clean images gave the last layer's input, in LSB; 0 features: not known. */
    uint16_t features;
    const float *feature_mean;     /* [features] */
    const float *feature_variance; /* [features], between images */
    const float *feature_weight;   /* [features] real value of an LSB */
} refold_pace_plan;

typedef struct refold_model {
    uint16_t abi;               /* REFOLD_ABI at emission */
    const char *name;
    uint8_t sha256[32];         /* of the integer network: network_sha256 of refold.json */
    uint8_t input_kind;         /* REFOLD_INPUT_PIXELS or REFOLD_INPUT_TENSOR */
    uint32_t input_bytes;       /* bytes that refold_infer reads */
    const refold_input_table *input_table; /* pixels only, else NULL */
    const refold_input_tensor *inputs;
    uint8_t input_tensors;      /* 1 where there is an input_table */
    uint16_t layer_count;
    const refold_layer *layers;
    uint16_t site_count;
    const refold_site *sites;
    uint8_t default_sites[REFOLD_SITE_MASK_BYTES]; /* bit i: site i adapts */
    float default_shrinkage;    /* a that suits these sites, in [0, 1] */
    const refold_output_tensor *outputs;
    uint8_t output_tensors;
    uint32_t output_count;      /* int32 values that refold_infer writes, of all */
    const refold_softmax_table *softmax;
    uint32_t activation_bytes;  /* planned size of the activation arena */
    uint32_t scratch_bytes;     /* largest kernel scratch */
    uint32_t site_channels;     /* sum over sites */
    uint32_t widest_site;       /* most channels of one site */
    uint8_t adaptation;         /* REFOLD_METHOD_* bits compiled in */
    const refold_pace_plan *pace; /* NULL where PACE is not compiled in */
    float gate_margin;          /* times chance, beyond which a window has shifted */
    float gate_doubt;           /* 1 / clean images behind the sites' `clean` */
} refold_model;

#ifdef __cplusplus
}
#endif

#endif
