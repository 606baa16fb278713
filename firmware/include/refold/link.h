/*
 * The device side of the link: bytes in, bytes out, no I/O of its own.
 *
 *     static refold_link link;
 *     static uint8_t memory[REFOLD_LINK_BYTES(window, input_bytes, outputs,
 *                                             state_bytes)];
 *
 *     if (refold_link_init(&link, ctx, model, &port, memory, sizeof memory) < 0) ...
 *     for (;;) {
 *         refold_link_feed(&link, received, count);
 *         refold_link_poll(&link);
 *     }
 *
 * Frames and the order of events are described in docs/protocol.md.
 *
 * Bytes from the link are untrusted. Whatever arrives, in whatever pieces:
 *
 * 1. Nothing is written outside `refold_link` and `memory`.
 * 2. A frame that is cut, too long or fails its CRC is dropped unanswered; it
 *    changes nothing but the receive buffer and the count of dropped frames.
 * 3. So is a frame of a type that only devices send: an echo starts no dialogue.
 * 4. A sound frame that makes no sense is answered with an ACK and changes nothing.
 * 5. Every byte costs bounded work, every frame at most one image's answer or one
 *    NEED for each image of the window.
 * 6. refold_link_feed never runs an image; refold_link_poll runs at most one, and
 *    the search that it calls for.
 * 7. The images of a stream run in the order 0, 1, 2, ..., each exactly once and
 *    only with all of its bytes; of bytes sent twice the first stay. A stream with
 *    one of the 256 numbers before the current one's is not begun.
 * 8. A zero byte ends any disturbance: the frame after it is read whole.
 * 9. The adaptation state changes by images that run and by sound frames only; a
 *    state that is refused leaves that of a reset.
 *
 * Held to by tests/fuzz (1 to 7 and 9, under sanitizers) and tests/firmware_link.
 */
#ifndef REFOLD_LINK_H
#define REFOLD_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "refold/facts.h"
#include "refold/port.h"
#include "refold/refold.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Images that may be under way at once. */
#define REFOLD_WINDOW_MIN 2
#define REFOLD_WINDOW_MAX 255

/* Most bytes that COBS adds to `bytes` bytes, the delimiter not counted. */
#define REFOLD_COBS_OVERHEAD(bytes) ((bytes) / 254 + 1)
/* Longest frame on the wire. */
#define REFOLD_WIRE_BYTES \
    (REFOLD_FRAME_BYTES + REFOLD_COBS_OVERHEAD(REFOLD_FRAME_BYTES) + 1)

/* Reception of one input image. */
typedef struct refold_link_slot {
    uint32_t received; /* bytes present, from the first on without a gap */
    uint16_t sequence; /* of the frame that brought the last of them */
    bool asked;        /* NEED was sent since bytes last came */
} refold_link_slot;

/* Bytes of memory for `window` images; every argument may be a constant. */
#define REFOLD_LINK_ALIGN(bytes) \
    (((size_t)(bytes) + REFOLD_ALIGNMENT - 1) / REFOLD_ALIGNMENT * REFOLD_ALIGNMENT)
#define REFOLD_LINK_IMAGE_BYTES(input_bytes, outputs)                               \
    (REFOLD_LINK_ALIGN(input_bytes) + REFOLD_LINK_ALIGN(sizeof(refold_link_slot)) + \
     2 * REFOLD_LINK_ALIGN(sizeof(refold_report)) +                                 \
     2 * REFOLD_LINK_ALIGN((size_t)(outputs) * sizeof(int32_t)))
#define REFOLD_LINK_BYTES(window, input_bytes, outputs, state_bytes) \
    (REFOLD_LINK_ALIGN(state_bytes) +                                \
     (window)*REFOLD_LINK_IMAGE_BYTES(input_bytes, outputs))

/* Everything but `dropped` is private to firmware/src/link. */
typedef struct refold_link {
    uint32_t dropped; /* frames dropped unanswered, for a port to show */

    refold_ctx *ctx;
    const refold_model *model;
    const refold_port *port;

    /* The frame being received, and the one being sent. */
    uint8_t in[REFOLD_FRAME_BYTES];
    uint32_t in_length; /* bytes decoded so far */
    uint8_t in_left;    /* bytes due in the current COBS block */
    bool in_zero;       /* a zero goes before the next block */
    bool in_overrun;    /* longer than any frame: skip to the delimiter */
    uint8_t out[REFOLD_WIRE_BYTES];
    uint16_t log_sequence;

    /* The stream: images `next` to `next + window - 1` may arrive. */
    bool streaming;
    uint32_t stream;
    uint32_t next;
    uint32_t window;
    refold_link_slot *slots; /* [window], image i in slot i % window */
    uint8_t *inputs;         /* [window] of REFOLD_LINK_ALIGN(input_bytes) */
    refold_report *results;  /* [2 * window], kept for repeats */
    uint8_t *logits;         /* [2 * window] of int32 [outputs], aligned */

    /* The saved adaptation state on its way out or in. */
    uint8_t *state;
    uint32_t state_bytes;  /* of the longest record */
    uint32_t record_bytes; /* of the one under way */
    uint32_t state_filled; /* bytes of an upload present */
    uint8_t state_use;
    refold_status state_verdict; /* of the complete upload */

    /* Times of the last image. */
    uint32_t image_began, layer_began; /* ticks */
    uint32_t image_ticks;
} refold_link;

/* REFOLD_LINK_BYTES for `model`, where it is not known at compile time. */
size_t refold_link_bytes(const refold_model *model, uint32_t window);

/*
 * Prepare a link over a context that refold_init has built for `model`, and
 * give the context the port's clock. The window is as large as `memory`, which
 * is aligned to REFOLD_ALIGNMENT, allows. All pointers must outlive the link.
 * Where the port keeps layer times the context's trace hook is the link's.
 *
 * Returns REFOLD_ERROR_SIZE where memory is misaligned or holds fewer than
 * REFOLD_WINDOW_MIN images.
 */
refold_status refold_link_init(refold_link *link, refold_ctx *ctx,
                               const refold_model *model, const refold_port *port,
                               void *memory, size_t bytes);

/* Take received bytes, cut anywhere; answers what needs no inference. */
void refold_link_feed(refold_link *link, const void *bytes, size_t count);

/*
 * Run the next image, send its result, and search where a window is full. Returns
 * false where no image is complete.
 */
bool refold_link_poll(refold_link *link);

/* Send text for the host's log, cut off at REFOLD_CHUNK_BYTES. */
void refold_link_log(refold_link *link, const char *text);

#ifdef __cplusplus
}
#endif

#endif
