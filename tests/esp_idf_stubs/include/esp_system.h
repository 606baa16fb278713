#ifndef STUB_ESP_SYSTEM_H
#define STUB_ESP_SYSTEM_H

#include <stdint.h>

#include "esp_err.h"

/* In the order of ESP-IDF 5.1, and what 5.2 added. */
typedef enum {
    ESP_RST_UNKNOWN,
    ESP_RST_POWERON,
    ESP_RST_EXT,
    ESP_RST_SW,
    ESP_RST_PANIC,
    ESP_RST_INT_WDT,
    ESP_RST_TASK_WDT,
    ESP_RST_WDT,
    ESP_RST_DEEPSLEEP,
    ESP_RST_BROWNOUT,
    ESP_RST_SDIO,
    ESP_RST_USB,
    ESP_RST_JTAG,
    ESP_RST_EFUSE,
    ESP_RST_PWR_GLITCH,
    ESP_RST_CPU_LOCKUP,
} esp_reset_reason_t;

esp_reset_reason_t esp_reset_reason(void);
uint32_t esp_get_free_heap_size(void);
void esp_system_abort(const char *details) __attribute__((noreturn));

#endif
