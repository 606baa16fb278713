/* Why and how often the chip has started. */
#ifndef REFOLD_STARTS_H
#define REFOLD_STARTS_H

#include <stdint.h>

/* REFOLD_RESET_REASON_* of this start. */
uint8_t refold_starts_reason(void);

/* Starts since power-on, this one included. Call it once. */
uint32_t refold_starts_count(void);

#endif
