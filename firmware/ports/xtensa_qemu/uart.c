#include "uart.h"

#if !defined REFOLD_ESP32S3

#include <stdbool.h>

/* QEMU's xtfpga boards without an MMU: the 16550's registers, 32 bits apart. */
#define UART ((volatile uint32_t *)0x9d050020u)

enum { DATA = 0, FIFO_CONTROL = 2, LINE_STATUS = 5 };

#define FIFO_ENABLE 0x01u
#define RECEIVED 0x01u
#define SENDABLE 0x20u

/* Polls of a stuck line: some seconds. The host asks again for what is lost. */
#define POLLS_MAX 100000000u

void refold_uart_init(void)
{
    UART[FIFO_CONTROL] = FIFO_ENABLE;
}

size_t refold_uart_read(uint8_t *bytes, size_t capacity)
{
    size_t count = 0;

    while (count < capacity && (UART[LINE_STATUS] & RECEIVED) != 0)
        bytes[count++] = (uint8_t)UART[DATA];
    return count;
}

static bool sendable(void)
{
    for (uint32_t polls = 0; polls < POLLS_MAX; polls++)
        if ((UART[LINE_STATUS] & SENDABLE) != 0)
            return true;
    return false;
}

void refold_uart_write(const void *data, size_t bytes)
{
    const uint8_t *next = data;

    for (size_t i = 0; i < bytes && sendable(); i++)
        UART[DATA] = next[i];
}

#endif
