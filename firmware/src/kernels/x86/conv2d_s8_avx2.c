#include "x86.h"

#if REFOLD_X86_AVX2

#include "tile_avx2.h"

/*
 * vpmaddwd multiplies int16 pairs exactly: |x - z| <= 255 and |w| <= 127.
 * Packed weights are [K / 2][channels][2] int16; where C_IN is odd, each kernel
 * position is padded with a zero weight.
 */

static size_t packed_bytes(const refold_conv2d_params *p)
{
    const size_t channels = (p->in.c + 1u) & ~1u;
    return (size_t)p->kernel_h * p->kernel_w * channels * 2 * LANES * sizeof(int16_t);
}

/* Weights [at, at + count) of 8 channels' filters, count <= 8, as four groups. */
static void transpose(const int8_t *const *filter, size_t at, int32_t count,
                      __m256i *group)
{
    __m128i w[LANES];
    for (int i = 0; i < LANES; i++) {
        int8_t bytes[8] = {0};
        memcpy(bytes, filter[i] + at, (size_t)count);
        w[i] = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)bytes));
    }
    const __m256i v0 = _mm256_set_m128i(w[4], w[0]), v1 = _mm256_set_m128i(w[5], w[1]);
    const __m256i v2 = _mm256_set_m128i(w[6], w[2]), v3 = _mm256_set_m128i(w[7], w[3]);
    const __m256i a = _mm256_unpacklo_epi32(v0, v1);
    const __m256i b = _mm256_unpacklo_epi32(v2, v3);
    const __m256i c = _mm256_unpackhi_epi32(v0, v1);
    const __m256i d = _mm256_unpackhi_epi32(v2, v3);
    group[0] = _mm256_unpacklo_epi64(a, b);
    group[1] = _mm256_unpackhi_epi64(a, b);
    group[2] = _mm256_unpacklo_epi64(c, d);
    group[3] = _mm256_unpackhi_epi64(c, d);
}

/* Pack 8 channels, `step` bytes from group to group. */
static void pack_lanes(const int8_t *const *filter, int32_t runs, int32_t length,
                       uint8_t *to, size_t step)
{
    for (int32_t run = 0; run < runs; run++)
        for (int32_t at = 0; at < length; at += 8) {
            const int32_t count = length - at < 8 ? length - at : 8;
            __m256i group[4];
            transpose(filter, (size_t)run * (size_t)length + (size_t)at, count, group);
            for (int32_t i = 0; 2 * i < count; i++, to += step)
                _mm256_store_si256((__m256i *)to, group[i]);
        }
}

static void pack(const refold_conv2d_params *p, void *packed, refold_x86_block *block)
{
    const int32_t taps = p->kernel_h * p->kernel_w;
    const size_t size = (size_t)taps * p->in.c;
    const bool flat = p->in.c % 2 == 0;
    const int32_t vectors = block->count > LANES ? 2 : 1;

    for (int32_t v = 0; v < vectors; v++) {
        const int8_t *filter[LANES];
        for (int32_t i = 0; i < LANES; i++) {
            const int32_t at = v * LANES + i;
            const int32_t c = block->first + (at < block->count ? at : 0);
            filter[i] = p->weights + (size_t)c * size;
        }
        pack_lanes(filter, flat ? 1 : taps, flat ? taps * p->in.c : p->in.c,
                   (uint8_t *)packed + 32 * v, 32 * (size_t)vectors);
    }
}

REFOLD_X86_INLINE __m256i multiply_add(__m256i acc, __m256i x, __m256i w)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(x, w));
}

/* Four pixels x vectors accumulators; vectors is known when compiled. */
REFOLD_X86_INLINE void tile(const refold_x86_window *w, const refold_x86_block *block,
                            const uint8_t *slab, int vectors, __m256i *acc)
{
    const uint8_t *weights = block->weights;
    REFOLD_X86_UNROLL
    for (int i = 0; i < 4 * vectors; i++)
        acc[i] = _mm256_setzero_si256();
    for (int32_t row = 0; row < w->rows; row++)
        for (int32_t tap = 0; tap < w->taps; tap++) {
            const uint8_t *from = slab + row * w->row + tap * w->tap;
            for (int32_t g = 0; g < w->groups; g++, from += 4, weights += 32 * vectors) {
                const __m256i w0 = load256(weights);
                const __m256i w1 = load256(weights + 32 * (vectors - 1));
                REFOLD_X86_UNROLL
                for (int i = 0; i < 4; i++) {
                    int32_t pair;
                    memcpy(&pair, from + i * w->pixel, sizeof pair);
                    const __m256i x = _mm256_set1_epi32(pair);
                    acc[i] = multiply_add(acc[i], x, w0);
                    if (vectors == 2)
                        acc[4 + i] = multiply_add(acc[4 + i], x, w1);
                }
            }
        }
}

REFOLD_X86_INLINE void row_of(const refold_x86_window *w, refold_x86_block *block,
                              const uint8_t *slab, int8_t *out, int vectors)
{
    finish8 f0 = open_row(block, 0, out, w->stride);
    finish8 f1 = open_row(block, LANES * (vectors - 1), out, w->stride);
    for (int32_t x = 0; x < w->width; x += 4) {
        const int32_t valid = w->width - x < 4 ? w->width - x : 4;
        __m256i acc[8];
        tile(w, block, slab + x * w->pixel, vectors, acc);
        finish_tile(&f0, acc, x, valid);
        if (vectors == 2)
            finish_tile(&f1, acc + 4, x, valid);
    }
    close_row(block, 0, &f0);
    if (vectors == 2)
        close_row(block, LANES, &f1);
}

static void row(const refold_x86_window *w, refold_x86_block *block, const void *slab,
                int8_t *out)
{
    if (block->count > LANES)
        row_of(w, block, slab, out, 2);
    else
        row_of(w, block, slab, out, 1);
}

const refold_x86_convolver refold_x86_conv2d_avx2 = {
    .block = 2 * LANES,
    .align = 2,
    .element_bytes = sizeof(int16_t),
    .group = 2,
    .depthwise = false,
    .convert = convert_pixels,
    .pad = pad_slab,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .row = row,
};

#endif
