/*
 * Times of the last image's layers, taken by the trace hook. The hook costs each
 * layer one reading of the clock, so it is always on where the port keeps times.
 */
#include "session.h"

#include "../bytes.h"

/* Times of one PROFILE frame. */
#define TIMES_PER_FRAME (REFOLD_CHUNK_BYTES / sizeof(uint32_t))

/* refold_trace */
static void end_layer(void *user, uint16_t layer, const void *data, uint32_t bytes)
{
    refold_link *link = user;
    uint32_t now = link->port->ticks();

    (void)data, (void)bytes;
    link->port->layer_ticks[layer] = now - link->layer_began;
    link->layer_began = now;
}

void refold_link_profile_on(refold_link *link)
{
    refold_set_trace(link->ctx, link->port->layer_ticks != NULL ? end_layer : NULL, link);
}

void refold_link_profile_begin(refold_link *link)
{
    if (link->port->layer_ticks != NULL)
        link->image_began = link->layer_began = link->port->ticks();
}

void refold_link_profile_end(refold_link *link)
{
    if (link->port->layer_ticks != NULL)
        link->image_ticks = link->port->ticks() - link->image_began;
}

void refold_link_profile_request(refold_link *link, const refold_frame *frame)
{
    const refold_port *port = link->port;
    uint32_t layers = port->layer_ticks != NULL ? link->model->layer_count : 0;
    uint32_t first = get_u16(frame->payload + REFOLD_FRAME_PROFILE_REQUEST_FIRST);
    uint32_t count = first < layers ? layers - first : 0;
    uint8_t *out = refold_frame_payload(link);

    if (count > TIMES_PER_FRAME)
        count = TIMES_PER_FRAME;
    out[REFOLD_FRAME_PROFILE_KIND] = port->ticks_kind;
    put_u32(out + REFOLD_FRAME_PROFILE_TICKS_PER_US, port->ticks_per_us);
    put_u32(out + REFOLD_FRAME_PROFILE_IMAGE, link->image_ticks);
    put_u16(out + REFOLD_FRAME_PROFILE_LAYERS, (uint16_t)layers);
    put_u16(out + REFOLD_FRAME_PROFILE_FIRST, (uint16_t)first);
    for (uint32_t i = 0; i < count; i++)
        put_u32(out + REFOLD_FRAME_PROFILE_TIMES + 4 * i, port->layer_ticks[first + i]);
    refold_frame_send(link, REFOLD_FRAME_PROFILE, frame->sequence,
                      REFOLD_FRAME_PROFILE_BYTES + 4 * count);
}
