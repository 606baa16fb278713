/*
 * Arithmetic, one operation after the other, on pairs of words: floats as their
 * bits, integers as they are. Answers are 64 bits wide.
 *
 * As the compiler does it; with REFOLD_HELPER, by the functions of helpers.h
 * where it has one. Conversions whose result would not fit answer 0.
 */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include <stddef.h>
#include <stdint.h>

enum { OPERATIONS = 17 };

/* answers[i * OPERATIONS + k]: operation k of the pair pairs[2 * i], [2 * i + 1]. */
void operate(const uint32_t *pairs, size_t count, uint64_t *answers);

#endif
