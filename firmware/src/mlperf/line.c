#include "line.h"

#include <string.h>

/* Room that is kept for the end of the line. */
#define END "\r\n"
#define TEXT_MAX (REFOLD_MLPERF_LINE_BYTES - (sizeof END - 1))

void refold_mlperf_text(refold_mlperf *m, const char *text)
{
    size_t bytes = strlen(text);
    size_t room = TEXT_MAX - m->line_length;

    if (bytes > room)
        bytes = room;
    memcpy(m->line + m->line_length, text, bytes);
    m->line_length += (uint32_t)bytes;
}

void refold_mlperf_number(refold_mlperf *m, uint64_t value)
{
    char digits[21];
    char *p = digits + sizeof digits - 1;

    *p = '\0';
    do {
        *--p = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    refold_mlperf_text(m, p);
}

void refold_mlperf_hex(refold_mlperf *m, uint8_t value)
{
    static const char digit[] = "0123456789abcdef";
    char digits[] = {digit[value >> 4], digit[value & 15], '\0'};

    refold_mlperf_text(m, digits);
}

void refold_mlperf_thousandths(refold_mlperf *m, uint32_t value)
{
    char digits[] = ".000";

    refold_mlperf_number(m, value / 1000);
    value %= 1000;
    for (int i = 3; i > 0; i--, value /= 10)
        digits[i] = (char)('0' + value % 10);
    refold_mlperf_text(m, digits);
}

void refold_mlperf_flush(refold_mlperf *m)
{
    m->setup->write(m->setup->user, m->line, m->line_length);
    m->line_length = 0;
}

void refold_mlperf_end_line(refold_mlperf *m)
{
    memcpy(m->line + m->line_length, END, sizeof END - 1);
    m->line_length += (uint32_t)(sizeof END - 1);
    refold_mlperf_flush(m);
}

void refold_mlperf_say(refold_mlperf *m, const char *text)
{
    refold_mlperf_text(m, text);
    refold_mlperf_end_line(m);
}
