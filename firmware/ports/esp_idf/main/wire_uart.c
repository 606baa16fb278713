/*
 * UART0: the connector marked UART, through a USB bridge.
 *
 * uart_read_bytes waits with a TickType_t up to ESP-IDF 5.x and with an uint32_t
 * from 6.0 on (driver/uart.h), which is the same type on this chip. From 6.0 on
 * the header no longer brings FreeRTOS's.
 */
#include "wire.h"

#include "driver/uart.h"
#include "esp_err.h"
#include "freertos/FreeRTOS.h"
#include "refold/link.h"
#include "sdkconfig.h"

/* Frames that go out while an image runs. */
#define SEND_RING_BYTES (2 * REFOLD_WIRE_BYTES)
/* Of the 128 bytes of the FIFO. The driver's own 120 leave an interrupt 87 us at
 * 921600 baud before bytes are lost. */
#define INTERRUPT_AT_BYTES 64

void refold_wire_open(void)
{
    const uart_config_t config = {
        .baud_rate = CONFIG_REFOLD_BAUD,
        .data_bits = UART_DATA_8_BITS,
        .parity = UART_PARITY_DISABLE,
        .stop_bits = UART_STOP_BITS_1,
        .flow_ctrl = UART_HW_FLOWCTRL_DISABLE,
        .source_clk = UART_SCLK_DEFAULT,
    };

    ESP_ERROR_CHECK(uart_driver_install(UART_NUM_0, CONFIG_REFOLD_RX_RING_BYTES,
                                        SEND_RING_BYTES, 0, NULL, 0));
    ESP_ERROR_CHECK(uart_param_config(UART_NUM_0, &config));
    ESP_ERROR_CHECK(uart_set_rx_full_threshold(UART_NUM_0, INTERRUPT_AT_BYTES));
}

/* uart_read_bytes waits until all it was asked for is there: ask for one first. */
size_t refold_wire_read(uint8_t *bytes, size_t capacity, uint32_t ticks)
{
    int more;

    if (uart_read_bytes(UART_NUM_0, bytes, 1, ticks) < 1)
        return 0;
    more = uart_read_bytes(UART_NUM_0, bytes + 1, (uint32_t)capacity - 1, 0);
    return more > 0 ? 1 + (size_t)more : 1;
}

/* Returns within the time that the line takes: nothing holds it back. */
void refold_wire_write(const void *data, size_t bytes)
{
    uart_write_bytes(UART_NUM_0, data, bytes);
}
