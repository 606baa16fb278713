/*
 * The compiler's arithmetic helpers that Debian's libgcc for the lx106 leaves
 * out, because the ESP8266 has them in ROM: GCC calls them by these names for
 * operations the core has no instruction for.
 *
 * Floats are IEEE single precision, round to nearest even, subnormals kept.
 * Tests define REFOLD_HELPER to compare them with a host's own arithmetic.
 */
#ifndef REFOLD_XTENSA_QEMU_HELPERS_H
#define REFOLD_XTENSA_QEMU_HELPERS_H

#include <stdint.h>

#ifndef REFOLD_HELPER
#define REFOLD_HELPER(name) __##name
#endif

/* Division by zero gives UINT32_MAX and the numerator. */
uint32_t REFOLD_HELPER(udivsi3)(uint32_t numerator, uint32_t denominator);
uint32_t REFOLD_HELPER(umodsi3)(uint32_t numerator, uint32_t denominator);

/* The low 64 bits, which signed and unsigned factors share. */
uint64_t REFOLD_HELPER(muldi3)(uint64_t a, uint64_t b);

float REFOLD_HELPER(addsf3)(float a, float b);
float REFOLD_HELPER(subsf3)(float a, float b);
float REFOLD_HELPER(mulsf3)(float a, float b);
float REFOLD_HELPER(floatsisf)(int32_t value);
float REFOLD_HELPER(floatunsisf)(uint32_t value);

#endif
