/*
 * How far chance moves the difference of two losses measured on the same images.
 *
 * Internal. The images of a window are easy and hard alike for two candidates, so
 * that the noise of their difference is that of the differences, image by image.
 */
#ifndef REFOLD_PACE_PAIRED_H
#define REFOLD_PACE_PAIRED_H

#include <stdint.h>

/*
 * Standard error of the mean of b[i] - a[i], i < count: sqrt(variance / count), the
 * variance unbiased. FLT_MAX for less than two.
 */
float refold_paired_error(const float *a, const float *b, uint32_t count);

#endif
