/*
 * What follows the accumulators of a tile, with AVX-512 VNNI: 16 output
 * channels of `pixels` (a multiple of 4, known when compiled) output pixels.
 */
#ifndef REFOLD_X86_TILE_AVX512_H
#define REFOLD_X86_TILE_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "convolve.h"

#define LANES 16

/* Requantisation of 16 channels; 64-bit products, even and odd channels apart. */
typedef struct table16 {
    __m512i m_even, m_odd, b_even, b_odd, right, left, lo, hi;
    __mmask16 channels;
} table16;

typedef struct sums16 {
    __m512i s1, low, high, shift;
} sums16;

REFOLD_X86_INLINE table16 load_table(const refold_x86_block *block, int32_t at)
{
    const __m512i even = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
    const __m512i b0 = _mm512_loadu_si512(block->b + at);
    const __m512i b1 = _mm512_loadu_si512(block->b + at + 8);
    const int32_t count = block->count - at < LANES ? block->count - at : LANES;
    table16 t;
    t.m_even = _mm512_loadu_si512(block->m + at);
    t.m_odd = _mm512_srli_epi64(t.m_even, 32);
    t.b_even = _mm512_permutex2var_epi64(b0, even, b1);
    t.b_odd = _mm512_permutex2var_epi64(b0, odd, b1);
    t.lo = _mm512_set1_epi8(block->lo);
    t.hi = _mm512_set1_epi8(block->hi);
    t.right = _mm512_set1_epi64(block->shift);
    t.left = _mm512_set1_epi64(32 - block->shift);
    t.channels = (__mmask16)((1u << count) - 1);
    return t;
}

/*
 * (acc * m + b) >> shift as int32, which holds it: |acc * m| < 2^46 and
 * |b| <= 2^38 leave less than 2^31 after a shift of 16. So the odd channels'
 * result may be shifted left into place, and the even ones' without sign.
 */
REFOLD_X86_INLINE __m512i requantise(__m512i acc, const table16 *t)
{
    const __m512i acc_odd = _mm512_srli_epi64(acc, 32);
    __m512i even = _mm512_mul_epi32(acc, t->m_even);
    __m512i odd = _mm512_mul_epi32(acc_odd, t->m_odd);
    even = _mm512_srlv_epi64(_mm512_add_epi64(even, t->b_even), t->right);
    odd = _mm512_sllv_epi64(_mm512_add_epi64(odd, t->b_odd), t->left);
    return _mm512_mask_blend_epi32(0xaaaa, even, odd);
}

/* Four pixels to int8, clamped: 128-bit lane i is pixel i. */
REFOLD_X86_INLINE __m512i narrow(const __m512i *acc, const table16 *t)
{
    const __m512i by_pixel =
        _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i q01 =
        _mm512_packs_epi32(requantise(acc[0], t), requantise(acc[1], t));
    const __m512i q23 =
        _mm512_packs_epi32(requantise(acc[2], t), requantise(acc[3], t));
    const __m512i q = _mm512_packs_epi16(q01, q23);
    const __m512i clamped = _mm512_min_epi8(_mm512_max_epi8(q, t->lo), t->hi);
    return _mm512_permutexvar_epi32(by_pixel, clamped);
}

REFOLD_X86_INLINE void store_tile(const __m512i *acc, int pixels, const table16 *t,
                                  int8_t *out, int32_t stride, int32_t valid)
{
    REFOLD_X86_UNROLL
    for (int i = 0; i < pixels; i += 4) {
        const __m512i q = narrow(acc + i, t);
        const __m128i lane[4] = {
            _mm512_castsi512_si128(q), _mm512_extracti32x4_epi32(q, 1),
            _mm512_extracti32x4_epi32(q, 2), _mm512_extracti32x4_epi32(q, 3)};
        REFOLD_X86_UNROLL
        for (int j = 0; j < 4; j++)
            if (i + j < valid)
                _mm_mask_storeu_epi8(out + (ptrdiff_t)(i + j) * stride, t->channels,
                                     lane[j]);
    }
}

REFOLD_X86_INLINE sums16 load_sums(const refold_x86_block *block, int32_t at)
{
    sums16 s;
    s.s1 = _mm512_loadu_si512(block->s1 + at);
    s.low = _mm512_loadu_si512(block->low + at);
    s.high = _mm512_loadu_si512(block->high + at);
    s.shift = _mm512_set1_epi32(block->moments_shift);
    return s;
}

REFOLD_X86_INLINE void store_sums(refold_x86_block *block, int32_t at, const sums16 *s)
{
    _mm512_storeu_si512(block->s1 + at, s->s1);
    _mm512_storeu_si512(block->low + at, s->low);
    _mm512_storeu_si512(block->high + at, s->high);
}

/* Statistics of four pixels as int16 pairs: per channel, a0 a2 and a1 a3. */
REFOLD_X86_INLINE void pair_up(const __m512i *acc, __m512i shift, __m512i *pair)
{
    const __m512i a01 = _mm512_packs_epi32(_mm512_srav_epi32(acc[0], shift),
                                           _mm512_srav_epi32(acc[1], shift));
    const __m512i a23 = _mm512_packs_epi32(_mm512_srav_epi32(acc[2], shift),
                                           _mm512_srav_epi32(acc[3], shift));
    pair[0] = _mm512_unpacklo_epi16(a01, a23);
    pair[1] = _mm512_unpackhi_epi16(a01, a23);
}

