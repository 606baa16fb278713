/*
 * What a port supplies to the link: where its bytes go, a clock, and who it is.
 */
#ifndef REFOLD_PORT_H
#define REFOLD_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "refold/refold.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Value of refold_port.receive_bytes where the transport holds the sender back. */
#define REFOLD_RECEIVE_UNLIMITED UINT32_MAX

typedef struct refold_port {
    /*
     * Send `bytes` bytes, one whole frame. Returns within a bounded time; what
     * cannot be sent by then is dropped, and the host asks for it again.
     */
    void (*write)(void *user, const void *data, size_t bytes);
    void *user;             /* passed to write */
    refold_clock clock;     /* NULL: all times read 0 */
    const char *chip;       /* ASCII; the first 16 characters are sent */
    const char *build_hash; /* 16 hexadecimal digits, given by the build */
    uint8_t reset_reason;   /* REFOLD_RESET_REASON_* */
    uint32_t boot_count;    /* starts since power-on, this one included */
    uint32_t receive_bytes; /* what the port can hold while an image runs */
    uint32_t code_bytes;    /* 0: unknown */
    uint32_t free_heap;     /* read at every HELLO; 0: no heap */
    uint32_t stack_free;    /* likewise: bytes that were never used; 0: unknown */
    uint8_t arena_memory;   /* REFOLD_MEMORY_* */
    uint32_t hot_bytes;     /* weights that lie in SRAM beside those in flash */

    /* For PROFILE. NULL: no times are kept. Otherwise one entry for each layer. */
    uint32_t *layer_ticks;
    refold_clock ticks;     /* what counts them; one layer's must not wrap */
    uint32_t ticks_per_us;  /* of it, at least 1 */
    uint8_t ticks_kind;     /* REFOLD_TICKS_* */
} refold_port;

#ifdef __cplusplus
}
#endif

#endif
