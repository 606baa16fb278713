/*
 * What follows the accumulators of a tile, with AVX2: 8 output channels of
 * four output pixels. Slab elements are int16 x - z, so padding is 0 and
 * accumulators start at 0.
 */
#ifndef REFOLD_X86_TILE_AVX2_H
#define REFOLD_X86_TILE_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "convolve.h"

#define LANES 8

/* Requantisation of 8 channels; 64-bit products, even and odd channels apart. */
typedef struct table8 {
    __m256i m_even, m_odd, b_even, b_odd, right, left, lo, hi;
    size_t channels;
} table8;

typedef struct sums8 {
    __m256i s1, low, high, shift;
} sums8;

/* What a row of output needs after its accumulators, kept across its tiles. */
typedef struct finish8 {
    table8 table;
    sums8 sums;
    int8_t *out; /* first pixel, first of the 8 channels; NULL: sums alone */
    int32_t stride;
    bool moments;
} finish8;

REFOLD_X86_INLINE __m256i load256(const void *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

REFOLD_X86_INLINE table8 load_table(const refold_x86_block *block, int32_t at)
{
    const int64_t *b = block->b + at;
    const int32_t count = block->count - at;
    table8 t;
    t.m_even = load256(block->m + at);
    t.m_odd = _mm256_srli_epi64(t.m_even, 32);
    t.b_even = _mm256_set_epi64x(b[6], b[4], b[2], b[0]);
    t.b_odd = _mm256_set_epi64x(b[7], b[5], b[3], b[1]);
    t.lo = _mm256_set1_epi8(block->lo);
    t.hi = _mm256_set1_epi8(block->hi);
    t.right = _mm256_set1_epi64x(block->shift);
    t.left = _mm256_set1_epi64x(32 - block->shift);
    t.channels = (size_t)(count < LANES ? count : LANES);
    return t;
}

REFOLD_X86_INLINE finish8 open_row(const refold_x86_block *block, int32_t at, int8_t *out,
                                   int32_t stride)
{
    finish8 f;
    f.table = load_table(block, at);
    f.sums.s1 = load256(block->s1 + at);
    f.sums.low = load256(block->low + at);
    f.sums.high = load256(block->high + at);
    f.sums.shift = _mm256_set1_epi32(block->moments_shift);
    f.out = out == NULL ? NULL : out + at;
    f.stride = stride;
    f.moments = block->moments;
    return f;
}

REFOLD_X86_INLINE void close_row(refold_x86_block *block, int32_t at, const finish8 *f)
{
    _mm256_storeu_si256((__m256i *)(block->s1 + at), f->sums.s1);
    _mm256_storeu_si256((__m256i *)(block->low + at), f->sums.low);
    _mm256_storeu_si256((__m256i *)(block->high + at), f->sums.high);
}

/*
 * (acc * m + b) >> shift as int32, which holds it: |acc * m| < 2^46 and
 * |b| <= 2^38 leave less than 2^31 after a shift of 16. So the odd channels'
 * result may be shifted left into place, and the even ones' without sign.
 */
REFOLD_X86_INLINE __m256i requantise(__m256i acc, const table8 *t)
{
    const __m256i acc_odd = _mm256_srli_epi64(acc, 32);
    __m256i even = _mm256_mul_epi32(acc, t->m_even);
    __m256i odd = _mm256_mul_epi32(acc_odd, t->m_odd);
    even = _mm256_srlv_epi64(_mm256_add_epi64(even, t->b_even), t->right);
    odd = _mm256_sllv_epi64(_mm256_add_epi64(odd, t->b_odd), t->left);
    return _mm256_blend_epi32(even, odd, 0xaa);
}

/* Four pixels to int8, clamped: 64-bit lane i is pixel i. */
REFOLD_X86_INLINE __m256i narrow(const __m256i *acc, const table8 *t)
{
    const __m256i by_pixel = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
    const __m256i q01 =
        _mm256_packs_epi32(requantise(acc[0], t), requantise(acc[1], t));
    const __m256i q23 =
        _mm256_packs_epi32(requantise(acc[2], t), requantise(acc[3], t));
    const __m256i q = _mm256_packs_epi16(q01, q23);
    const __m256i clamped = _mm256_min_epi8(_mm256_max_epi8(q, t->lo), t->hi);
    return _mm256_permutevar8x32_epi32(clamped, by_pixel);
}

REFOLD_X86_INLINE void store_tile(const finish8 *f, const __m256i *acc, int32_t x,
                                  int32_t valid)
{
    int8_t q[4][LANES];
    int8_t *out = f->out + (ptrdiff_t)x * f->stride;
    _mm256_storeu_si256((__m256i *)q, narrow(acc, &f->table));
    if (f->table.channels == LANES)
        for (int32_t i = 0; i < valid; i++, out += f->stride)
            memcpy(out, q[i], LANES);
    else
        for (int32_t i = 0; i < valid; i++, out += f->stride)
            memcpy(out, q[i], f->table.channels);
}

/* `pair` holds, per channel, the int16 statistics of two pixels. */
REFOLD_X86_INLINE void add_pair(sums8 *s, __m256i pair)
{
    const __m256i q = _mm256_madd_epi16(pair, pair);
    const __m256i sum = _mm256_madd_epi16(pair, _mm256_set1_epi16(1));
    s->s1 = _mm256_add_epi32(s->s1, sum);
    s->low = _mm256_add_epi32(s->low, q);
    s->high = _mm256_add_epi32(s->high, _mm256_srli_epi32(q, 16));
}

REFOLD_X86_INLINE void add_sums(sums8 *s, const __m256i *acc)
{
    const __m256i a01 = _mm256_packs_epi32(_mm256_srav_epi32(acc[0], s->shift),
                                           _mm256_srav_epi32(acc[1], s->shift));
    const __m256i a23 = _mm256_packs_epi32(_mm256_srav_epi32(acc[2], s->shift),
                                           _mm256_srav_epi32(acc[3], s->shift));
    add_pair(s, _mm256_unpacklo_epi16(a01, a23));
    add_pair(s, _mm256_unpackhi_epi16(a01, a23));
}

/* The tile at column x, of which `valid` pixels lie inside the row. */
REFOLD_X86_INLINE void finish_tile(finish8 *f, __m256i *acc, int32_t x, int32_t valid)
{
    if (f->moments) {
        REFOLD_X86_UNROLL
        for (int i = 1; i < 4; i++)
            if (i >= valid)
                acc[i] = _mm256_setzero_si256();
        add_sums(&f->sums, acc);
    }
    if (f->out != NULL)
        store_tile(f, acc, x, valid);
}

REFOLD_X86_INLINE void convert_signed(int16_t *to, const int8_t *from, size_t count,
                                      __m256i zero)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(from + i));
        _mm256_storeu_si256((__m256i *)(to + i),
                            _mm256_sub_epi16(_mm256_cvtepi8_epi16(x), zero));
    }
    const int16_t z = (int16_t)_mm256_extract_epi16(zero, 0);
    for (; i < count; i++)
        to[i] = (int16_t)(from[i] - z);
}

static inline void convert_pixels(void *slab, const int8_t *in, int32_t pixels,
                                  int32_t channels, int32_t padded, int8_t zero_point)
{
    const __m256i zero = _mm256_set1_epi16(zero_point);
    if (channels == padded) {
        channels *= pixels;
        pixels = 1;
    }
    for (int32_t i = 0; i < pixels; i++)
        convert_signed((int16_t *)slab + (size_t)i * (size_t)padded,
                       in + (size_t)i * (size_t)channels, (size_t)channels, zero);
}

static inline void pad_slab(void *slab, size_t count, int8_t zero_point)
{
    (void)zero_point;
    memset(slab, 0, count * sizeof(int16_t));
}

#endif
