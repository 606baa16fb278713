/*
 * Which implementation of an operator runs: the only file that knows ISAs.
 *
 * A SIMD variant returns false where it declines: the CPU lacks the
 * instructions, or the shape is not one it handles. REFOLD_X86 and REFOLD_ESP32S3
 * say that the variants of kernels/x86 and kernels/esp32s3 are in the build;
 * REFOLD_NO_X86 and REFOLD_NO_ESP32S3 leave them unused.
 */
#include "refold/kernels.h"

#if defined REFOLD_X86 && !defined REFOLD_NO_X86
#include "kernels/x86/x86.h"
#define PREFER_X86(kernel, ...)   \
    if (kernel##_x86(__VA_ARGS__)) \
    return
#else
#define PREFER_X86(kernel, ...) (void)0
#endif

#if defined REFOLD_ESP32S3 && !defined REFOLD_NO_ESP32S3
#include "kernels/esp32s3/esp32s3.h"
#define PREFER_ESP32S3(kernel, ...)    \
    if (kernel##_esp32s3(__VA_ARGS__)) \
    return
#else
#define PREFER_ESP32S3(kernel, ...) (void)0
#endif

void refold_conv2d(const refold_conv2d_params *p, const refold_requant *requant,
                   const int8_t *in, int8_t *out, void *scratch,
                   const refold_moments *moments)
{
    PREFER_ESP32S3(refold_conv2d, p, requant, in, out, scratch, moments);
    PREFER_X86(refold_conv2d, p, requant, in, out, scratch, moments);
    refold_conv2d_ref(p, requant, in, out, scratch, moments);
}

void refold_dwconv2d(const refold_conv2d_params *p, const refold_requant *requant,
                     const int8_t *in, int8_t *out, void *scratch,
                     const refold_moments *moments)
{
    PREFER_ESP32S3(refold_dwconv2d, p, requant, in, out, scratch, moments);
    PREFER_X86(refold_dwconv2d, p, requant, in, out, scratch, moments);
    refold_dwconv2d_ref(p, requant, in, out, scratch, moments);
}

void refold_dense(const refold_dense_params *p, const int8_t *in, int8_t *out)
{
    PREFER_ESP32S3(refold_dense, p, in, out);
    PREFER_X86(refold_dense, p, in, out);
    refold_dense_ref(p, in, out);
}

void refold_dense_s32(const refold_dense_params *p, const int8_t *in, int32_t *out)
{
    PREFER_ESP32S3(refold_dense_s32, p, in, out);
    PREFER_X86(refold_dense_s32, p, in, out);
    refold_dense_s32_ref(p, in, out);
}

void refold_add(const refold_add_params *p, const int8_t *a, const int8_t *b, int8_t *out)
{
    PREFER_ESP32S3(refold_add, p, a, b, out);
    PREFER_X86(refold_add, p, a, b, out);
    refold_add_ref(p, a, b, out);
}

void refold_mul(const refold_mul_params *p, const int8_t *a, const int8_t *b, int8_t *out)
{
    refold_mul_ref(p, a, b, out);
}

void refold_max_pool(const refold_pool_params *p, const int8_t *in, int8_t *out)
{
    PREFER_ESP32S3(refold_max_pool, p, in, out);
    refold_max_pool_ref(p, in, out);
}

void refold_avg_pool(const refold_pool_params *p, const int8_t *in, int8_t *out)
{
    PREFER_ESP32S3(refold_avg_pool, p, in, out);
    PREFER_X86(refold_avg_pool, p, in, out);
    refold_avg_pool_ref(p, in, out);
}

void refold_concat(const refold_concat_params *p, const int8_t *const in[], int8_t *out)
{
    refold_concat_ref(p, in, out);
}

void refold_pick(const refold_pick_params *p, const int8_t *in, int8_t *out)
{
    refold_pick_ref(p, in, out);
}

void refold_table(const refold_table_params *p, const int8_t *in, int8_t *out)
{
    refold_table_ref(p, in, out);
}

void refold_input(const refold_input_table *p, const uint8_t *in, int8_t *out)
{
    refold_input_ref(p, in, out);
}
