/*
 * As much of ESP-IDF as the port uses, on a PC: the serial line is the native
 * port's pseudo-terminal, NVS and what outlives a reset are files.
 *
 *     board [--pty]
 *
 * In the environment: STUB_FOLDER, where the files lie; STUB_RESET, the number of
 * the reset reason; STUB_HEAP, bytes of one piece that can be allocated.
 * Like the native board it ends when its standard input closes.
 */
#define _XOPEN_SOURCE 700

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "driver/gpio.h"
#include "driver/uart.h"
#include "driver/usb_serial_jtag.h"
#include "esp_cpu.h"
#include "esp_heap_caps.h"
#include "esp_system.h"
#include "esp_task_wdt.h"
#include "esp_timer.h"
#include "nvs.h"
#include "nvs_flash.h"

#define PATH_BYTES 4096
#define FREE_HEAP 200000
#define STACK_FREE 1234

void app_main(void);

/* The linker's names for the ends of the section. */
extern char __start_rtc_noinit[], __stop_rtc_noinit[];

static refold_channel channel = {.listener = -1, .client = -1};
static int receive_ring; /* bytes, of the driver that is installed; 0: none is */
static bool watched, fed;

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value != NULL ? value : otherwise;
}

static const char *path_of(const char *name)
{
    static char path[PATH_BYTES];

    snprintf(path, sizeof path, "%s/%s", setting("STUB_FOLDER", "."), name);
    return path;
}

static size_t read_file(const char *name, void *data, size_t capacity)
{
    FILE *file = fopen(path_of(name), "rb");
    size_t bytes = file != NULL ? fread(data, 1, capacity, file) : 0;

    if (file != NULL)
        fclose(file);
    return bytes;
}

static bool write_file(const char *name, const void *data, size_t bytes)
{
    FILE *file = fopen(path_of(name), "wb");
    bool whole = file != NULL && fwrite(data, 1, bytes, file) == bytes;

    return file != NULL && fclose(file) == 0 && whole;
}

static void append_file(const char *name, const void *data, size_t bytes)
{
    FILE *file = fopen(path_of(name), "ab");

    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
        refold_native_fail("cannot write %s", path_of(name));
}

void stub_check(esp_err_t status, const char *what)
{
    if (status != ESP_OK)
        refold_native_fail("%s returns %d", what, status);
}

/* --- system ---------------------------------------------------------------- */

esp_reset_reason_t esp_reset_reason(void)
{
    return (esp_reset_reason_t)atoi(setting("STUB_RESET", "1"));
}

uint32_t esp_get_free_heap_size(void)
{
    return FREE_HEAP;
}

void esp_system_abort(const char *details)
{
    refold_native_fail("%s", details);
    abort();
}

esp_cpu_cycle_count_t esp_cpu_get_cycle_count(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now); /* 240 MHz */
    return (uint32_t)now.tv_sec * 240000000u + (uint32_t)(now.tv_nsec * 24 / 100);
}

/* --- pins: a line for each change, into the file "pins" ------------------------- */

esp_err_t gpio_reset_pin(gpio_num_t pin)
{
    (void)pin;
    return ESP_OK;
}

esp_err_t gpio_set_direction(gpio_num_t pin, gpio_mode_t mode)
{
    (void)pin;
    return mode == GPIO_MODE_OUTPUT ? ESP_OK : ESP_FAIL;
}

esp_err_t gpio_set_level(gpio_num_t pin, uint32_t level)
{
    char line[64];
    int bytes = snprintf(line, sizeof line, "%lld %d %u\n",
                         (long long)esp_timer_get_time(), pin, (unsigned)level);

    append_file("pins", line, (size_t)bytes);
    return ESP_OK;
}

