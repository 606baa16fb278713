/*
 * The vector kernels of x86-64 machines, for the native board.
 *
 * Each function has the contract of its portable twin in refold/kernels.h and
 * returns false, having written nothing, where it does not handle the case;
 * the portable kernel runs then. Every file guards itself by the instruction
 * set that the compiler was given, so all of them may be compiled anywhere.
 *
 * No heap: a convolution takes REFOLD_X86_SLAB_BYTES + REFOLD_X86_PACK_BYTES
 * of stack and declines what does not fit; `scratch` is not used.
 */
#ifndef REFOLD_X86_H
#define REFOLD_X86_H

#include <stdbool.h>
#include <stdint.h>

#include "refold/kernels.h"

/* The instruction sets that have kernels of their own here. */
#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define REFOLD_X86_AVX512VNNI 1
#else
#define REFOLD_X86_AVX512VNNI 0
#endif
#if defined(__AVX2__)
#define REFOLD_X86_AVX2 1
#else
#define REFOLD_X86_AVX2 0
#endif

#define REFOLD_X86_SLAB_BYTES (128 * 1024)
#define REFOLD_X86_PACK_BYTES (144 * 1024)

bool refold_conv2d_x86(const refold_conv2d_params *p, const refold_requant *requant,
                       const int8_t *in, int8_t *out, void *scratch,
                       const refold_moments *moments);
bool refold_dwconv2d_x86(const refold_conv2d_params *p, const refold_requant *requant,
                         const int8_t *in, int8_t *out, void *scratch,
                         const refold_moments *moments);
bool refold_dense_x86(const refold_dense_params *p, const int8_t *in, int8_t *out);
bool refold_dense_s32_x86(const refold_dense_params *p, const int8_t *in, int32_t *out);
bool refold_add_x86(const refold_add_params *p, const int8_t *a, const int8_t *b,
                    int8_t *out);
bool refold_avg_pool_x86(const refold_pool_params *p, const int8_t *in, int8_t *out);

#endif
