/* Frames: header, payload and CRC within COBS. Layouts: refold/frames.h. */
#ifndef REFOLD_LINK_FRAME_H
#define REFOLD_LINK_FRAME_H

#include "refold/frames.h"
#include "refold/link.h"

/* A received frame; the payload lies in link->in. */
typedef struct refold_frame {
    const uint8_t *payload;
    uint32_t bytes; /* of payload */
    uint16_t sequence;
    uint8_t version;
    uint8_t type;
} refold_frame;

/* Split the `bytes` decoded bytes of link->in; false where the CRC is wrong. */
bool refold_frame_open(const refold_link *link, size_t bytes, refold_frame *frame);

/* Where the payload of the next frame to send goes. */
uint8_t *refold_frame_payload(refold_link *link);

/* Send the payload that lies there, `bytes` bytes of it. */
void refold_frame_send(refold_link *link, uint8_t type, uint16_t sequence,
                       size_t bytes);

/* Send an ACK: the outcome of the frame of number `sequence`. */
void refold_frame_ack(refold_link *link, uint16_t sequence, refold_status status);

#endif
