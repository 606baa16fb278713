#include "x86.h"

#if REFOLD_X86_AVX2

#include "tile_avx2.h"

/*
 * vpmaddwd over two kernel positions at a time: int16 of 8 channels from two
 * positions are interleaved. Packed weights are [taps / 2][8][2] int16, padded
 * with zero weights.
 */

static int32_t pairs(int32_t taps)
{
    return (taps + 1) / 2;
}

static size_t packed_bytes(const refold_conv2d_params *p)
{
    const int32_t taps = p->kernel_h * p->kernel_w;
    return taps > REFOLD_X86_TAPS ? SIZE_MAX : (size_t)pairs(taps) * 32;
}

static void pack(const refold_conv2d_params *p, void *packed, refold_x86_block *block)
{
    const int32_t taps = p->kernel_h * p->kernel_w;
    int16_t *to = packed;

    for (int32_t tap = 0; tap < taps; tap += 2)
        for (int32_t i = 0; i < LANES; i++)
            for (int32_t half = 0; half < 2; half++) {
                const bool used = i < block->count && tap + half < taps;
                *to++ = used ? p->weights[(tap + half) * p->out.c + block->first + i] : 0;
            }
}

/* Channels 0-7 of two pixels as pairs, channel by channel. */
REFOLD_X86_INLINE __m256i interleave(const uint8_t *first, const uint8_t *second)
{
    const __m128i a = _mm_loadu_si128((const __m128i *)first);
    const __m128i b = _mm_loadu_si128((const __m128i *)second);
    return _mm256_set_m128i(_mm_unpackhi_epi16(a, b), _mm_unpacklo_epi16(a, b));
}

/* Distances of the kernel positions from the window's first; padding repeats it. */
static int32_t locate_taps(const refold_x86_window *w, ptrdiff_t *at)
{
    const int32_t taps = w->rows * w->taps;
    for (int32_t i = 0; i < 2 * pairs(taps); i++)
        at[i] = i < taps ? i / w->taps * w->row + i % w->taps * w->tap : 0;
    return pairs(taps);
}

static void row(const refold_x86_window *w, refold_x86_block *block, const void *slab,
                int8_t *out)
{
    ptrdiff_t at[REFOLD_X86_TAPS];
    const int32_t count = locate_taps(w, at);
    finish8 finish = open_row(block, 0, out, w->stride);

    for (int32_t x = 0; x < w->width; x += 4) {
        const uint8_t *pixel = (const uint8_t *)slab + x * w->pixel;
        __m256i acc[4];
        for (int i = 0; i < 4; i++, pixel += w->pixel) {
            __m256i sum = _mm256_setzero_si256();
            for (int32_t q = 0; q < count; q++) {
                const __m256i u = interleave(pixel + at[2 * q], pixel + at[2 * q + 1]);
                const uint8_t *weights = (const uint8_t *)block->weights + 32 * q;
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(u, load256(weights)));
            }
            acc[i] = sum;
        }
        finish_tile(&finish, acc, x, w->width - x < 4 ? w->width - x : 4);
    }
    close_row(block, 0, &finish);
}

const refold_x86_convolver refold_x86_dwconv2d_avx2 = {
    .block = LANES,
    .align = LANES,
    .element_bytes = sizeof(int16_t),
    .group = 2,
    .depthwise = true,
    .convert = convert_pixels,
    .pad = pad_slab,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .row = row,
};

#endif
