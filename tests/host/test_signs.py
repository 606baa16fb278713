"""What a chip says when it fails: recognised, and told apart."""

from __future__ import annotations

import pytest

from refold.facts import ResetReason
from refold.signs import remedy_of, telling_lines


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Guru Meditation Error: Core  0 panic'ed (LoadProhibited).", "PANIC"),
        ("Guru Meditation Error: Core  1 panic'ed (Interrupt wdt timeout", "WATCHDOG"),
        ("E (5010) task_wdt: Task watchdog got triggered. The foll", "WATCHDOG"),
        ("abort() was called at PC 0x42008a1f on core 0", "PANIC"),
        ("assert failed: xQueueSemaphoreTake queue.c:1545 (( pxQueue ))", "PANIC"),
        ("***ERROR*** A stack overflow in task main has been detected.", "PANIC"),
        ("Stack smashing protect failure!", "PANIC"),
        ("Brownout detector was triggered", "BROWNOUT"),
        ("rst:0xf (RTCWDT_BROWN_OUT_RST),boot:0x8 (SPI_FAST_FLASH_BOOT)", "BROWNOUT"),
        ("rst:0x17 (POWER_GLITCH_RST),boot:0x8", "BROWNOUT"),
        ("rst:0x8 (TG1WDT_SYS_RST),boot:0x8 (SPI_FAST_FLASH_BOOT)", "WATCHDOG"),
        ("rst:0x10 (RTCWDT_RTC_RST),boot:0x8", "WATCHDOG"),
        ("rst:0x1 (POWERON),boot:0x8 (SPI_FAST_FLASH_BOOT)", "POWER_ON"),
        ("rst:0x5 (DEEPSLEEP),boot:0x8", "DEEP_SLEEP"),
        ("rst:0x15 (USB_UART_CHIP_RESET),boot:0x8", "SOFTWARE"),
        ("rst:0xc (RTC_SW_CPU_RST),boot:0x8", "SOFTWARE"),
    ],
)
def test_lines_and_reasons(line: str, reason: str) -> None:
    """Words of ESP-IDF and of the ROM; the cause counts, not how it was handled."""
    text = f"ESP-ROM:esp32s3-20210327\r\n{line}\r\nload:0x3fce3808,len:0x4bc\r\n"
    assert [(line, ResetReason[reason])] == list(telling_lines(text))


def test_the_order_is_kept() -> None:
    """The first line is the cause, the boot after it the consequence."""
    text = "\0Guru Meditation Error\n\nrst:0xc (RTC_SW_CPU_RST),boot:0x8\n"
    reasons = [reason for _, reason in telling_lines(text)]
    assert [ResetReason.PANIC, ResetReason.SOFTWARE] == reasons


@pytest.mark.parametrize("text", ["", "I (312) main: wdt is fed", "rst:", "\\xff\\x00"])
def test_other_words_tell_nothing(text: str) -> None:
    """Ordinary log lines and damaged bytes are no signs."""
    assert [] == list(telling_lines(text))


@pytest.mark.parametrize(
    "reason", ["disconnect", "silent", *(reason.name.lower() for reason in ResetReason)]
)
def test_every_reason_has_a_remedy(reason: str) -> None:
    """A message never ends without what to do."""
    assert remedy_of(reason)
