#include "serve_mlperf.h"

#include "esp_task_wdt.h"
#include "esp_timer.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"
#include "pins.h"
#include "sdkconfig.h"
#include "wire.h"

#ifndef CONFIG_REFOLD_MLPERF_MODEL
#define CONFIG_REFOLD_MLPERF_MODEL "custom"
#endif

#define READ_BYTES 128
#define IDLE_TICKS pdMS_TO_TICKS(50)
/* The core's idle task must run now and then; a tick in so long a time costs a
 * window of inferences no more than a hundredth. */
#define REST_EVERY_US 1000000

/* refold_mlperf_setup.write */
static void write_text(void *unused, const void *data, size_t bytes)
{
    (void)unused;
    refold_wire_write(data, bytes);
}

refold_status refold_serve_mlperf(refold_ctx *ctx, const refold_model *model,
                                  refold_clock clock, void *memory, size_t bytes)
{
    static refold_mlperf mlperf;
    static refold_mlperf_setup setup;
    uint8_t received[READ_BYTES];
    int64_t rested = 0;
    bool busy = false;
    refold_status status;

    setup.name = "refold-" CONFIG_IDF_TARGET;
    setup.model_id = CONFIG_REFOLD_MLPERF_MODEL;
    setup.write = write_text;
    setup.clock = clock;
    setup.timestamp = refold_pins_have_timestamp() ? refold_pins_timestamp : NULL;
    refold_set_trace(ctx, NULL, NULL); /* the link's times would be timed, too */
    status = refold_mlperf_init(&mlperf, ctx, model, &setup, memory, bytes);
    while (status == REFOLD_OK) {
        size_t count = refold_wire_read(received, sizeof received,
                                        busy ? 0 : IDLE_TICKS);

        refold_mlperf_feed(&mlperf, received, count);
        busy = refold_mlperf_poll(&mlperf);
        if (busy && esp_timer_get_time() - rested > REST_EVERY_US) {
            vTaskDelay(1);
            rested = esp_timer_get_time();
        }
        ESP_ERROR_CHECK(esp_task_wdt_reset());
    }
    return status;
}
