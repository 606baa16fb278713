#include "x86.h"

#include "../../requant.h"

#if REFOLD_X86_AVX2

#include <immintrin.h>

typedef struct add_table {
    __m256i m, bias, lo, hi;
    __m128i shift;
} add_table;

/*
 * Eight sums of a word a << 8 and a word b << 8, requantised. The products with
 * m1 and m2 add up to at least -2^31 + 2^16, and are multiples of 256.
 */
static inline __m256i scale(__m256i pairs, const add_table *t)
{
    const __m256i sum = _mm256_srai_epi32(_mm256_madd_epi16(pairs, t->m), 8);
    return _mm256_sra_epi32(_mm256_add_epi32(sum, t->bias), t->shift);
}

/* 16 bytes a, b, a, b, ... in each lane become 16 sums, in order. */
static inline __m256i scale_lanes(__m256i ab, const add_table *t)
{
    const __m256i zero = _mm256_setzero_si256();
    return _mm256_packs_epi32(scale(_mm256_unpacklo_epi8(zero, ab), t),
                              scale(_mm256_unpackhi_epi8(zero, ab), t));
}

static inline void add32(const add_table *t, const int8_t *a, const int8_t *b, int8_t *out)
{
    const __m256i va = _mm256_loadu_si256((const __m256i *)a);
    const __m256i vb = _mm256_loadu_si256((const __m256i *)b);
    const __m256i q = _mm256_packs_epi16(scale_lanes(_mm256_unpacklo_epi8(va, vb), t),
                                         scale_lanes(_mm256_unpackhi_epi8(va, vb), t));
    _mm256_storeu_si256((__m256i *)out,
                        _mm256_min_epi8(_mm256_max_epi8(q, t->lo), t->hi));
}

bool refold_add_x86(const refold_add_params *p, const int8_t *a, const int8_t *b,
                    int8_t *out)
{
    const uint32_t m = (uint16_t)p->m1 | (uint32_t)(uint16_t)p->m2 << 16;
    const add_table t = {_mm256_set1_epi32((int32_t)m), _mm256_set1_epi32(p->bias),
                         _mm256_set1_epi8(p->lo), _mm256_set1_epi8(p->hi),
                         _mm_cvtsi32_si128(p->shift)};
    uint32_t i = 0;
    for (; i + 32 <= p->count; i += 32)
        add32(&t, a + i, b + i, out + i);
    for (; i < p->count; i++) {
        const int32_t sum = a[i] * p->m1 + b[i] * p->m2 + p->bias;
        out[i] = refold_clamp(sum >> p->shift, p->lo, p->hi);
    }
    return true;
}

#else

bool refold_add_x86(const refold_add_params *p, const int8_t *a, const int8_t *b,
                    int8_t *out)
{
    (void)p, (void)a, (void)b, (void)out;
    return false;
}

#endif
