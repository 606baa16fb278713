/*
 * Global average pool: 16 channels are summed in the 20-bit lanes of QACC, which
 * hold 4095 int8 values whatever they are.
 */
#include "esp32s3.h"

#include "../../requant.h"
#include "channels.h"

#if defined REFOLD_ESP32S3

#define LANES 16
#define MOST_PIXELS 4095

static bool is_global(const refold_pool_params *p)
{
    return p->out.h == 1 && p->out.w == 1 && p->pad_top == 0 && p->pad_left == 0 &&
           p->kernel_h == p->in.h && p->kernel_w == p->in.w && p->entries == 1;
}

/* QACC = sums of 16 channels over all pixels. */
static void sum_lanes(const int8_t *in, int pixels, int stride, refold_pie *pie)
{
    const int8_t one = 1;
    const int8_t *unused = in; /* what the last product loads */

    EE_ZERO_QACC();
    EE_VLDBC_8(1, &one);
    EE_VLD_128_XP(0, in, stride);
    for (int i = 1; i < pixels; i++) {
        EE_VMULAS_S8_QACC_LD_XP(0, in, stride, 0, 1);
        PIE_SCALAR(2);
    }
    EE_VMULAS_S8_QACC_LD_XP(0, unused, stride, 0, 1);
}

bool refold_avg_pool_esp32s3(const refold_pool_params *p, const int8_t *in, int8_t *out)
{
    static const int32_t none[LANES][2];
    refold_pie state = {0}, *pie = &state;
    const refold_requant *r = &p->requant;
    int pixels = p->in.h * p->in.w;

    if (!is_global(p) || pixels > MOST_PIXELS || p->in.c % LANES != 0 ||
        !refold_esp32s3_aligned(in, in))
        return false;
    for (int c = 0; c < p->in.c; c += LANES) {
        int32_t sums[LANES][2];
        sum_lanes(in + c, pixels, p->in.c, pie);
        refold_channels_unpack(none, sums, pie);
        for (int i = 0; i < LANES; i++) {
            int64_t q = refold_scale(sums[i][0], r->m[0], r->b[0], r->shift);
            out[c + i] = refold_clamp(q, r->lo, r->hi);
            PIE_SCALAR(40);
        }
    }
    PIE_DONE();
    return true;
}

#else

bool refold_avg_pool_esp32s3(const refold_pool_params *p, const int8_t *in, int8_t *out)
{
    (void)p, (void)in, (void)out;
    return false;
}

#endif
