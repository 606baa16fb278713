/*
 * Convolution by dot products in ACCX, which no sum of int8 products overflows.
 *
 * Up to six vectors of a window stay in q0..q5 while the weights of all output
 * channels stream through q6 and q7, each product loading the weights that its
 * register holds next; longer windows take several such sweeps over the
 * accumulators. See docs/kernels.md for the packed weights and the counts.
 */
#include "esp32s3.h"

#include "channels.h"
#include "slab.h"

#if defined REFOLD_ESP32S3

#define RESIDENT 6 /* vectors of a window that stay in registers */

#define LOAD_1 EE_VLD_128_IP(0, x, 16)
#define LOAD_2 LOAD_1; EE_VLD_128_IP(1, x, 16)
#define LOAD_3 LOAD_2; EE_VLD_128_IP(2, x, 16)
#define LOAD_4 LOAD_3; EE_VLD_128_IP(3, x, 16)
#define LOAD_5 LOAD_4; EE_VLD_128_IP(4, x, 16)
#define LOAD_6 LOAD_5; EE_VLD_128_IP(5, x, 16)

/* The weights alternate between two registers: r holds the first, s the next. */
#define MAC(r, q) EE_VMULAS_S8_ACCX_LD_IP(r, w, 16, r, q)
#define DOT_1(r, s) MAC(r, 0)
#define DOT_2(r, s) DOT_1(r, s); MAC(s, 1)
#define DOT_3(r, s) DOT_2(r, s); MAC(r, 2)
#define DOT_4(r, s) DOT_3(r, s); MAC(s, 3)
#define DOT_5(r, s) DOT_4(r, s); MAC(r, 4)
#define DOT_6(r, s) DOT_5(r, s); MAC(s, 5)

/* One channel: add its dot product to the accumulator. */
#define CHANNEL(dot)        \
    EE_LD_ACCX_IP(from, 8); \
    dot;                    \
    EE_ST_ACCX_IP(to, 8)
#define CHANNELS_2(n, r, s) CHANNEL(DOT_##n(6, 7)); CHANNEL(DOT_##n(r, s))
#define CHANNELS_4(n, r, s) CHANNELS_2(n, r, s); CHANNELS_2(n, r, s)

/* Neighbouring output pixels whose accumulators are computed together. */
typedef struct block {
    const int8_t *window;   /* of the first pixel */
    int step;               /* bytes to the window of the next */
    int pixels;
    int channels;           /* a multiple of eight */
    const int32_t (*start)[2];
    int32_t (*acc)[2];
} block;

/*
 * Add the products of n vectors from byte `at` of every window; the first sweep
 * begins at the start values. Returns the end of the weights. After an odd number
 * of products the registers have changed places: r and s are those that the second
 * channel of a pair uses.
 */
#define SWEEP(n, r, s)                                                            \
    static const int8_t *sweep_##n(const block *b, int at, const int8_t *weights, \
                                   refold_pie *pie)                               \
    {                                                                             \
        const int8_t *window = b->window + at, *w = weights;                      \
        const int32_t(*from)[2] = (const int32_t(*)[2])b->acc;                    \
        int32_t(*to)[2] = b->acc;                                                 \
        int channels = b->channels;                                               \
                                                                                  \
        for (int i = b->pixels; i > 0; i--, window += b->step) {                  \
            const int8_t *x = window;                                             \
            w = weights;                                                          \
            if (at == 0)                                                          \
                from = b->start;                                                  \
            LOAD_##n;                                                             \
            EE_VLD_128_IP(6, w, 16);                                              \
            EE_VLD_128_IP(7, w, 16);                                              \
            for (int c = channels; c > 0; c -= 8) {                               \
                CHANNELS_4(n, r, s);                                              \
                CHANNELS_4(n, r, s);                                              \
                PIE_SCALAR(2);                                                    \
            }                                                                     \
            PIE_SCALAR(10);                                                       \
        }                                                                         \
        PIE_SCALAR(12);                                                           \
        return w - 32;                                                            \
    }

SWEEP(1, 7, 6)
SWEEP(2, 6, 7)
SWEEP(3, 7, 6)
SWEEP(4, 6, 7)
SWEEP(5, 7, 6)
SWEEP(6, 6, 7)

/* All sweeps over windows of so many vectors. */
static void accumulate(const block *b, int vectors, const int8_t *weights,
                       refold_pie *pie)
{
    static const int8_t *(*const sweeps[])(const block *, int, const int8_t *,
                                           refold_pie *) = {
        sweep_1, sweep_2, sweep_3, sweep_4, sweep_5, sweep_6,
    };

    for (int i = 0; i < vectors; i += RESIDENT) {
        int n = vectors - i < RESIDENT ? vectors - i : RESIDENT;
        weights = sweeps[n - 1](b, 16 * i, weights, pie);
        PIE_SCALAR(14);
    }
}

/* One row of output; a dilated kernel's windows do not lie in steps. */
static void row(const refold_conv2d_params *p, const refold_slab *slab,
                refold_channels *ch, int8_t *out, refold_pie *pie)
{
    int most = p->dilation_w == 1 ? ch->block : 1;
    block b = {
        .step = p->stride_w * slab->column,
        .channels = ch->padded,
        .start = (const int32_t(*)[2])ch->start,
        .acc = ch->acc,
    };

    for (int x = 0; x < p->out.w; x += b.pixels) {
        b.window = refold_slab_window(slab, x);
        b.pixels = p->out.w - x < most ? p->out.w - x : most;
        accumulate(&b, p->kernel_w * slab->column / 16, p->packed, pie);
        refold_channels_pixels(ch, out, b.pixels, pie);
        out = out ? out + b.pixels * p->out.c : NULL;
        PIE_SCALAR(30);
    }
}

static int padded_channels(const refold_conv2d_params *p)
{
    return refold_round_up(p->out.c, REFOLD_S3_LANES);
}

size_t refold_conv2d_scratch_bytes_esp32s3(const refold_conv2d_params *p)
{
    refold_slab slab = refold_slab_of(p, p->in.c);

    return refold_slab_bytes(&slab) + refold_channels_bytes(padded_channels(p));
}

bool refold_conv2d_esp32s3(const refold_conv2d_params *p, const refold_requant *requant,
                           const int8_t *in, int8_t *out, void *scratch,
                           const refold_moments *moments)
{
    refold_pie state = {0}, *pie = &state;
    refold_slab slab = refold_slab_of(p, p->in.c);
    refold_channels ch;

    if (p->packed == NULL || p->groups != 1 || !refold_channels_take(moments) ||
        !refold_esp32s3_aligned(in, out))
        return false;
    refold_slab_clear(&slab, scratch, pie);
    refold_channels_init(&ch, p, requant, padded_channels(p),
                         (uint8_t *)scratch + refold_slab_bytes(&slab), moments, pie);
    for (int oy = 0; oy < p->out.h; oy++) {
        refold_slab_load(&slab, in, oy, pie);
        row(p, &slab, &ch, out, pie);
        out = out ? out + p->out.w * p->out.c : NULL;
        PIE_SCALAR(30);
    }
    refold_channels_finish(&ch, pie);
    PIE_DONE();
    return true;
}

#else

bool refold_conv2d_esp32s3(const refold_conv2d_params *p, const refold_requant *requant,
                           const int8_t *in, int8_t *out, void *scratch,
                           const refold_moments *moments)
{
    (void)p, (void)requant, (void)in, (void)out, (void)scratch, (void)moments;
    return false;
}

#endif
