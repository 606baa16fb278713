/*
 * What the convolution driver (convolve.c) and the instruction-set files share.
 *
 * The driver copies a slab, the padded input of a few output rows, converts it
 * to the form the instructions want, and walks over blocks of output channels;
 * an instruction set supplies the conversion, the packing of a block's weights
 * and the computation of one output row of one block.
 */
#ifndef REFOLD_X86_CONVOLVE_H
#define REFOLD_X86_CONVOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "refold/kernels.h"

#define REFOLD_X86_BLOCK 32 /* most output channels of one block */
#define REFOLD_X86_TILE 16  /* most output pixels computed at a time */
#define REFOLD_X86_TAPS 64  /* most kernel positions of a depthwise filter */

#define REFOLD_X86_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define REFOLD_X86_UNROLL _Pragma("clang loop unroll(full)")
#else
#define REFOLD_X86_UNROLL _Pragma("GCC unroll 16")
#endif

/* Where the elements of one output pixel's window lie in the slab, in bytes. */
typedef struct refold_x86_window {
    ptrdiff_t pixel;   /* from an output pixel's window to its neighbour's */
    ptrdiff_t row;     /* from one kernel row to the next */
    ptrdiff_t tap;     /* from one run of a kernel row to the next */
    int32_t rows;      /* kernel rows */
    int32_t taps;      /* runs of consecutive elements in a kernel row */
    int32_t groups;    /* groups of a run; a group is one 32-bit word */
    int32_t width;     /* output pixels of a row */
    int32_t stride;    /* bytes from an output pixel to its neighbour in `out` */
} refold_x86_window;

/*
 * A block of output channels, padded to whole vectors with m = b = 0.
 * The sums are exact for up to 2^15 pixels: with q the sum of the squares of a
 * pair of pixels, `low` adds up q modulo 2^32 and `high` adds up q >> 16.
 */
typedef struct refold_x86_block {
    int32_t first, count;
    const void *weights;               /* packed, 64-byte aligned */
    int32_t start[REFOLD_X86_BLOCK];   /* accumulator of an empty window */
    int32_t m[REFOLD_X86_BLOCK];
    int64_t b[REFOLD_X86_BLOCK];
    uint8_t shift;
    int8_t lo, hi;
    bool moments;                      /* are the sums wanted? */
    uint8_t moments_shift;
    int32_t s1[REFOLD_X86_BLOCK];
    uint32_t low[REFOLD_X86_BLOCK], high[REFOLD_X86_BLOCK];
} refold_x86_block;

/* One instruction set's way to convolve. */
typedef struct refold_x86_convolver {
    int32_t block;         /* output channels of a block, <= REFOLD_X86_BLOCK */
    int32_t align;         /* channels are padded to a multiple of this */
    int32_t element_bytes; /* of a slab element */
    int32_t group;         /* elements of a group */
    bool depthwise;        /* a block reads its own channels only */

    /* `pixels` of `in`, `channels` each, become pixels of `padded` elements. */
    void (*convert)(void *slab, const int8_t *in, int32_t pixels, int32_t channels,
                    int32_t padded, int8_t zero_point);
    /* `count` elements that read as the zero point. */
    void (*pad)(void *slab, size_t count, int8_t zero_point);
    /* Bytes that pack needs for a block. */
    size_t (*packed_bytes)(const refold_conv2d_params *p);
    /* Write the weights of channels [first, first + count) and block->start. */
    void (*pack)(const refold_conv2d_params *p, void *packed, refold_x86_block *block);
    /* One row of output; out NULL adds up the sums alone. */
    void (*row)(const refold_x86_window *window, refold_x86_block *block,
                const void *slab, int8_t *out);
} refold_x86_convolver;

/* Each exists where the compiler was given its instruction set. */
extern const refold_x86_convolver refold_x86_conv2d_avx512vnni;
extern const refold_x86_convolver refold_x86_conv2d_avx2;
extern const refold_x86_convolver refold_x86_dwconv2d_avx512vnni;
extern const refold_x86_convolver refold_x86_dwconv2d_avx2;

#endif
