/*
 * Consistent Overhead Byte Stuffing: a frame without zero bytes, so that a zero
 * can end it. Source: S. Cheshire and M. Baker, IEEE/ACM Transactions on
 * Networking 7(2), 1999.
 */
#ifndef REFOLD_LINK_COBS_H
#define REFOLD_LINK_COBS_H

#include "refold/link.h"

typedef enum refold_cobs_event {
    REFOLD_COBS_MORE,   /* no frame has ended */
    REFOLD_COBS_FRAME,  /* link->in holds link->in_length bytes */
    REFOLD_COBS_DAMAGED /* a frame ended that is too long or cut */
} refold_cobs_event;

/*
 * Encode `bytes` bytes of `in` into `out` and add the delimiter. `out` may be
 * the REFOLD_COBS_OVERHEAD(bytes) bytes before `in` and what follows.
 * Returns the bytes written.
 */
size_t refold_cobs_encode(const uint8_t *in, size_t bytes, uint8_t *out);

/*
 * Decode received bytes into link->in, up to the first delimiter. Returns the
 * bytes used. After a frame the caller sets link->in_length to 0.
 */
size_t refold_cobs_decode(refold_link *link, const uint8_t *bytes, size_t count,
                          refold_cobs_event *event);

#endif
