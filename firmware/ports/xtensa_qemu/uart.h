/* The board's UART, polled: uart.c a 16550, uart_esp32s3.c the ESP32-S3's. */
#ifndef REFOLD_XTENSA_QEMU_UART_H
#define REFOLD_XTENSA_QEMU_UART_H

#include <stddef.h>
#include <stdint.h>

/* Call once, before any other. */
void refold_uart_init(void);

/* Bytes that have come, at most `capacity`; 0 where none have. */
size_t refold_uart_read(uint8_t *bytes, size_t capacity);

/* Send what the line takes; gives up on the rest once it has stuck for long. */
void refold_uart_write(const void *data, size_t bytes);

#endif
