#include "shift.h"

#include "../fp32.h"

/*
 * Symmetric KL of N(m1, v1) and N(m2, v2): the published sum of fractions less 1,
 * rearranged so that nothing cancels where the two are close.
 */
static float divergence(float m1, float v1, float m2, float v2)
{
    float dv = v1 - v2;
    float dm = m1 - m2;

    return (dv * dv + (dm * dm) * (v1 + v2)) / (2.0f * v1 * v2);
}

float refold_shift_distance(const refold_shift *shift, const refold_window *window)
{
    float sum = 0.0f;

    if (shift->windows == 0)
        return 0.0f;
    for (uint32_t c = 0; c < shift->channels; c++) {
        refold_channel_moments now = refold_window_moments(window, c);
        float floor = shift->floor[c];

        sum = sum + divergence(now.mean, refold_fmax(now.variance, floor),
                               shift->mean[c],
                               refold_fmax(shift->variance[c], floor));
    }
    return sum / (float)shift->channels;
}

void refold_shift_absorb(refold_shift *shift, const refold_window *window)
{
    float keep = shift->keep;

    for (uint32_t c = 0; c < shift->channels; c++) {
        refold_channel_moments now = refold_window_moments(window, c);

        if (shift->windows == 0) {
            shift->mean[c] = now.mean;
            shift->variance[c] = now.variance;
        } else {
            shift->mean[c] = now.mean + keep * (shift->mean[c] - now.mean);
            shift->variance[c] =
                now.variance + keep * (shift->variance[c] - now.variance);
        }
    }
    shift->windows++;
}
