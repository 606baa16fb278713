/*
 * The boards esp32s3-*: one task, pinned to a core, serves the link and runs the
 * images. It lets the core's idle task run after each of them, and feeds the task
 * watchdog, so that a start after a hang says so in its Hello.
 */
#include <stdio.h>

#include "esp_cpu.h"
#include "esp_heap_caps.h"
#include "esp_system.h"
#include "esp_task_wdt.h"
#include "esp_timer.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"
#include "sdkconfig.h"

#include "model.h"
#include "pins.h"
#include "refold/link.h"
#include "refold/refold.h"
#include "serve_mlperf.h"
#include "starts.h"
#include "storage.h"
#include "wire.h"

#if !defined REFOLD_BUILD_HASH || !defined REFOLD_HOT_BYTES
#error "the build includes the refold_build.h that `refold build` writes"
#endif

/* What comes while an image runs, and what is taken from it at a time. */
#define READ_BYTES 4096
#if CONFIG_REFOLD_RX_RING_BYTES < 4420 /* 2 * REFOLD_WIRE_BYTES */
#error "the receive ring holds fewer than two frames: raise REFOLD_RX_RING_BYTES"
#endif

#if CONFIG_REFOLD_ARENA_IN_PSRAM
#define ARENA_PLACE REFOLD_MEMORY_PSRAM
#else
#define ARENA_PLACE REFOLD_MEMORY_SRAM
#endif
#if CONFIG_REFOLD_LINK_IN_PSRAM
#define LINK_PLACE REFOLD_MEMORY_PSRAM
#else
#define LINK_PLACE REFOLD_MEMORY_SRAM
#endif

#define IDLE_TICKS pdMS_TO_TICKS(50)
#define SAVE_AFTER_US ((int64_t)CONFIG_REFOLD_SAVE_AFTER_S * 1000000)

typedef struct board {
    refold_port port;
    refold_link link;
    refold_ctx *ctx;
    bool can_save;
    bool unsaved;       /* the state has changed since it was saved */
    int64_t last_image; /* when, in microseconds since the start */
    uint8_t bytes[READ_BYTES];
} board;

/* refold_clock */
static uint32_t now_us(void)
{
    return (uint32_t)esp_timer_get_time();
}

/* refold_port.ticks */
static uint32_t cycles_now(void)
{
    return (uint32_t)esp_cpu_get_cycle_count();
}

/* refold_port.write */
static void write_frame(void *user, const void *data, size_t bytes)
{
    (void)user;
    refold_wire_write(data, bytes);
}

/* Without a context there is no link: repeat in plain words what is wrong. The host
 * shows the last 40 characters. */
static void fail(const char *what, long value)
{
    char text[64];
    int length = snprintf(text, sizeof text, "refold: %s %ld\n", what, value);

    for (;;) {
        refold_wire_write(text, (size_t)length);
        vTaskDelay(pdMS_TO_TICKS(1000));
    }
}

static void check(refold_status status, const char *what)
{
    if (status < 0)
        fail(what, status);
}

/* In the memory REFOLD_MEMORY_*. */
static void *allocate(size_t bytes, int memory)
{
    uint32_t where =
        memory == REFOLD_MEMORY_PSRAM ? MALLOC_CAP_SPIRAM : MALLOC_CAP_INTERNAL;
    void *block = heap_caps_aligned_alloc(REFOLD_ALIGNMENT, bytes,
                                          where | MALLOC_CAP_8BIT);

    if (block == NULL)
        fail("no room for a block of", (long)bytes);
    return block;
}

/* What Hello says of the present moment. */
static void look(board *b)
{
    b->port.free_heap = esp_get_free_heap_size();
    b->port.stack_free = uxTaskGetStackHighWaterMark(NULL);
}

static void start(board *b)
{
    static uint32_t layer_ticks[REFOLD_MODEL_LAYERS];
    const refold_model *model = &refold_model_data;
    size_t arena_bytes = refold_arena_bytes(model);
    size_t link_bytes = refold_link_bytes(model, CONFIG_REFOLD_WINDOW);
    void *arena = allocate(arena_bytes, ARENA_PLACE);

    b->port.write = write_frame;
    b->port.clock = now_us;
    b->port.chip = CONFIG_IDF_TARGET;
    b->port.build_hash = REFOLD_BUILD_HASH;
    b->port.reset_reason = refold_starts_reason();
    b->port.boot_count = refold_starts_count();
    b->port.receive_bytes = CONFIG_REFOLD_RX_RING_BYTES;
    b->port.arena_memory = ARENA_PLACE;
    b->port.hot_bytes = REFOLD_HOT_BYTES;
    b->port.layer_ticks = layer_ticks;
    b->port.ticks = cycles_now;
    b->port.ticks_per_us = CONFIG_ESP_DEFAULT_CPU_FREQ_MHZ;
    b->port.ticks_kind = REFOLD_TICKS_CYCLES;
    check(refold_init(&b->ctx, model, arena, arena_bytes), "refold_init returns");
    check(refold_link_init(&b->link, b->ctx, model, &b->port,
                           allocate(link_bytes, LINK_PLACE), link_bytes),
          "refold_link_init returns");
    refold_pins_open(b->ctx);
    b->can_save = refold_storage_open(b->ctx, model);
}

/* Flash is written while no image waits: writing stops the other core, too. */
static void save_when_quiet(board *b)
{
    if (!b->can_save || !b->unsaved || CONFIG_REFOLD_SAVE_AFTER_S == 0 ||
        esp_timer_get_time() - b->last_image < SAVE_AFTER_US)
        return;
    b->unsaved = false;
    if (!refold_storage_save(b->ctx))
        refold_link_log(&b->link, "the adaptation state could not be saved");
}

/* Serve the link for one round; returns whether an image was run. */
static bool serve(board *b, bool busy)
{
    size_t count = refold_wire_read(b->bytes, sizeof b->bytes, busy ? 0 : IDLE_TICKS);

    if (count > 0) {
        look(b);
        refold_link_feed(&b->link, b->bytes, count);
    }
    if (!refold_link_poll(&b->link))
        return false;
    b->unsaved = b->unsaved || refold_last(b->ctx)->adapted;
    b->last_image = esp_timer_get_time();
    return true;
}

#if CONFIG_REFOLD_PROTOCOL_MLPERF_TINY
static void run_mlperf(board *b)
{
    const refold_model *model = &refold_model_data;
    size_t bytes = REFOLD_MLPERF_BYTES(model->input_bytes, model->output_count);

    check(refold_serve_mlperf(b->ctx, model, now_us, allocate(bytes, LINK_PLACE), bytes),
          "refold_serve_mlperf returns");
}
#endif

static void run(void *unused)
{
    static board b;
    bool busy = false;

    (void)unused;
    refold_wire_open();
    start(&b);
    ESP_ERROR_CHECK(esp_task_wdt_add(NULL));
#if CONFIG_REFOLD_PROTOCOL_MLPERF_TINY
    run_mlperf(&b);
#endif
    for (;;) {
        busy = serve(&b, busy);
        if (busy)
            vTaskDelay(1);
        else
            save_when_quiet(&b);
        ESP_ERROR_CHECK(esp_task_wdt_reset());
    }
}

void app_main(void)
{
    if (xTaskCreatePinnedToCore(run, "refold", CONFIG_REFOLD_STACK_BYTES, NULL,
                                CONFIG_REFOLD_PRIORITY, NULL,
                                CONFIG_REFOLD_CORE) != pdPASS)
        esp_system_abort("refold: no memory for the task's stack");
}
