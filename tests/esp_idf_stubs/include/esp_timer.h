#ifndef STUB_ESP_TIMER_H
#define STUB_ESP_TIMER_H

#include <stdint.h>

int64_t esp_timer_get_time(void);

#endif
