/* Set up a link, and hand every sound frame to the function of its type. */
#include "refold/link.h"

#include <string.h>

#include "../bytes.h"
#include "cobs.h"
#include "session.h"

/* The types of frames that only devices send have this bit. */
#define FROM_DEVICE 0x80

typedef void (*handler)(refold_link *link, const refold_frame *frame);

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The build hash; digits that are missing or none read 0. */
static void put_hash(uint8_t *out, const char *digits)
{
    memset(out, 0, 8);
    for (int i = 0; i < 16 && hex_digit(digits[i]) >= 0; i++)
        out[i / 2] |= (uint8_t)(hex_digit(digits[i]) << (i % 2 ? 0 : 4));
}

static void hello(refold_link *link, const refold_frame *frame)
{
    const refold_model *model = link->model;
    const refold_port *port = link->port;
    uint8_t *out = refold_frame_payload(link);
    size_t chip = strlen(port->chip);

    memset(out, 0, REFOLD_FRAME_HELLO_BYTES);
    put_u16(out + REFOLD_FRAME_HELLO_ABI, REFOLD_ABI);
    put_hash(out + REFOLD_FRAME_HELLO_BUILD_HASH, port->build_hash);
    memcpy(out + REFOLD_FRAME_HELLO_MODEL_HASH, model->sha256, 32);
    memcpy(out + REFOLD_FRAME_HELLO_CHIP, port->chip, chip < 16 ? chip : 16);
    out[REFOLD_FRAME_HELLO_RESET_REASON] = port->reset_reason;
    put_u32(out + REFOLD_FRAME_HELLO_BOOT_COUNT, port->boot_count);
    put_u32(out + REFOLD_FRAME_HELLO_INPUT_BYTES, model->input_bytes);
    put_u16(out + REFOLD_FRAME_HELLO_OUTPUTS, (uint16_t)model->output_count);
    put_u16(out + REFOLD_FRAME_HELLO_LAYERS, model->layer_count);
    put_u16(out + REFOLD_FRAME_HELLO_SITES, model->site_count);
    out[REFOLD_FRAME_HELLO_WINDOW] = (uint8_t)link->window;
    put_u32(out + REFOLD_FRAME_HELLO_RECEIVE_BYTES, port->receive_bytes);
    put_u32(out + REFOLD_FRAME_HELLO_ARENA_BYTES, (uint32_t)refold_arena_bytes(model));
    put_u32(out + REFOLD_FRAME_HELLO_STATE_BYTES, link->state_bytes);
    put_u32(out + REFOLD_FRAME_HELLO_CODE_BYTES, port->code_bytes);
    put_u32(out + REFOLD_FRAME_HELLO_FREE_HEAP, port->free_heap);
    put_u32(out + REFOLD_FRAME_HELLO_STACK_FREE, port->stack_free);
    out[REFOLD_FRAME_HELLO_ARENA_MEMORY] = port->arena_memory;
    put_u32(out + REFOLD_FRAME_HELLO_HOT_BYTES, port->hot_bytes);
    refold_frame_send(link, REFOLD_FRAME_HELLO, frame->sequence,
                      REFOLD_FRAME_HELLO_BYTES);
}

/* Frame types that a device takes. */
static const struct {
    uint8_t type;
    bool open; /* at least one byte follows the fixed fields */
    uint16_t bytes;
    handler run;
} frames[] = {
#define TAKE(name, open, run) \
    {REFOLD_FRAME_##name, open, REFOLD_FRAME_##name##_BYTES, run}
    TAKE(INPUT, true, refold_link_input),
    TAKE(RESULT_REQUEST, false, refold_link_result_request),
    TAKE(HELLO_REQUEST, false, hello),
    TAKE(CONFIGURE, false, refold_link_configure),
    TAKE(STATE_READ, false, refold_link_state_read),
    TAKE(STATE_WRITE, true, refold_link_state_write),
    TAKE(STATE_RESET, false, refold_link_state_reset),
    TAKE(TRACE, false, refold_link_trace),
    TAKE(PROFILE_REQUEST, false, refold_link_profile_request),
#undef TAKE
};

/* The function for a frame, or NULL where the frame is malformed. */
static handler find(const refold_frame *frame)
{
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        if (frames[i].type == frame->type) {
            bool fits = frames[i].open ? frame->bytes > frames[i].bytes
                                       : frame->bytes == frames[i].bytes;

            return fits ? frames[i].run : NULL;
        }
    }
    return NULL;
}

