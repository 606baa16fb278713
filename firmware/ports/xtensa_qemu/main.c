/*
 * Boards xtensa-qemu and esp32s3-qemu: the firmware as Xtensa machine code without
 * an operating system, in QEMU's lx60-nommu with an lx106 core, and in Espressif's
 * QEMU of an ESP32-S3.
 *
 * One host, one run: the emulator is started for a session and ended after it.
 * The UART of the emulator holds its sender back, so no byte is lost while an
 * image runs, and credits need not count bytes.
 */
#include <string.h>

#include "model.h"
#include "refold/link.h"
#include "refold/refold.h"
#include "uart.h"

#ifndef REFOLD_BUILD_HASH
#error "the build passes its hash: -DREFOLD_BUILD_HASH=\"<16 hex digits>\""
#endif

/* The image that runs, the next one, and two on their way. */
#define WINDOW 4
/* The saved state is smaller than the arena, which holds what is saved. */
#define LINK_BYTES                                                         \
    REFOLD_LINK_BYTES(WINDOW, REFOLD_MODEL_INPUT_BYTES, REFOLD_MODEL_OUTPUTS, \
                      REFOLD_MODEL_ARENA_BYTES)

#if defined REFOLD_ESP32S3
#define CHIP "esp32s3"
#else
#define CHIP "lx106"
#endif

/* Of both cores as QEMU has them: CCOUNT counts at 40 MHz of emulated time. */
#define CYCLES_A_US 40u

/* What start.S calls and supplies; the services are QEMU's for Xtensa. */
int main(void);
void refold_board_panic(uint32_t cause, uint32_t pc);
uint32_t refold_board_simcall(uint32_t service, uintptr_t a, uintptr_t b, uintptr_t c);

enum { SERVICE_EXIT = 1, SERVICE_WRITE = 4 };

#define STANDARD_ERROR 2

static REFOLD_ALIGNED uint8_t arena[REFOLD_MODEL_ARENA_BYTES];
static REFOLD_ALIGNED uint8_t link_memory[LINK_BYTES];
static uint32_t layer_ticks[REFOLD_MODEL_LAYERS];

/* To the emulator's standard error: the UART's bytes may not outlive it. */
static void say(const char *text)
{
    refold_board_simcall(SERVICE_WRITE, STANDARD_ERROR, (uintptr_t)text, strlen(text));
}

static void stop(void)
{
    say("\n");
    for (;;)
        refold_board_simcall(SERVICE_EXIT, 1, 0, 0);
}

static void say_hex(uint32_t value)
{
    char digits[] = " 0x00000000";

    for (int i = 10; value != 0; i--, value >>= 4)
        digits[i] = "0123456789abcdef"[value & 15];
    say(digits);
}

void refold_board_panic(uint32_t cause, uint32_t pc)
{
    say("panic: exception cause");
    say_hex(cause);
    say(" at");
    say_hex(pc);
    stop();
}

static void check(refold_status status, const char *what)
{
    if (status >= 0)
        return;
    say("panic: ");
    say(what);
    say(" returns");
    say_hex((uint32_t)(int32_t)status);
    stop();
}

/* refold_port.ticks */
static uint32_t cycles_now(void)
{
    uint32_t cycles;

    __asm__ volatile("rsr %0, ccount" : "=a"(cycles));
    return cycles;
}

/* refold_clock; CCOUNT wraps within two minutes, which one image must not take. */
static uint32_t now_us(void)
{
    static uint32_t counted, us;
    uint32_t whole = (cycles_now() - counted) / CYCLES_A_US;

    counted += whole * CYCLES_A_US;
    us += whole;
    return us;
}

/* refold_port.write */
static void write_frame(void *user, const void *data, size_t bytes)
{
    (void)user;
    refold_uart_write(data, bytes);
}

static const refold_port port = {
    .write = write_frame,
    .clock = now_us,
    .chip = CHIP,
    .build_hash = REFOLD_BUILD_HASH,
    .reset_reason = REFOLD_RESET_REASON_POWER_ON,
    .boot_count = 1,
    .receive_bytes = REFOLD_RECEIVE_UNLIMITED,
    .layer_ticks = layer_ticks,
    .ticks = cycles_now,
    .ticks_per_us = CYCLES_A_US,
    .ticks_kind = REFOLD_TICKS_CYCLES,
};

int main(void)
{
    static refold_link link;
    const refold_model *model = &refold_model_data;
    size_t link_bytes = refold_link_bytes(model, WINDOW);
    uint8_t bytes[256];
    refold_ctx *ctx;

    refold_uart_init();
    check(refold_init(&ctx, model, arena, sizeof arena), "refold_init");
    check(link_bytes <= sizeof link_memory ? REFOLD_OK : REFOLD_ERROR_SIZE,
          "refold_link_bytes");
    check(refold_link_init(&link, ctx, model, &port, link_memory, link_bytes),
          "refold_link_init");
    for (;;) {
        refold_link_feed(&link, bytes, refold_uart_read(bytes, sizeof bytes));
        refold_link_poll(&link);
        now_us(); /* sees every wrap of CCOUNT */
    }
}
