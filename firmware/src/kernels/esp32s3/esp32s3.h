/*
 * The SIMD kernels of the ESP32-S3.
 *
 * Each function has the contract of its portable twin in refold/kernels.h and
 * returns false, having written nothing, where it does not handle the case;
 * the portable kernel runs then. They are in a build that defines
 * REFOLD_ESP32S3, on the chip as instructions, elsewhere through a C model of
 * them (pie_model.h).
 *
 * conv2d, dwconv2d and dense want `packed` weights, conv2d and dwconv2d as much
 * scratch as the functions here say.
 */
#ifndef REFOLD_ESP32S3_H
#define REFOLD_ESP32S3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "refold/kernels.h"

/* Declines: groups, statistics with a shift above 16, no packed weights. */
bool refold_conv2d_esp32s3(const refold_conv2d_params *p, const refold_requant *requant,
                           const int8_t *in, int8_t *out, void *scratch,
                           const refold_moments *moments);
size_t refold_conv2d_scratch_bytes_esp32s3(const refold_conv2d_params *p);

/* Declines as conv2d, and kernels of more than 31 taps: QACC could overflow. */
bool refold_dwconv2d_esp32s3(const refold_conv2d_params *p,
                             const refold_requant *requant, const int8_t *in,
                             int8_t *out, void *scratch, const refold_moments *moments);
size_t refold_dwconv2d_scratch_bytes_esp32s3(const refold_conv2d_params *p);

bool refold_dense_esp32s3(const refold_dense_params *p, const int8_t *in, int8_t *out);
bool refold_dense_s32_esp32s3(const refold_dense_params *p, const int8_t *in,
                              int32_t *out);

/* Declines a bias that no compiled model has, within 2^23 of the int32 range. */
bool refold_add_esp32s3(const refold_add_params *p, const int8_t *a, const int8_t *b,
                        int8_t *out);

/* Decline channel counts that are no multiple of 16. */
bool refold_max_pool_esp32s3(const refold_pool_params *p, const int8_t *in, int8_t *out);
/* Global pools alone, of up to 4095 pixels. */
bool refold_avg_pool_esp32s3(const refold_pool_params *p, const int8_t *in, int8_t *out);

/* Tensors are aligned by contract; what is not goes to the portable kernel. */
static inline bool refold_esp32s3_aligned(const void *a, const void *b)
{
    return (((uintptr_t)a | (uintptr_t)b) & (REFOLD_ALIGNMENT - 1)) == 0;
}

#endif
