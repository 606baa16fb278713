/*
 * The output channels of a convolution: tables in the form that the SIMD unit
 * loads, and what is done with the accumulators of a block of output pixels.
 *
 * Internal. An accumulator is stored as a pair of words, low and high, whose 40
 * bits hold acc + 2^15 + 2^32: the 2^15 is what the split into 16-bit halves
 * needs (docs/numerics.md), and the 2^32 keeps the value positive, so that
 * emulators which load ACCX unsigned agree. Only the low word is read back.
 */
#ifndef REFOLD_CHANNELS_H
#define REFOLD_CHANNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pie.h"
#include "refold/kernels.h"

#define REFOLD_S3_LANES 8 /* channels that are requantised together */

typedef struct refold_channels {
    int count;             /* C_OUT */
    int padded;            /* to whole lanes; what is padded is computed, not used */
    int32_t (*start)[2];   /* [padded] accumulator of an empty window */
    int32_t (*acc)[2];     /* [block, padded], and 48 bytes more */
    uint8_t *bias;         /* [padded / 8] QACC images of b */
    int16_t *m;            /* [padded] */
    int8_t *result;        /* [block, padded] where `out` takes no whole lanes */
    int16_t *a;            /* [batch, padded] statistics of the last pixels */
    int16_t *next;         /* of the next pixel, in `a` */
    const int16_t *full;   /* beyond it `a` may have no room for a block */
    uint8_t *sums;         /* [padded / 8] QACC images of s2, then of s1; begun anew
                              where summed is 0 */
    int32_t shift;         /* of the requantisation, less 16 */
    int16_t lo, hi;
    int16_t a_scale;       /* see a_factor */
    int32_t a_shift;       /* k */
    int block;             /* pixels of one row that are computed together */
    int batch;             /* pixels that `a` holds, a multiple of 8 */
    int summed;            /* pixels in `sums` */
    bool flushed;          /* the moments hold what was in `sums` before */
    const refold_moments *moments; /* NULL: no statistics */
} refold_channels;

/* Least of `multiple` * n >= count. */
static inline int refold_round_up(int count, int multiple)
{
    return (count + multiple - 1) / multiple * multiple;
}

/* Whether statistics with this k can be taken: acc >> k must keep acc >> 16. */
static inline bool refold_channels_take(const refold_moments *moments)
{
    return moments == NULL || moments->shift <= 16;
}

size_t refold_channels_bytes(int padded);

/* Fill the tables in `scratch`. */
void refold_channels_init(refold_channels *ch, const refold_conv2d_params *p,
                          const refold_requant *requant, int padded, void *scratch,
                          const refold_moments *moments, refold_pie *pie);

/* From ch->acc to `pixels` of output (out NULL: none) and their statistics. */
void refold_channels_pixels(refold_channels *ch, int8_t *out, int pixels,
                            refold_pie *pie);

/* After the last pixel: write the moments. */
void refold_channels_finish(refold_channels *ch, refold_pie *pie);

/* Store the 20-bit lanes of QACC as 16 accumulators, each added to its start. */
void refold_channels_unpack(const int32_t (*start)[2], int32_t (*acc)[2],
                            refold_pie *pie);

/* Lane i of the eight 20-bit lanes in one 32-byte slot of a QACC image. */
static inline int32_t refold_lane20(const uint32_t *slot, int i)
{
    int word = 20 * i / 32;
    uint64_t pair = (uint64_t)slot[word + 1] << 32 | slot[word];

    return (int32_t)((uint32_t)(pair >> (20 * i % 32)) << 12) >> 12;
}

#endif
