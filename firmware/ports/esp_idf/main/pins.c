#include "pins.h"

#include "driver/gpio.h"
#include "esp_err.h"
#include "esp_timer.h"
#include "sdkconfig.h"

#define NO_PIN (-1)
/* The protocol asks for 1; an instrument of 100,000 samples a second must see it. */
#define PULSE_US 30

static void make_output(int pin, int level)
{
    if (pin == NO_PIN)
        return;
    ESP_ERROR_CHECK(gpio_reset_pin((gpio_num_t)pin));
    ESP_ERROR_CHECK(gpio_set_direction((gpio_num_t)pin, GPIO_MODE_OUTPUT));
    ESP_ERROR_CHECK(gpio_set_level((gpio_num_t)pin, (uint32_t)level));
}

/* refold_trigger */
static void signal_pin(void *unused, uint8_t what, bool on)
{
    int pin = what == REFOLD_TRIGGER_INFER ? CONFIG_REFOLD_PIN_INFER
                                           : CONFIG_REFOLD_PIN_ADAPT;

    (void)unused;
    if (pin != NO_PIN)
        gpio_set_level((gpio_num_t)pin, on);
}

void refold_pins_open(refold_ctx *ctx)
{
    make_output(CONFIG_REFOLD_PIN_INFER, 0);
    make_output(CONFIG_REFOLD_PIN_ADAPT, 0);
    make_output(CONFIG_REFOLD_PIN_TIMESTAMP, 1);
    if (CONFIG_REFOLD_PIN_INFER != NO_PIN || CONFIG_REFOLD_PIN_ADAPT != NO_PIN)
        refold_set_trigger(ctx, signal_pin, NULL);
}

bool refold_pins_have_timestamp(void)
{
    return CONFIG_REFOLD_PIN_TIMESTAMP != NO_PIN;
}

void refold_pins_timestamp(void *unused)
{
    int64_t start = esp_timer_get_time();

    (void)unused;
    gpio_set_level((gpio_num_t)CONFIG_REFOLD_PIN_TIMESTAMP, 0);
    while (esp_timer_get_time() - start < PULSE_US)
        ;
    gpio_set_level((gpio_num_t)CONFIG_REFOLD_PIN_TIMESTAMP, 1);
}
