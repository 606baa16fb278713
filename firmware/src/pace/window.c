#include "window.h"

#include "../fp32.h"

void refold_window_clear(refold_window *window)
{
    window->count = 0;
    for (uint32_t c = 0; c < window->channels; c++) {
        window->s1[c] = 0;
        window->s2[c] = 0;
    }
}

void refold_window_add(refold_window *window, const int64_t *s1, const int64_t *s2,
                       uint32_t pixels)
{
    window->count += pixels;
    for (uint32_t c = 0; c < window->channels; c++) {
        window->s1[c] += s1[c];
        window->s2[c] += s2[c];
    }
}

/*
 * Moments about an integer next to the mean, exact until the divisions. Rounding
 * leaves |f| < 0.51, and integers of mean f have a mean square of at least |f|, so
 * that the difference below loses little more than one bit.
 */
refold_channel_moments refold_window_moments(const refold_window *window, uint32_t c)
{
    int64_t n = window->count;
    int64_t s1 = window->s1[c];
    float count = (float)window->count;
    int64_t centre = refold_floor((float)s1 / count + 0.5f);
    int64_t squares = window->s2[c] - 2 * centre * s1 + n * centre * centre;
    float f = (float)(s1 - centre * n) / count;
    float h = 0.5f - refold_pow2(-(window->stat_shift + 1));
    refold_channel_moments moments;

    moments.mean = (float)centre + (f + h);
    moments.variance = (float)squares / count - f * f;
    return moments;
}