int64_t esp_timer_get_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void *heap_caps_aligned_alloc(size_t alignment, size_t size, uint32_t caps)
{
    void *memory;

    if (caps == 0 || size > (size_t)atol(setting("STUB_HEAP", "1000000000")))
        return NULL;
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

esp_err_t esp_task_wdt_add(TaskHandle_t task_handle)
{
    watched = task_handle == NULL;
    return ESP_OK;
}

esp_err_t esp_task_wdt_reset(void)
{
    fed = true;
    return watched ? ESP_OK : ESP_FAIL;
}

/* --- tasks ----------------------------------------------------------------- */

typedef struct start {
    TaskFunction_t task;
    void *parameters;
} start;

static void *enter(void *given)
{
    start *s = given;

    s->task(s->parameters);
    return NULL;
}

BaseType_t xTaskCreatePinnedToCore(TaskFunction_t task, const char *name,
                                   uint32_t stack_bytes, void *parameters,
                                   UBaseType_t priority, TaskHandle_t *created,
                                   BaseType_t core)
{
    static start s;
    pthread_t thread;

    (void)created;
    s = (start){task, parameters};
    return name != NULL && stack_bytes > 0 && priority > 0 && core >= 0 &&
           pthread_create(&thread, NULL, enter, &s) == 0;
}

void vTaskDelay(TickType_t ticks)
{
    struct timespec wait = {ticks / 1000, (long)(ticks % 1000) * 1000000};

    nanosleep(&wait, NULL);
}

UBaseType_t uxTaskGetStackHighWaterMark(TaskHandle_t task)
{
    return task == NULL ? STACK_FREE : 0;
}

/* --- serial line ----------------------------------------------------------- */

static int receive(void *buf, uint32_t length, uint32_t ticks)
{
    struct pollfd fd = {channel.client, POLLIN, 0};

    if (receive_ring == 0)
        refold_native_fail("the driver is read before it is installed");
    poll(&fd, 1, (int)ticks);
    return (int)refold_channel_read(&channel, buf, length);
}

static int send_bytes(const void *src, size_t size)
{
    refold_channel_write(&channel, src, size);
    return (int)size;
}

esp_err_t uart_driver_install(uart_port_t uart_num, int rx_buffer_size,
                              int tx_buffer_size, int queue_size,
                              QueueHandle_t *uart_queue, int intr_alloc_flags)
{
    receive_ring = rx_buffer_size;
    return uart_num == UART_NUM_0 && tx_buffer_size > 0 && queue_size == 0 &&
                   uart_queue == NULL && intr_alloc_flags == 0
               ? ESP_OK
               : ESP_FAIL;
}

esp_err_t uart_param_config(uart_port_t uart_num, const uart_config_t *uart_config)
{
    return uart_num == UART_NUM_0 && uart_config->baud_rate > 0 ? ESP_OK : ESP_FAIL;
}

/* Of a FIFO of 128 bytes. */
esp_err_t uart_set_rx_full_threshold(uart_port_t uart_num, int threshold)
{
    return uart_num == UART_NUM_0 && threshold > 0 && threshold < 128 ? ESP_OK : ESP_FAIL;
}

/* As the driver does: waits until `length` bytes have come or time is up. */
int uart_read_bytes(uart_port_t uart_num, void *buf, uint32_t length,
                    uint32_t ticks_to_wait)
{
    int count = 0, more;

    (void)uart_num;
    do {
        more = receive((char *)buf + count, length - (uint32_t)count, ticks_to_wait);
        count += more;
    } while (more > 0 && count < (int)length);
    return count;
}

int uart_write_bytes(uart_port_t uart_num, const void *src, size_t size)
{
    (void)uart_num;
    return send_bytes(src, size);
}

esp_err_t usb_serial_jtag_driver_install(usb_serial_jtag_driver_config_t *config)
{
    receive_ring = (int)config->rx_buffer_size;
    return config->tx_buffer_size > 0 ? ESP_OK : ESP_FAIL;
}

int usb_serial_jtag_read_bytes(void *buf, uint32_t length, uint32_t ticks_to_wait)
{
    return receive(buf, length, ticks_to_wait);
}

int usb_serial_jtag_write_bytes(const void *src, size_t size, uint32_t ticks_to_wait)
{
    return ticks_to_wait > 0 ? send_bytes(src, size) : 0;
}

/* --- NVS ------------------------------------------------------------------- */

static bool ready;

/* A file "nvs_full" stands for a partition that another program has filled. */
esp_err_t nvs_flash_init(void)
{
    ready = access(path_of("nvs_full"), F_OK) != 0;
    return ready ? ESP_OK : ESP_ERR_NVS_NO_FREE_PAGES;
}

esp_err_t nvs_flash_erase(void)
{
    return unlink(path_of("nvs_full")) == 0 ? ESP_OK : ESP_FAIL;
}

esp_err_t nvs_open(const char *namespace_name, nvs_open_mode_t open_mode,
                   nvs_handle_t *out_handle)
{
    *out_handle = 1;
    return ready && namespace_name[0] != '\0' && open_mode == NVS_READWRITE ? ESP_OK
                                                                            : ESP_FAIL;
}

esp_err_t nvs_get_blob(nvs_handle_t handle, const char *key, void *out_value,
                       size_t *length)
{
    *length = read_file(key, out_value, *length);
    return handle != 1 ? ESP_FAIL : *length > 0 ? ESP_OK : ESP_ERR_NVS_NOT_FOUND;
}

esp_err_t nvs_set_blob(nvs_handle_t handle, const char *key, const void *value,
                       size_t length)
{
    return handle == 1 && write_file(key, value, length) ? ESP_OK : ESP_FAIL;
}

esp_err_t nvs_commit(nvs_handle_t handle)
{
    return handle == 1 ? ESP_OK : ESP_FAIL;
}

/* --- process --------------------------------------------------------------- */

static size_t noinit_bytes(void)
{
    return (size_t)(__stop_rtc_noinit - __start_rtc_noinit);
}

int main(void)
{
    char ignored[64];

    read_file("rtc", __start_rtc_noinit, noinit_bytes());
    refold_channel_open_pty(&channel);
    fflush(stdout);
    app_main();
    while (read(STDIN_FILENO, ignored, sizeof ignored) > 0)
        continue;
    write_file("rtc", __start_rtc_noinit, noinit_bytes());
    if (!fed)
        refold_native_fail("nobody fed the watchdog");
    return EXIT_SUCCESS;
}
