/* A model for the native port over the stub runtime: 3,000 bytes in, 10 out. */
#ifndef MODEL_H
#define MODEL_H

#include "refold/model.h"

extern const refold_model refold_model_data;

#endif
