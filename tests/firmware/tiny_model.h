/* Two small models; see tiny_model.c. */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include "refold/arena.h"
#include "refold/refold.h"

#define TINY_INPUT_BYTES 72
#define TINY_OUTPUTS 3
#define TINY_ARENA_BYTES REFOLD_ARENA_BYTES(380, 34, REFOLD_ADAPT_BYTES(14, 6, 3))

extern const refold_model tiny_model;
extern const refold_model tiny_int8_model;

#endif
