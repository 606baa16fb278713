/*
 * The serial line of the board: wire_uart.c or wire_usb.c, as Kconfig chooses.
 * Both receive into a ring of CONFIG_REFOLD_RX_RING_BYTES, also while an image
 * runs, and neither holds the sender back.
 */
#ifndef REFOLD_WIRE_H
#define REFOLD_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* Call once, from the task that reads: interrupts go to its core. Aborts where
 * the driver cannot be installed. */
void refold_wire_open(void);

/*
 * Bytes that have come, at most `capacity`. Waits up to `ticks` for the first;
 * returns 0 where none came.
 */
size_t refold_wire_read(uint8_t *bytes, size_t capacity, uint32_t ticks);

/* Send `bytes` bytes; drops them where the host does not take them. */
void refold_wire_write(const void *data, size_t bytes);

#endif
