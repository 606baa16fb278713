/* A model by hand, for tests of the host: 12 pixels, 3 logits, no sites. */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include "refold/model.h"

#define REFOLD_MODEL_INPUT_BYTES 12
#define REFOLD_MODEL_OUTPUTS 3
#define REFOLD_MODEL_LAYERS 1
#define REFOLD_MODEL_ARENA_BYTES 8192

extern const refold_model refold_model_data;

#endif
