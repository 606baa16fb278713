#include "x86.h"

#include "../../requant.h"

#if REFOLD_X86_AVX2

#include <immintrin.h>

static __m256i widen(const int8_t *from)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)from));
}

static int32_t horizontal_sum(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, _MM_SHUFFLE(1, 0, 3, 2)));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtsi128_si32(s);
}

static int32_t dot(const int8_t *a, const int8_t *b, int32_t count)
{
    __m256i sums = _mm256_setzero_si256();
    int32_t i = 0;
    for (; i + 16 <= count; i += 16)
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(widen(a + i), widen(b + i)));
    int32_t sum = horizontal_sum(sums);
    for (; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static int64_t output(const refold_dense_params *p, const int8_t *in, int32_t i)
{
    const refold_requant *r = &p->requant;
    const int32_t acc = p->offset[i] + dot(in, p->weights + (size_t)i * p->inputs,
                                           p->inputs);
    return refold_scale(acc, r->m[i], r->b[i], r->shift);
}

bool refold_dense_x86(const refold_dense_params *p, const int8_t *in, int8_t *out)
{
    for (int32_t i = 0; i < p->outputs; i++)
        out[i] = refold_clamp(output(p, in, i), p->requant.lo, p->requant.hi);
    return true;
}

bool refold_dense_s32_x86(const refold_dense_params *p, const int8_t *in, int32_t *out)
{
    for (int32_t i = 0; i < p->outputs; i++)
        out[i] = (int32_t)output(p, in, i);
    return true;
}

#else

bool refold_dense_x86(const refold_dense_params *p, const int8_t *in, int8_t *out)
{
    (void)p, (void)in, (void)out;
    return false;
}

bool refold_dense_s32_x86(const refold_dense_params *p, const int8_t *in, int32_t *out)
{
    (void)p, (void)in, (void)out;
    return false;
}

#endif
