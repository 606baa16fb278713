/*
 * Every layer's output while an image runs. Nothing is stored: each chunk leaves
 * before the next layer overwrites its source, so it can be sent once only. A host
 * that lost one sets the state back and sends the image again in another stream.
 */
#include "session.h"

#include <string.h>

#include "../bytes.h"

static void send_chunk(refold_link *link, uint16_t layer, uint32_t offset,
                       const void *data, uint32_t bytes)
{
    uint8_t *out = refold_frame_payload(link);

    put_u32(out + REFOLD_FRAME_TENSOR_STREAM, link->stream);
    put_u32(out + REFOLD_FRAME_TENSOR_INDEX, link->next);
    put_u16(out + REFOLD_FRAME_TENSOR_LAYER, layer);
    put_u32(out + REFOLD_FRAME_TENSOR_OFFSET, offset);
    memcpy(out + REFOLD_FRAME_TENSOR_DATA, data, bytes);
    refold_frame_send(link, REFOLD_FRAME_TENSOR, 0, REFOLD_FRAME_TENSOR_BYTES + bytes);
}

static void send_tensor(void *user, uint16_t layer, const void *data, uint32_t bytes)
{
    const uint8_t *source = data;

    for (uint32_t offset = 0; offset < bytes; offset += REFOLD_CHUNK_BYTES) {
        uint32_t left = bytes - offset;
        uint32_t count = left < REFOLD_CHUNK_BYTES ? left : REFOLD_CHUNK_BYTES;

        send_chunk(user, layer, offset, source + offset, count);
    }
}

void refold_link_trace(refold_link *link, const refold_frame *frame)
{
    uint8_t on = frame->payload[REFOLD_FRAME_TRACE_ON];

    if (on > 1) {
        refold_frame_ack(link, frame->sequence, REFOLD_ERROR_FRAME);
        return;
    }
    if (on)
        refold_set_trace(link->ctx, send_tensor, link);
    else
        refold_link_trace_off(link);
    refold_frame_ack(link, frame->sequence, REFOLD_OK);
}

void refold_link_trace_off(refold_link *link)
{
    refold_link_profile_on(link);
}
