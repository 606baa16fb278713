/*
 * The chip's USB-Serial-JTAG controller: the connector marked USB.
 *
 * As in driver/uart.h, the waits of driver/usb_serial_jtag.h are a TickType_t up
 * to ESP-IDF 5.x and an uint32_t from 6.0 on.
 */
#include "wire.h"

#include "driver/usb_serial_jtag.h"
#include "esp_err.h"
#include "freertos/FreeRTOS.h"
#include "refold/link.h"
#include "sdkconfig.h"

/* The driver's ring takes a frame whole or not at all. */
#define SEND_RING_BYTES (2 * REFOLD_WIRE_BYTES)
/* A host that reads takes a frame in a few milliseconds. */
#define SEND_TICKS pdMS_TO_TICKS(100)

void refold_wire_open(void)
{
    usb_serial_jtag_driver_config_t config = {
        .tx_buffer_size = SEND_RING_BYTES,
        .rx_buffer_size = CONFIG_REFOLD_RX_RING_BYTES,
    };

    ESP_ERROR_CHECK(usb_serial_jtag_driver_install(&config));
}

size_t refold_wire_read(uint8_t *bytes, size_t capacity, uint32_t ticks)
{
    int count = usb_serial_jtag_read_bytes(bytes, (uint32_t)capacity, ticks);

    return count > 0 ? (size_t)count : 0;
}

void refold_wire_write(const void *data, size_t bytes)
{
    usb_serial_jtag_write_bytes(data, bytes, SEND_TICKS);
}
