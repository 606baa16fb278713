#include "starts.h"

#include "esp_attr.h"
#include "esp_system.h"
#include "refold/facts.h"

/* Memory that resets leave alone and power-on fills at random. */
static RTC_NOINIT_ATTR uint32_t count, complement;

uint8_t refold_starts_reason(void)
{
    /* Reasons that came after ESP-IDF 5.1 (esp_system.h: USB, JTAG, EFUSE,
     * PWR_GLITCH, CPU_LOCKUP) are left to `default`. */
    switch (esp_reset_reason()) {
    case ESP_RST_POWERON:
        return REFOLD_RESET_REASON_POWER_ON;
    case ESP_RST_SW:
        return REFOLD_RESET_REASON_SOFTWARE;
    case ESP_RST_PANIC:
        return REFOLD_RESET_REASON_PANIC;
    case ESP_RST_INT_WDT:
    case ESP_RST_TASK_WDT:
    case ESP_RST_WDT:
        return REFOLD_RESET_REASON_WATCHDOG;
    case ESP_RST_BROWNOUT:
        return REFOLD_RESET_REASON_BROWNOUT;
    case ESP_RST_DEEPSLEEP:
        return REFOLD_RESET_REASON_DEEP_SLEEP;
    default:
        return REFOLD_RESET_REASON_UNKNOWN;
    }
}

uint32_t refold_starts_count(void)
{
    /* The reset button is told as power-on, too: ask the memory, not the reason. */
    count = count == ~complement ? count + 1 : 1;
    complement = ~count;
    return count;
}
