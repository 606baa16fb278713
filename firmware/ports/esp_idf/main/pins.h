/* Pins that show an instrument what the board does; Kconfig chooses them. */
#ifndef REFOLD_PINS_H
#define REFOLD_PINS_H

#include <stdbool.h>

#include "refold/refold.h"

/* Make the pins outputs, and let the context drive those of REFOLD_TRIGGER_*. */
void refold_pins_open(refold_ctx *ctx);

/* Whether timestamps are edges; and one of them, low for at least a microsecond. */
bool refold_pins_have_timestamp(void);
void refold_pins_timestamp(void *unused);

#endif
