#include "uart.h"

#if defined REFOLD_ESP32S3

#include <stdbool.h>

/*
 * UART0 of the ESP32-S3: Technical Reference Manual, chapter UART Controller. The
 * emulator takes bytes faster than any line, but refuses what its FIFO cannot hold.
 */
#define UART ((volatile uint32_t *)0x60000000u)

enum { FIFO = 0x00 / 4, CLOCK_DIVIDER = 0x14 / 4, STATUS = 0x1c / 4 };

#define FIFO_BYTES 128u
#define RECEIVED(status) ((status)&0x3ffu)
#define QUEUED(status) ((status) >> 16 & 0x3ffu)

/* Polls of a stuck line: some seconds. The host asks again for what is lost. */
#define POLLS_MAX 100000000u
/* 80 MHz / 8 = 10 Mbaud: the emulator's receiver waits as a line of that rate. */
#define DIVIDER 8u

void refold_uart_init(void)
{
    UART[CLOCK_DIVIDER] = DIVIDER;
}

size_t refold_uart_read(uint8_t *bytes, size_t capacity)
{
    size_t count = 0;

    while (count < capacity && RECEIVED(UART[STATUS]) > 0)
        bytes[count++] = (uint8_t)UART[FIFO];
    return count;
}

static bool sendable(void)
{
    for (uint32_t polls = 0; polls < POLLS_MAX; polls++)
        if (QUEUED(UART[STATUS]) < FIFO_BYTES)
            return true;
    return false;
}

void refold_uart_write(const void *data, size_t bytes)
{
    const uint8_t *next = data;

    for (size_t i = 0; i < bytes && sendable(); i++)
        UART[FIFO] = next[i];
}

#endif
