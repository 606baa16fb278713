/* Does this build compute in IEEE single precision? Internal. */
#ifndef REFOLD_FLOAT_CHECK_H
#define REFOLD_FLOAT_CHECK_H

#include <stdbool.h>

/* Build with the flags of forge.c: it is their effect that is tested. */
bool refold_float_is_ieee(void);

#endif
