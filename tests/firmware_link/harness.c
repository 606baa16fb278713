/* A link over the stub runtime, for ctypes: bytes in, bytes out. */
#define _XOPEN_SOURCE 600

#include <stdlib.h>
#include <string.h>

#include "refold/link.h"
#include "stub_runtime.h"

#define CANARY 0xA5
#define CANARY_BYTES 64

typedef void (*harness_write)(const void *data, size_t bytes);

typedef struct harness {
    refold_model model;
    refold_port port;
    refold_link link;
    uint8_t *memory; /* canary, link memory, canary */
    size_t bytes;    /* of the link memory */
} harness;

#define LAYERS 3

static uint32_t layer_ticks[LAYERS], asked;

/* Ticks that tell how often they were asked for: 1, 4, 9, ... */
static uint32_t squares(void)
{
    asked++;
    return asked * asked;
}

static void write_to_python(void *user, const void *data, size_t bytes)
{
    harness_write write;

    memcpy(&write, &user, sizeof write);
    write(data, bytes);
}

/* `window` of 0 gives the link one byte less than two images need. */
harness *harness_new(uint32_t input_bytes, uint32_t outputs, uint32_t state_bytes,
                     uint32_t window, harness_write write, int *status)
{
    harness *h = calloc(1, sizeof *h);
    refold_ctx *ctx;
    void *memory;

    h->model.abi = REFOLD_ABI;
    h->model.input_bytes = input_bytes;
    h->model.output_count = outputs;
    h->model.site_channels = state_bytes;
    h->model.activation_bytes = 4096;
    h->model.layer_count = LAYERS;
    h->model.site_count = 2;
    for (int i = 0; i < 32; i++)
        h->model.sha256[i] = (uint8_t)(0xE0 + i);
    h->port.write = write_to_python;
    memcpy(&h->port.user, &write, sizeof write);
    h->port.chip = "virtual";
    h->port.build_hash = "0123456789abcdef";
    h->port.reset_reason = REFOLD_RESET_REASON_POWER_ON;
    h->port.boot_count = 1;
    h->port.receive_bytes = 8192;
    h->port.code_bytes = 30000;
    h->port.layer_ticks = layer_ticks;
    h->port.ticks = squares;
    h->port.ticks_per_us = 240;
    h->port.ticks_kind = REFOLD_TICKS_CYCLES;
    asked = 0;
    h->bytes = window > 0 ? refold_link_bytes(&h->model, window)
                          : refold_link_bytes(&h->model, REFOLD_WINDOW_MIN) - 1;
    if (posix_memalign(&memory, REFOLD_ALIGNMENT, h->bytes + 2 * CANARY_BYTES) != 0)
        abort();
    h->memory = memset(memory, CANARY, h->bytes + 2 * CANARY_BYTES);
    refold_init(&ctx, &h->model, NULL, 0);
    *status = refold_link_init(&h->link, ctx, &h->model, &h->port,
                               h->memory + CANARY_BYTES, h->bytes);
    return h;
}

/* From now on the port keeps no times. */
void harness_without_times(harness *h)
{
    h->port.layer_ticks = NULL;
    h->port.ticks_per_us = 0;
    refold_set_trace(h->link.ctx, NULL, NULL);
}

void harness_free(harness *h)
{
    free(h->memory);
    free(h);
}

void harness_feed(harness *h, const void *bytes, size_t count)
{
    refold_link_feed(&h->link, bytes, count);
}

int harness_poll(harness *h)
{
    return refold_link_poll(&h->link);
}

void harness_log(harness *h, const char *text)
{
    refold_link_log(&h->link, text);
}

uint32_t harness_dropped(const harness *h)
{
    return h->link.dropped;
}

/* Is every byte around the link's memory as it was? */
int harness_intact(const harness *h)
{
    const uint8_t *after = h->memory + CANARY_BYTES + h->bytes;
    int wrong = 0;

    for (int i = 0; i < CANARY_BYTES; i++)
        wrong |= (h->memory[i] ^ CANARY) | (after[i] ^ CANARY);
    return !wrong;
}
