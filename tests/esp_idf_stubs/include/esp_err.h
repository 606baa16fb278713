#ifndef STUB_ESP_ERR_H
#define STUB_ESP_ERR_H

#include <stdint.h>

typedef int esp_err_t;

#define ESP_OK 0
#define ESP_FAIL (-1)

void stub_check(esp_err_t status, const char *what);

#define ESP_ERROR_CHECK(x) stub_check((x), #x)

#endif
