/* Controls of the runtime without a network; see stub_runtime.c. */
#ifndef STUB_RUNTIME_H
#define STUB_RUNTIME_H

#include "refold/refold.h"

/* Images run since refold_init. */
uint32_t stub_images(void);

/* Let refold_infer fail when it is given image number `image`. */
void stub_fail_at(uint32_t image);

#endif
