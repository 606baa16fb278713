/*
 * Fully connected layers: one dot product in ACCX an output.
 *
 * Packed weights are [OUT, V, 16] with V even; the input is read up to 31 bytes
 * past its end, where the weights are zero.
 */
#include "esp32s3.h"

#include "../../requant.h"
#include "pie.h"

#if defined REFOLD_ESP32S3

/*
 * The weights of the first two vectors are in q1 and q2 already; the dot product
 * leaves those of the next output there.
 */
PIE_INLINE const int8_t *dot(const int8_t *x, const int8_t *w, int inputs, int32_t *sum,
                             refold_pie *pie)
{
    EE_ZERO_ACCX();
    for (int i = 0; i < inputs; i += 32) {
        EE_VLD_128_IP(0, x, 16);
        EE_VLD_128_IP(3, x, 16);
        EE_VMULAS_S8_ACCX_LD_IP(1, w, 16, 1, 0);
        EE_VMULAS_S8_ACCX_LD_IP(2, w, 16, 2, 3);
        PIE_SCALAR(2);
    }
    EE_RUR_ACCX_0(*sum);
    return w;
}

static bool runs(const refold_dense_params *p, const int8_t *in)
{
    return p->packed != NULL && refold_esp32s3_aligned(in, p->packed);
}

bool refold_dense_esp32s3(const refold_dense_params *p, const int8_t *in, int8_t *out)
{
    refold_pie state = {0}, *pie = &state;
    const refold_requant *r = &p->requant;
    const int8_t *w = p->packed;

    if (!runs(p, in))
        return false;
    EE_VLD_128_IP(1, w, 16);
    EE_VLD_128_IP(2, w, 16);
    for (int i = 0; i < p->outputs; i++) {
        int32_t sum;
        w = dot(in, w, p->inputs, &sum, pie);
        int64_t q = refold_scale(p->offset[i] + sum, r->m[i], r->b[i], r->shift);
        out[i] = refold_clamp(q, r->lo, r->hi);
        PIE_SCALAR(50);
    }
    PIE_DONE();
    return true;
}

bool refold_dense_s32_esp32s3(const refold_dense_params *p, const int8_t *in,
                              int32_t *out)
{
    refold_pie state = {0}, *pie = &state;
    const refold_requant *r = &p->requant;
    const int8_t *w = p->packed;

    if (!runs(p, in))
        return false;
    EE_VLD_128_IP(1, w, 16);
    EE_VLD_128_IP(2, w, 16);
    for (int i = 0; i < p->outputs; i++) {
        int32_t sum;
        w = dot(in, w, p->inputs, &sum, pie);
        out[i] =
            (int32_t)refold_scale(p->offset[i] + sum, r->m[i], r->b[i], r->shift);
        PIE_SCALAR(50);
    }
    PIE_DONE();
    return true;
}

#else

bool refold_dense_esp32s3(const refold_dense_params *p, const int8_t *in, int8_t *out)
{
    (void)p, (void)in, (void)out;
    return false;
}

bool refold_dense_s32_esp32s3(const refold_dense_params *p, const int8_t *in,
                              int32_t *out)
{
    (void)p, (void)in, (void)out;
    return false;
}

#endif
