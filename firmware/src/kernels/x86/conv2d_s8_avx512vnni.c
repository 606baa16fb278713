#include "x86.h"

#if REFOLD_X86_AVX512VNNI

#include "tile_avx512.h"

/*
 * vpdpbusd multiplies unsigned by signed bytes: the slab holds u = x + 128, and
 * sum(w * x) = sum(w * u) - 128 * sum(w), so the start of every accumulator is
 * offset - 128 * sum(w). Packed weights are [K / 4][channels][4]; where C_IN is
 * no multiple of 4, each kernel position is padded with zero weights.
 */

static int32_t padded_channels(const refold_conv2d_params *p)
{
    return (p->in.c + 3) & ~3;
}

static size_t packed_bytes(const refold_conv2d_params *p)
{
    return (size_t)p->kernel_h * p->kernel_w * (size_t)padded_channels(p)
         * REFOLD_X86_BLOCK;
}

/* Bytes [at, at + count) of 16 channels' filters, count <= 16, as four groups. */
static void transpose(const int8_t *const *filter, size_t at, int32_t count,
                      __m512i *group)
{
    const __mmask16 mask = (__mmask16)((1u << count) - 1);
    __m512i v[4];
    REFOLD_X86_UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm512_castsi128_si512(_mm_maskz_loadu_epi8(mask, filter[i] + at));
        v[i] = _mm512_inserti32x4(
            v[i], _mm_maskz_loadu_epi8(mask, filter[4 + i] + at), 1);
        v[i] = _mm512_inserti32x4(
            v[i], _mm_maskz_loadu_epi8(mask, filter[8 + i] + at), 2);
        v[i] = _mm512_inserti32x4(
            v[i], _mm_maskz_loadu_epi8(mask, filter[12 + i] + at), 3);
    }
    const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]);
    const __m512i b = _mm512_unpacklo_epi32(v[2], v[3]);
    const __m512i c = _mm512_unpackhi_epi32(v[0], v[1]);
    const __m512i d = _mm512_unpackhi_epi32(v[2], v[3]);
    group[0] = _mm512_unpacklo_epi64(a, b);
    group[1] = _mm512_unpackhi_epi64(a, b);
    group[2] = _mm512_unpacklo_epi64(c, d);
    group[3] = _mm512_unpackhi_epi64(c, d);
}

/* Pack 16 channels, `step` bytes from group to group; returns sum(w). */
static __m512i pack_lanes(const int8_t *const *filter, int32_t runs, int32_t length,
                          uint8_t *to, size_t step)
{
    __m512i total = _mm512_setzero_si512();
    for (int32_t run = 0; run < runs; run++)
        for (int32_t at = 0; at < length; at += 16) {
            const int32_t count = length - at < 16 ? length - at : 16;
            __m512i group[4];
            transpose(filter, (size_t)run * (size_t)length + (size_t)at, count, group);
            for (int32_t i = 0; 4 * i < count; i++, to += step) {
                total = _mm512_dpbusd_epi32(total, _mm512_set1_epi8(1), group[i]);
                _mm512_store_si512(to, group[i]);
            }
        }
    return total;
}

static void pack(const refold_conv2d_params *p, void *packed, refold_x86_block *block)
{
    const int32_t taps = p->kernel_h * p->kernel_w;
    const size_t size = (size_t)taps * p->in.c;
    const bool flat = p->in.c % 4 == 0;
    const int32_t vectors = block->count > LANES ? 2 : 1;

    for (int32_t v = 0; v < vectors; v++) {
        const int8_t *filter[LANES];
        int32_t offset[LANES] = {0};
        for (int32_t i = 0; i < LANES; i++) {
            const int32_t at = v * LANES + i;
            const int32_t c = block->first + (at < block->count ? at : 0);
            filter[i] = p->weights + (size_t)c * size;
            offset[i] = p->offset[c];
        }
        const __m512i total =
            pack_lanes(filter, flat ? 1 : taps, flat ? taps * p->in.c : p->in.c,
                       (uint8_t *)packed + 64 * v, 64 * (size_t)vectors);
        const __m512i start = _mm512_sub_epi32(_mm512_loadu_si512(offset),
                                               _mm512_slli_epi32(total, 7));
        _mm512_storeu_si512(block->start + v * LANES, start);
    }
}

REFOLD_X86_INLINE __m512i broadcast(const uint8_t *from)
{
    int32_t group;
    memcpy(&group, from, sizeof group);
    return _mm512_set1_epi32(group);
}

/* A tile of pixels x vectors accumulators, both known when compiled. */
REFOLD_X86_INLINE void tile(const refold_x86_window *w, const refold_x86_block *block,
                            const uint8_t *slab, int vectors, int pixels, __m512i *acc)
{
    const uint8_t *weights = block->weights;
    REFOLD_X86_UNROLL
    for (int v = 0; v < vectors; v++)
        REFOLD_X86_UNROLL
        for (int i = 0; i < pixels; i++)
            acc[v * pixels + i] = _mm512_loadu_si512(block->start + v * LANES);
    for (int32_t row = 0; row < w->rows; row++)
        for (int32_t tap = 0; tap < w->taps; tap++) {
            const uint8_t *from = slab + row * w->row + tap * w->tap;
            for (int32_t g = 0; g < w->groups; g++, from += 4, weights += 64 * vectors) {
                const uint8_t *quad = from;
                const __m512i w0 = _mm512_load_si512(weights);
                const __m512i w1 = _mm512_load_si512(weights + 64 * (vectors - 1));
                REFOLD_X86_UNROLL
                for (int i = 0; i < pixels; i++) {
                    if (i > 0 && i % 4 == 0)
                        quad += 4 * w->pixel;
                    const __m512i x = broadcast(quad + i % 4 * w->pixel);
                    acc[i] = _mm512_dpbusd_epi32(acc[i], x, w0);
                    if (vectors == 2)
                        acc[pixels + i] = _mm512_dpbusd_epi32(acc[pixels + i], x, w1);
                }
            }
        }
}

REFOLD_X86_INLINE void row_of(const refold_x86_window *w, refold_x86_block *block,
                              const uint8_t *slab, int8_t *out, int vectors, int pixels)
{
    finish16 f0 = open_row(block, 0, out, w->stride);
    finish16 f1 = open_row(block, LANES * (vectors - 1), out, w->stride);
    for (int32_t x = 0; x < w->width; x += pixels) {
        const int32_t valid = w->width - x < pixels ? w->width - x : pixels;
        __m512i acc[16];
        tile(w, block, slab + x * w->pixel, vectors, pixels, acc);
        finish_tile(&f0, acc, pixels, x, valid);
        if (vectors == 2)
            finish_tile(&f1, acc + pixels, pixels, x, valid);
    }
    store_sums(block, 0, &f0.sums);
    if (vectors == 2)
        store_sums(block, LANES, &f1.sums);
}

static void row(const refold_x86_window *w, refold_x86_block *block, const void *slab,
                int8_t *out)
{
    if (block->count > LANES)
        row_of(w, block, slab, out, 2, 8);
    else
        row_of(w, block, slab, out, 1, 16);
}

const refold_x86_convolver refold_x86_conv2d_avx512vnni = {
    .block = 2 * LANES,
    .align = 4,
    .element_bytes = 1,
    .group = 4,
    .depthwise = false,
    .convert = convert_pixels,
    .pad = pad_slab,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .row = row,
};

#endif
