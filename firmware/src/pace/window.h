/*
 * Exact sums over a window of images, and the moments of one channel of them.
 *
 * Internal. Sums are integers, so neither the order of images nor the platform
 * matters; only the last step, from sums to moments, rounds.
 */
#ifndef REFOLD_PACE_WINDOW_H
#define REFOLD_PACE_WINDOW_H

#include <stdint.h>

/* Sums of a = sat16(acc >> stat_shift), or of int8 features with stat_shift 0. */
typedef struct refold_window {
    uint32_t channels;
    uint32_t count;            /* n: values summed a channel, images * pixels, < 2^31 */
    uint8_t stat_shift;
    int64_t *s1;               /* [channels] sum of a */
    int64_t *s2;               /* [channels] sum of a*a */
} refold_window;

typedef struct refold_channel_moments {
    float mean;                /* of a, the floor of >> undone: + 1/2 - 2^-(k+1) */
    float variance;            /* of a, biased (/n), >= 0 */
} refold_channel_moments;

/* Empties the sums; channels and stat_shift stay. */
void refold_window_clear(refold_window *window);

/* Adds one image's sums s1, s2 [channels] over `pixels` values a channel. */
void refold_window_add(refold_window *window, const int64_t *s1, const int64_t *s2,
                       uint32_t pixels);

/*
 * Moments of channel c; count > 0. Variance within 4 ulp, mean within 2^-23 *
 * (1 + |mean|), however far the mean lies from 0.
 */
refold_channel_moments refold_window_moments(const refold_window *window, uint32_t c);

#endif
