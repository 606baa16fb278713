#include "cobs.h"

#include <string.h>

/* A block is a code byte and at most so many others; a full one ends no zero. */
#define BLOCK_BYTES 254

/* Bytes of `p` before the first zero, or `count` where there is none. */
static size_t run_length(const uint8_t *p, size_t count)
{
    const uint8_t *zero = count > 0 ? memchr(p, 0, count) : NULL;

    return zero != NULL ? (size_t)(zero - p) : count;
}

size_t refold_cobs_encode(const uint8_t *in, size_t bytes, uint8_t *out)
{
    const uint8_t *end = in + bytes;
    uint8_t *start = out;
    bool more = true;

    while (more) {
        size_t left = (size_t)(end - in);
        size_t limit = left < BLOCK_BYTES ? left : BLOCK_BYTES;
        size_t run = run_length(in, limit);
        bool zero = run < limit;

        *out = (uint8_t)(run + 1);
        memmove(out + 1, in, run);
        out += run + 1;
        in += run + zero;
        more = zero || in < end;
    }
    *out++ = 0;
    return (size_t)(out - start);
}

static void append(refold_link *link, const uint8_t *bytes, size_t count)
{
    if (count > sizeof link->in - link->in_length) {
        link->in_overrun = true;
        return;
    }
    memcpy(link->in + link->in_length, bytes, count);
    link->in_length += (uint32_t)count;
}

static void begin_block(refold_link *link, uint8_t code)
{
    static const uint8_t zero = 0;

    if (link->in_zero)
        append(link, &zero, 1);
    link->in_left = (uint8_t)(code - 1);
    link->in_zero = code <= BLOCK_BYTES;
}

/* The delimiter came. Nothing at all before it is an idle line, not a frame. */
static refold_cobs_event end_frame(refold_link *link)
{
    bool damaged = link->in_overrun || link->in_left > 0;
    bool empty = link->in_length == 0 && !link->in_zero;

    link->in_left = 0;
    link->in_zero = false;
    link->in_overrun = false;
    if (damaged)
        return REFOLD_COBS_DAMAGED;
    return empty ? REFOLD_COBS_MORE : REFOLD_COBS_FRAME;
}

size_t refold_cobs_decode(refold_link *link, const uint8_t *bytes, size_t count,
                          refold_cobs_event *event)
{
    size_t used = 0;

    *event = REFOLD_COBS_MORE;
    while (used < count) {
        if (bytes[used] == 0) {
            *event = end_frame(link);
            return used + 1;
        }
        if (link->in_left == 0) {
            begin_block(link, bytes[used++]);
        } else {
            size_t left = count - used;
            size_t limit = left < link->in_left ? left : link->in_left;
            size_t run = run_length(bytes + used, limit);

            append(link, bytes + used, run);
            link->in_left = (uint8_t)(link->in_left - run);
            used += run;
        }
    }
    return used;
}