static void take(refold_link *link, size_t bytes)
{
    refold_frame frame;
    handler run;

    if (!refold_frame_open(link, bytes, &frame) || (frame.type & FROM_DEVICE)) {
        link->dropped++;
        return;
    }
    run = frame.version == REFOLD_PROTOCOL ? find(&frame) : NULL;
    if (run != NULL) {
        run(link, &frame);
    } else {
        refold_frame_ack(link, frame.sequence, REFOLD_ERROR_FRAME);
    }
}

void refold_link_feed(refold_link *link, const void *bytes, size_t count)
{
    const uint8_t *p = bytes;

    while (count > 0) {
        refold_cobs_event event;
        size_t used = refold_cobs_decode(link, p, count, &event);

        p += used;
        count -= used;
        if (event == REFOLD_COBS_FRAME) {
            take(link, link->in_length);
        } else if (event == REFOLD_COBS_DAMAGED) {
            link->dropped++;
        }
        if (event != REFOLD_COBS_MORE)
            link->in_length = 0;
    }
}

void refold_link_log(refold_link *link, const char *text)
{
    size_t bytes = strlen(text);

    if (bytes > REFOLD_CHUNK_BYTES)
        bytes = REFOLD_CHUNK_BYTES;
    memcpy(refold_frame_payload(link) + REFOLD_FRAME_LOG_TEXT, text, bytes);
    refold_frame_send(link, REFOLD_FRAME_LOG, link->log_sequence++, bytes);
}

size_t refold_link_bytes(const refold_model *model, uint32_t window)
{
    return REFOLD_LINK_BYTES(window, model->input_bytes, model->output_count,
                             refold_adapt_state_bytes(model));
}

/* Cut `memory` into the arrays of the link; every one starts aligned. */
static void lay_out(refold_link *link, uint8_t *memory)
{
    uint32_t window = link->window;

    link->state = memory;
    memory += REFOLD_LINK_ALIGN(link->state_bytes);
    link->slots = (refold_link_slot *)(void *)memory;
    memory += window * REFOLD_LINK_ALIGN(sizeof *link->slots);
    link->results = (refold_report *)(void *)memory;
    memory += 2 * window * REFOLD_LINK_ALIGN(sizeof *link->results);
    link->inputs = memory;
    memory += window * REFOLD_LINK_ALIGN(link->model->input_bytes);
    link->logits = memory;
}

refold_status refold_link_init(refold_link *link, refold_ctx *ctx,
                               const refold_model *model, const refold_port *port,
                               void *memory, size_t bytes)
{
    size_t state_bytes = refold_adapt_state_bytes(model);
    size_t fixed = REFOLD_LINK_ALIGN(state_bytes);
    size_t image = REFOLD_LINK_IMAGE_BYTES(model->input_bytes, model->output_count);
    size_t window = bytes < fixed ? 0 : (bytes - fixed) / image;

    if ((uintptr_t)memory % REFOLD_ALIGNMENT != 0 || window < REFOLD_WINDOW_MIN)
        return REFOLD_ERROR_SIZE;
    memset(link, 0, sizeof *link);
    link->ctx = ctx;
    link->model = model;
    link->port = port;
    link->window = window < REFOLD_WINDOW_MAX ? (uint32_t)window : REFOLD_WINDOW_MAX;
    link->state_bytes = (uint32_t)state_bytes;
    lay_out(link, memory);
    refold_set_clock(ctx, port->clock);
    refold_link_profile_on(link);
    return REFOLD_OK;
}