/* `q`: per channel, an unsigned sum of squares. */
REFOLD_X86_INLINE void add_squares(sums16 *s, __m512i q)
{
    s->low = _mm512_add_epi32(s->low, q);
    s->high = _mm512_add_epi32(s->high, _mm512_srli_epi32(q, 16));
}

/* Squares of any size: two at a time fit 32 bits. Out of line, for it is rare. */
static __attribute__((noinline)) void add_large_squares(sums16 *s, const __m512i *acc,
                                                        int pixels)
{
    for (int i = 0; i < pixels; i += 4) {
        __m512i pair[2];
        pair_up(acc + i, s->shift, pair);
        add_squares(s, _mm512_madd_epi16(pair[0], pair[0]));
        add_squares(s, _mm512_madd_epi16(pair[1], pair[1]));
    }
}

/*
 * Accumulators of pixels outside the row must be 0: they add nothing. The
 * squares of a tile fit 31 bits but for values near the ends of int16; the
 * saturating sum tells.
 */
REFOLD_X86_INLINE void add_sums(sums16 *s, const __m512i *acc, int pixels)
{
    const __m512i ones = _mm512_set1_epi16(1), most = _mm512_set1_epi32(INT32_MAX);
    __m512i squares = _mm512_setzero_si512();
    REFOLD_X86_UNROLL
    for (int i = 0; i < pixels; i += 4) {
        __m512i pair[2];
        pair_up(acc + i, s->shift, pair);
        s->s1 = _mm512_dpwssd_epi32(s->s1, pair[0], ones);
        s->s1 = _mm512_dpwssd_epi32(s->s1, pair[1], ones);
        squares = _mm512_dpwssds_epi32(squares, pair[0], pair[0]);
        squares = _mm512_dpwssds_epi32(squares, pair[1], pair[1]);
    }
    if (_mm512_cmpeq_epi32_mask(squares, most) == 0) {
        add_squares(s, squares);
        return;
    }
    /* A copy, so that `acc` itself may stay in registers. */
    __m512i copy[REFOLD_X86_TILE];
    sums16 sums = *s;
    REFOLD_X86_UNROLL
    for (int i = 0; i < pixels; i++)
        copy[i] = acc[i];
    add_large_squares(&sums, copy, pixels);
    *s = sums;
}

/* What a row of output needs after its accumulators, kept across its tiles. */
typedef struct finish16 {
    table16 table;
    sums16 sums;
    int8_t *out; /* first pixel, first of the 16 channels; NULL: sums alone */
    int32_t stride;
    bool moments;
} finish16;

REFOLD_X86_INLINE finish16 open_row(const refold_x86_block *block, int32_t at,
                                    int8_t *out, int32_t stride)
{
    finish16 f;
    f.table = load_table(block, at);
    f.sums = load_sums(block, at);
    f.out = out == NULL ? NULL : out + at;
    f.stride = stride;
    f.moments = block->moments;
    return f;
}

/* The tile at column x, of which `valid` pixels lie inside the row. */
REFOLD_X86_INLINE void finish_tile(finish16 *f, __m512i *acc, int pixels, int32_t x,
                                   int32_t valid)
{
    if (f->moments) {
        if (valid < pixels) {
            REFOLD_X86_UNROLL
            for (int i = 0; i < pixels; i++)
                if (i >= valid)
                    acc[i] = _mm512_setzero_si512();
        }
        add_sums(&f->sums, acc, pixels);
    }
    if (f->out != NULL)
        store_tile(acc, pixels, &f->table, f->out + (ptrdiff_t)x * f->stride, f->stride,
                   valid);
}

/* Four rows of 16 bytes become 16 groups of four bytes. */
REFOLD_X86_INLINE __m512i interleave(__m128i r0, __m128i r1, __m128i r2, __m128i r3)
{
    const __m512i quads =
        _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i bytes = _mm512_broadcast_i32x4(
        _mm_set_epi8(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0));
    __m512i v = _mm512_castsi128_si512(r0);
    v = _mm512_inserti32x4(v, r1, 1);
    v = _mm512_inserti32x4(v, r2, 2);
    v = _mm512_inserti32x4(v, r3, 3);
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(quads, v), bytes);
}

/* int8 x becomes uint8 x + 128, the unsigned operand of vpdpbusd. */
REFOLD_X86_INLINE void convert_unsigned(uint8_t *to, const int8_t *from, size_t count)
{
    const __m512i flip = _mm512_set1_epi8(-128);
    size_t i = 0;
    for (; i + 64 <= count; i += 64)
        _mm512_storeu_si512(to + i,
                            _mm512_xor_si512(_mm512_loadu_si512(from + i), flip));
    const __mmask64 rest = _cvtu64_mask64((UINT64_C(1) << (count - i)) - 1);
    const __m512i v = _mm512_maskz_loadu_epi8(rest, from + i);
    _mm512_mask_storeu_epi8(to + i, rest, _mm512_xor_si512(v, flip));
}

static inline void convert_pixels(void *slab, const int8_t *in, int32_t pixels,
                                  int32_t channels, int32_t padded, int8_t zero_point)
{
    (void)zero_point;
    if (channels == padded) {
        channels *= pixels;
        pixels = 1;
    }
    for (int32_t i = 0; i < pixels; i++)
        convert_unsigned((uint8_t *)slab + (size_t)i * (size_t)padded,
                         in + (size_t)i * (size_t)channels, (size_t)channels);
}

static inline void pad_slab(void *slab, size_t count, int8_t zero_point)
{
    memset(slab, (uint8_t)zero_point ^ 0x80, count);
}

#endif
