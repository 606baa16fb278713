#include "x86.h"

#include "../../requant.h"

#if REFOLD_X86_AVX2

#include <immintrin.h>

/* Channels summed together. */
#define LANES 16

static bool is_global(const refold_pool_params *p)
{
    return p->out.h == 1 && p->out.w == 1 && p->pad_top == 0 && p->pad_left == 0
        && p->kernel_h == p->in.h && p->kernel_w == p->in.w && p->entries == 1;
}

/* Sums of 16 channels over all pixels; may read 15 bytes past the tensor. */
static void sum_lanes(const int8_t *in, uint32_t pixels, uint32_t stride, int32_t *sums)
{
    __m256i low = _mm256_setzero_si256(), high = low;
    for (uint32_t i = 0; i < pixels; i++, in += stride) {
        const __m128i x = _mm_loadu_si128((const __m128i *)in);
        low = _mm256_add_epi32(low, _mm256_cvtepi8_epi32(x));
        high = _mm256_add_epi32(high, _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)));
    }
    _mm256_storeu_si256((__m256i *)sums, low);
    _mm256_storeu_si256((__m256i *)(sums + 8), high);
}

/* Global average pooling alone; other windows are left to the portable kernel. */
bool refold_avg_pool_x86(const refold_pool_params *p, const int8_t *in, int8_t *out)
{
    const refold_requant *r = &p->requant;
    if (!is_global(p))
        return false;
    for (int32_t first = 0; first < p->in.c; first += LANES) {
        int32_t sums[LANES];
        sum_lanes(in + first, (uint32_t)p->in.h * p->in.w, p->in.c, sums);
        for (int32_t i = 0; i < LANES && first + i < p->in.c; i++)
            out[first + i] = refold_clamp(refold_scale(sums[i], r->m[0], r->b[0], r->shift),
                                          r->lo, r->hi);
    }
    return true;
}

#else

bool refold_avg_pool_x86(const refold_pool_params *p, const int8_t *in, int8_t *out)
{
    (void)p, (void)in, (void)out;
    return false;
}

#endif
