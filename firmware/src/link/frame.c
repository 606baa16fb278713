#include "frame.h"

#include "../crc32.h"
#include "../bytes.h"
#include "cobs.h"

#define VERSION 0
#define TYPE 1
#define SEQUENCE 2

/* A frame is built where COBS can encode it in place, to the front of `out`. */
#define BUILD REFOLD_COBS_OVERHEAD(REFOLD_FRAME_BYTES)

bool refold_frame_open(const refold_link *link, size_t bytes, refold_frame *frame)
{
    const uint8_t *in = link->in;
    size_t guarded = bytes - REFOLD_FRAME_CRC_BYTES;

    if (bytes < REFOLD_FRAME_HEADER_BYTES + REFOLD_FRAME_CRC_BYTES ||
        get_u32(in + guarded) != refold_crc32(0, in, guarded))
        return false;
    frame->version = in[VERSION];
    frame->type = in[TYPE];
    frame->sequence = get_u16(in + SEQUENCE);
    frame->payload = in + REFOLD_FRAME_HEADER_BYTES;
    frame->bytes = (uint32_t)(guarded - REFOLD_FRAME_HEADER_BYTES);
    return true;
}

uint8_t *refold_frame_payload(refold_link *link)
{
    return link->out + BUILD + REFOLD_FRAME_HEADER_BYTES;
}

void refold_frame_send(refold_link *link, uint8_t type, uint16_t sequence, size_t bytes)
{
    uint8_t *frame = link->out + BUILD;
    size_t guarded = REFOLD_FRAME_HEADER_BYTES + bytes;
    size_t wire;

    frame[VERSION] = REFOLD_PROTOCOL;
    frame[TYPE] = type;
    put_u16(frame + SEQUENCE, sequence);
    put_u32(frame + guarded, refold_crc32(0, frame, guarded));
    wire = refold_cobs_encode(frame, guarded + REFOLD_FRAME_CRC_BYTES, link->out);
    link->port->write(link->port->user, link->out, wire);
}

void refold_frame_ack(refold_link *link, uint16_t sequence, refold_status status)
{
    refold_frame_payload(link)[REFOLD_FRAME_ACK_STATUS] = (uint8_t)status;
    refold_frame_send(link, REFOLD_FRAME_ACK, sequence, REFOLD_FRAME_ACK_BYTES);
}
