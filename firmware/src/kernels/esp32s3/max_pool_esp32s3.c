/* Max pool, 16 channels at a time. */
#include "esp32s3.h"

#include "../window.h"
#include "pie.h"

#if defined REFOLD_ESP32S3

#define LANES 16

/* 16 channels of one window; `in` is their first pixel of the image. */
static void pool(const refold_pool_params *p, refold_window window, const int8_t *in,
                 int8_t *out, refold_pie *pie)
{
    const int8_t least = INT8_MIN;
    int stride = p->in.c;

    EE_VLDBC_8(0, &least);
    for (int y = window.top; y < window.bottom; y++) {
        const int8_t *x = in + ((size_t)y * p->in.w + (size_t)window.left) * p->in.c;
        for (int i = window.left; i < window.right; i++) {
            EE_VLD_128_XP(1, x, stride);
            EE_VMAX_S8(0, 0, 1);
            PIE_SCALAR(2);
        }
        PIE_SCALAR(8);
    }
    EE_VLDBC_8(1, &p->requant.lo);
    EE_VLDBC_8(2, &p->requant.hi);
    EE_VMAX_S8(0, 0, 1);
    EE_VMIN_S8(0, 0, 2);
    EE_VST_128_IP(0, out, 16);
    PIE_SCALAR(20);
}

bool refold_max_pool_esp32s3(const refold_pool_params *p, const int8_t *in, int8_t *out)
{
    refold_pie state = {0}, *pie = &state;

    if (p->in.c % LANES != 0 || !refold_esp32s3_aligned(in, out))
        return false;
    for (int oy = 0; oy < p->out.h; oy++) {
        for (int ox = 0; ox < p->out.w; ox++, out += p->out.c) {
            refold_window window = refold_window_inside(p, oy, ox);
            for (int c = 0; c < p->in.c; c += LANES)
                pool(p, window, in + c, out + c, pie);
            PIE_SCALAR(30);
        }
    }
    PIE_DONE();
    return true;
}

#else

bool refold_max_pool_esp32s3(const refold_pool_params *p, const int8_t *in, int8_t *out)
{
    (void)p, (void)in, (void)out;
    return false;
}

#endif
