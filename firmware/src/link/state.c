/*
 * Reading and writing the saved adaptation state in chunks. Both use one buffer,
 * so that a host reads a snapshot, whatever runs between its chunks.
 */
#include "session.h"

#include <stdbool.h>
#include <string.h>

#include "../bytes.h"

/* Values of refold_link.state_use. */
enum { IDLE, SNAPSHOT, UPLOAD };

static refold_status take_snapshot(refold_link *link)
{
    refold_status status = refold_adapt_save(link->ctx, link->state, link->state_bytes);

    link->record_bytes = (uint32_t)refold_adapt_record_bytes(link->ctx);
    link->state_use = status < 0 ? IDLE : SNAPSHOT;
    return status;
}

void refold_link_state_read(refold_link *link, const refold_frame *frame)
{
    uint32_t offset = get_u32(frame->payload + REFOLD_FRAME_STATE_READ_OFFSET);
    uint32_t length = get_u16(frame->payload + REFOLD_FRAME_STATE_READ_LENGTH);
    uint8_t *out = refold_frame_payload(link);
    refold_status status = REFOLD_OK;

    if (offset == 0) {
        status = take_snapshot(link);
    } else if (link->state_use != SNAPSHOT || offset > link->record_bytes) {
        status = REFOLD_ERROR_STATE;
    }
    if (status < 0) {
        refold_frame_ack(link, frame->sequence, status);
        return;
    }
    if (length > REFOLD_CHUNK_BYTES)
        length = REFOLD_CHUNK_BYTES;
    if (length > link->record_bytes - offset)
        length = link->record_bytes - offset;
    put_u32(out + REFOLD_FRAME_STATE_TOTAL, link->record_bytes);
    put_u32(out + REFOLD_FRAME_STATE_OFFSET, offset);
    memcpy(out + REFOLD_FRAME_STATE_DATA, link->state + offset, length);
    refold_frame_send(link, REFOLD_FRAME_STATE, frame->sequence,
                      REFOLD_FRAME_STATE_BYTES + length);
}

static void begin_upload(refold_link *link, uint32_t total)
{
    link->record_bytes = total;
    link->state_use = UPLOAD;
    link->state_filled = 0;
}

/* Store a chunk that fits; chunks come in order, and may come again. */
static refold_status upload(refold_link *link, uint32_t offset, const uint8_t *data,
                            uint32_t bytes)
{
    uint32_t end = offset + bytes;

    if (link->state_use != UPLOAD ||
        (end > link->state_filled && offset != link->state_filled))
        return REFOLD_ERROR_STATE;
    if (end > link->state_filled) {
        memcpy(link->state + offset, data, bytes);
        link->state_filled = end;
        if (link->state_filled == link->record_bytes) {
            link->state_verdict =
                refold_adapt_load(link->ctx, link->state, link->record_bytes);
        }
    }
    return end < link->record_bytes ? REFOLD_OK : link->state_verdict;
}

void refold_link_state_write(refold_link *link, const refold_frame *frame)
{
    uint32_t total = get_u32(frame->payload + REFOLD_FRAME_STATE_WRITE_TOTAL);
    uint32_t offset = get_u32(frame->payload + REFOLD_FRAME_STATE_WRITE_OFFSET);
    const uint8_t *data = frame->payload + REFOLD_FRAME_STATE_WRITE_DATA;
    uint32_t bytes = frame->bytes - REFOLD_FRAME_STATE_WRITE_BYTES;
    bool begun = link->state_use == UPLOAD && offset > 0;
    refold_status status;

    if (link->streaming && link->next > 0) {
        /* One that comes again late would undo what the images since have taught. */
        status = REFOLD_ERROR_STREAM;
    } else if (total != (begun ? link->record_bytes
                        : (uint32_t)refold_adapt_record_bytes(link->ctx))) {
        status = REFOLD_ERROR_STATE;
    } else if (offset > total || bytes > total - offset) {
        status = REFOLD_ERROR_FRAME;
    } else {
        if (offset == 0)
            begin_upload(link, total);
        status = upload(link, offset, data, bytes);
    }
    refold_frame_ack(link, frame->sequence, status);
}

void refold_link_state_reset(refold_link *link, const refold_frame *frame)
{
    refold_adapt_reset(link->ctx);
    refold_frame_ack(link, frame->sequence, REFOLD_OK);
}
