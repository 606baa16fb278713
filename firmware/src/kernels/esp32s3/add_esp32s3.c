/*
 * Sum of two tensors, eight 40-bit lanes at a time.
 *
 * Zipping with zeros makes int8 values a the int16 values 256 a, so that
 *
 *     (256 bias + 256 a * m1 + 256 b * m2) >> shift + 8
 *
 * is the contract's formula; |256 bias| < 2^39 - 2^31 leaves room for the rest.
 */
#include "esp32s3.h"

#include <string.h>

#include "pie.h"

#if defined REFOLD_ESP32S3

#define LANES 16
#define BIAS_LIMIT (INT32_MAX - (1 << 23))

/* What one round needs beside the operands: q7 holds m1 and m2 by lane. */
typedef struct constants {
    uint8_t bias[PIE_IMAGE_BYTES];
    int16_t m[8];
    int16_t lo, hi;
    int32_t shift;
} constants;

static void prepare(constants *k, const refold_add_params *p)
{
    int64_t bias = (int64_t)p->bias * 256;

    memset(k, 0, sizeof *k);
    for (int i = 0; i < 8; i++)
        memcpy(k->bias + i / 4 * 32 + i % 4 * 5, &bias, 5);
    k->m[0] = p->m1;
    k->m[1] = p->m2;
    k->lo = p->lo;
    k->hi = p->hi;
    k->shift = p->shift + 8;
}

/* q[x] = sum of the lanes of q[x] and q[y], of which each is 256 times a value. */
#define SUM(x, y)                   \
    PIE_LD_QACC(bias);              \
    EE_VSMULAS_S16_QACC(x, 7, 0);   \
    EE_VSMULAS_S16_QACC(y, 7, 1);   \
    EE_SRCMB_S16_QACC(x, shift);    \
    EE_VMAX_S16(x, x, 6);           \
    EE_VMIN_S16(x, x, 5)

static void add_vectors(const constants *k, const int8_t *a, const int8_t *b,
                        int8_t *out, uint32_t vectors, refold_pie *pie)
{
    const int16_t *m = k->m;
    int32_t shift = k->shift;

    EE_VLDBC_16(5, &k->hi);
    EE_VLDBC_16(6, &k->lo);
    EE_VLD_128_IP(7, m, 16);
    for (; vectors > 0; vectors--) {
        const uint8_t *bias = k->bias;
        EE_VLD_128_IP(1, a, 16);
        EE_VLD_128_IP(3, b, 16);
        EE_ZERO_Q(0);
        EE_ZERO_Q(2);
        EE_VZIP_8(0, 1);
        EE_VZIP_8(2, 3);
        SUM(0, 2);
        bias = k->bias;
        SUM(1, 3);
        EE_VUNZIP_8(0, 1);
        EE_VST_128_IP(0, out, 16);
        PIE_SCALAR(4);
    }
}

bool refold_add_esp32s3(const refold_add_params *p, const int8_t *a, const int8_t *b,
                        int8_t *out)
{
    refold_pie state = {0}, *pie = &state;
    constants k PIE_ALIGNED;
    uint32_t whole = p->count / LANES * LANES;
    refold_add_params rest = *p;

    if (p->bias > BIAS_LIMIT || p->bias < -BIAS_LIMIT || !refold_esp32s3_aligned(a, b) ||
        !refold_esp32s3_aligned(a, out))
        return false;
    prepare(&k, p);
    add_vectors(&k, a, b, out, whole / LANES, pie);
    rest.count = p->count - whole;
    refold_add_ref(&rest, a + whole, b + whole, out + whole);
    PIE_SCALAR(220 + 14 * rest.count);
    PIE_DONE();
    return true;
}

#else

bool refold_add_esp32s3(const refold_add_params *p, const int8_t *a, const int8_t *b,
                        int8_t *out)
{
    (void)p, (void)a, (void)b, (void)out;
    return false;
}

#endif
