#ifndef STUB_ESP_ATTR_H
#define STUB_ESP_ATTR_H

/* A process has no memory that outlives it: the tests give it in a file. */
#define RTC_NOINIT_ATTR __attribute__((section("rtc_noinit")))
#define DRAM_ATTR __attribute__((section("dram1")))

#endif
