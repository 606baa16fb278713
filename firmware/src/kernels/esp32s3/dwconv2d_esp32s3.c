/*
 * Depthwise convolution: 16 channels are 16 lanes of QACC, a tap one product.
 *
 * A lane holds 20 bits: 31 products of int8 cannot overflow it, whatever they
 * are (31 * 2^14 < 2^19). Packed weights are [C / 16, KW, KH, 16].
 */
#include "esp32s3.h"

#include "channels.h"
#include "slab.h"

#if defined REFOLD_ESP32S3

#define LANES 16
#define MOST_TAPS 31

#define TAP                   \
    EE_VLD_128_IP(1, w, 16); \
    EE_VMULAS_S8_QACC_LD_XP(0, x, step, 0, 1)

/* The accumulators of 16 channels; returns the end of their weights. */
static const int8_t *accumulate(const int8_t *x, int step, const int8_t *w, int taps,
                                refold_pie *pie)
{
    EE_ZERO_QACC();
    EE_VLD_128_XP(0, x, step);
    for (; taps >= 3; taps -= 3) {
        TAP;
        TAP;
        TAP;
        PIE_SCALAR(2);
    }
    for (; taps > 0; taps--) {
        TAP;
        PIE_SCALAR(2);
    }
    PIE_SCALAR(12);
    return w;
}

static int padded_channels(const refold_conv2d_params *p)
{
    return refold_round_up(p->out.c, LANES);
}

size_t refold_dwconv2d_scratch_bytes_esp32s3(const refold_conv2d_params *p)
{
    refold_slab slab = refold_slab_of(p, padded_channels(p));

    return refold_slab_bytes(&slab) + refold_channels_bytes(padded_channels(p));
}

bool refold_dwconv2d_esp32s3(const refold_conv2d_params *p,
                             const refold_requant *requant, const int8_t *in,
                             int8_t *out, void *scratch, const refold_moments *moments)
{
    refold_pie state = {0}, *pie = &state;
    refold_slab slab = refold_slab_of(p, padded_channels(p));
    refold_channels ch;
    int taps = p->kernel_h * p->kernel_w;

    if (p->packed == NULL || taps > MOST_TAPS || !refold_channels_take(moments) ||
        !refold_esp32s3_aligned(in, out))
        return false;
    refold_slab_clear(&slab, scratch, pie);
    refold_channels_init(&ch, p, requant, padded_channels(p),
                         (uint8_t *)scratch + refold_slab_bytes(&slab), moments, pie);
    for (int oy = 0; oy < p->out.h; oy++) {
        refold_slab_load(&slab, in, oy, pie);
        for (int ox = 0; ox < p->out.w; ox++) {
            const int8_t *window = refold_slab_window(&slab, ox), *w = p->packed;
            for (int c = 0; c < ch.padded; c += LANES) {
                w = accumulate(window + c, slab.slot, w, taps, pie);
                refold_channels_unpack((const int32_t(*)[2])ch.start + c, ch.acc + c,
                                       pie);
            }
            refold_channels_pixels(&ch, out, 1, pie);
            out = out ? out + p->out.c : NULL;
            PIE_SCALAR(16);
        }
    }
    refold_channels_finish(&ch, pie);
    PIE_DONE();
    return true;
}

#else

bool refold_dwconv2d_esp32s3(const refold_conv2d_params *p,
                             const refold_requant *requant, const int8_t *in,
                             int8_t *out, void *scratch, const refold_moments *moments)
{
    (void)p, (void)requant, (void)in, (void)out, (void)scratch, (void)moments;
    return false;
}

#endif
