#include "x86.h"

#if REFOLD_X86_AVX512VNNI

#include "tile_avx512.h"

/*
 * vpdpbusd over four kernel positions at a time: bytes of 16 channels from four
 * positions are interleaved into 16 groups of four. Packed weights are
 * [taps / 4][16][4], padded with zero weights. As in conv2d_s8_avx512vnni.c the
 * slab holds x + 128 and accumulators start at offset - 128 * sum(w).
 */

#define PIXELS 8

static int32_t quads(int32_t taps)
{
    return (taps + 3) / 4;
}

static size_t packed_bytes(const refold_conv2d_params *p)
{
    const int32_t taps = p->kernel_h * p->kernel_w;
    return taps > REFOLD_X86_TAPS ? SIZE_MAX : (size_t)quads(taps) * 64;
}

static void pack(const refold_conv2d_params *p, void *packed, refold_x86_block *block)
{
    const int32_t taps = p->kernel_h * p->kernel_w;
    const __mmask16 used = (__mmask16)((1u << block->count) - 1);
    const int8_t *weights = p->weights + block->first;
    __m512i total = _mm512_setzero_si512();

    for (int32_t q = 0; q < quads(taps); q++) {
        __m128i w[4];
        for (int32_t i = 0; i < 4; i++)
            w[i] = 4 * q + i < taps ? _mm_maskz_loadu_epi8(
                                          used, weights + (4 * q + i) * p->out.c)
                                    : _mm_setzero_si128();
        const __m512i group = interleave(w[0], w[1], w[2], w[3]);
        total = _mm512_dpbusd_epi32(total, _mm512_set1_epi8(1), group);
        _mm512_store_si512((uint8_t *)packed + 64 * q, group);
    }
    const __m512i offset = _mm512_maskz_loadu_epi32(used, p->offset + block->first);
    _mm512_storeu_si512(block->start,
                        _mm512_sub_epi32(offset, _mm512_slli_epi32(total, 7)));
}

REFOLD_X86_INLINE __m128i load128(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)from);
}

/* Distances of the kernel positions from the window's first; padding repeats it. */
static int32_t locate_taps(const refold_x86_window *w, ptrdiff_t *at)
{
    const int32_t taps = w->rows * w->taps;
    for (int32_t i = 0; i < 4 * quads(taps); i++)
        at[i] = i < taps ? i / w->taps * w->row + i % w->taps * w->tap : 0;
    return quads(taps);
}

static void row(const refold_x86_window *w, refold_x86_block *block, const void *slab,
                int8_t *out)
{
    ptrdiff_t at[REFOLD_X86_TAPS];
    const int32_t count = locate_taps(w, at);
    const __m512i start = _mm512_loadu_si512(block->start);
    finish16 finish = open_row(block, 0, out, w->stride);

    for (int32_t x = 0; x < w->width; x += PIXELS) {
        const int32_t valid = w->width - x < PIXELS ? w->width - x : PIXELS;
        const uint8_t *pixel = (const uint8_t *)slab + x * w->pixel;
        __m512i acc[PIXELS];
        for (int i = 0; i < PIXELS; i++, pixel += w->pixel) {
            __m512i sum = start;
            for (int32_t q = 0; q < count; q++) {
                const __m512i u = interleave(
                    load128(pixel + at[4 * q]), load128(pixel + at[4 * q + 1]),
                    load128(pixel + at[4 * q + 2]), load128(pixel + at[4 * q + 3]));
                const uint8_t *weights = (const uint8_t *)block->weights + 64 * q;
                sum = _mm512_dpbusd_epi32(sum, u, _mm512_load_si512(weights));
            }
            acc[i] = sum;
        }
        finish_tile(&finish, acc, PIXELS, x, valid);
    }
    store_sums(block, 0, &finish.sums);
}

const refold_x86_convolver refold_x86_dwconv2d_avx512vnni = {
    .block = LANES,
    .align = LANES,
    .element_bytes = 1,
    .group = 4,
    .depthwise = true,
    .convert = convert_pixels,
    .pad = pad_slab,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .row = row,
};

#endif
