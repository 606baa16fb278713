/*
 * A stream: its images arrive in chunks, run in order, and their results are
 * kept long enough to be asked for again. An image before `next` has run and is
 * never run again; whatever arrives for it gets the result that is kept.
 */
#include "session.h"

#include <string.h>

#include "../bytes.h"

/* Logits of one RESULT frame. */
#define LOGITS_PER_FRAME (REFOLD_CHUNK_BYTES / sizeof(int32_t))

/* Numbers before the current stream's that are late: of streams that have been. */
#define LATE_STREAMS 256

static refold_link_slot *slot_of(const refold_link *link, uint32_t index)
{
    return &link->slots[index % link->window];
}

static uint8_t *input_of(const refold_link *link, uint32_t index)
{
    size_t stride = REFOLD_LINK_ALIGN(link->model->input_bytes);

    return link->inputs + index % link->window * stride;
}

static refold_report *result_of(const refold_link *link, uint32_t index)
{
    return &link->results[index % (2 * link->window)];
}

static int32_t *logits_of(const refold_link *link, uint32_t index)
{
    size_t stride = REFOLD_LINK_ALIGN(link->model->output_count * sizeof(int32_t));

    return (int32_t *)(void *)(link->logits + index % (2 * link->window) * stride);
}

static bool is_complete(const refold_link *link, uint32_t index)
{
    return slot_of(link, index)->received == link->model->input_bytes;
}

static void begin_stream(refold_link *link, uint32_t stream)
{
    link->streaming = true;
    link->stream = stream;
    link->next = 0;
    refold_link_trace_off(link);
    memset(link->slots, 0, link->window * sizeof *link->slots);
}

/*
 * Whether `stream` is one from before the current one, whose frames come again late.
 * Begun anew it would have its images run, and absorbed, a second time.
 */
static bool is_late(const refold_link *link, uint32_t stream)
{
    return link->streaming && link->stream - stream - 1 < LATE_STREAMS;
}

void refold_link_configure(refold_link *link, const refold_frame *frame)
{
    const uint8_t *in = frame->payload;
    uint32_t stream = get_u32(in + REFOLD_FRAME_CONFIGURE_STREAM);
    uint8_t keep_state = in[REFOLD_FRAME_CONFIGURE_KEEP_STATE];
    refold_status status = REFOLD_OK;

    if (is_late(link, stream)) {
        status = REFOLD_ERROR_STREAM;
    } else if (!link->streaming || stream != link->stream) {
        refold_adapt_config config;

        config.method = in[REFOLD_FRAME_CONFIGURE_METHOD];
        config.stats = in[REFOLD_FRAME_CONFIGURE_STATS];
        config.rule = in[REFOLD_FRAME_CONFIGURE_RULE];
        config.gate = in[REFOLD_FRAME_CONFIGURE_GATE];
        config.interval = in[REFOLD_FRAME_CONFIGURE_INTERVAL];
        config.warm = get_u16(in + REFOLD_FRAME_CONFIGURE_WARM);
        config.shrinkage = get_f32(in + REFOLD_FRAME_CONFIGURE_SHRINKAGE);
        config.momentum = get_f32(in + REFOLD_FRAME_CONFIGURE_MOMENTUM);
        config.grade = get_f32(in + REFOLD_FRAME_CONFIGURE_GRADE);
        config.seed = get_u32(in + REFOLD_FRAME_CONFIGURE_SEED);
        config.dimension = get_u16(in + REFOLD_FRAME_CONFIGURE_DIMENSION);
        config.population = in[REFOLD_FRAME_CONFIGURE_POPULATION];
        config.window = in[REFOLD_FRAME_CONFIGURE_WINDOW];
        config.generations = get_u16(in + REFOLD_FRAME_CONFIGURE_GENERATIONS);
        config.sigma = get_f32(in + REFOLD_FRAME_CONFIGURE_SIGMA);
        config.lambda = get_f32(in + REFOLD_FRAME_CONFIGURE_LAMBDA);
        config.settle = get_f32(in + REFOLD_FRAME_CONFIGURE_SETTLE);
        config.shift = get_f32(in + REFOLD_FRAME_CONFIGURE_SHIFT);
        config.accept = get_f32(in + REFOLD_FRAME_CONFIGURE_ACCEPT);
        config.source = in[REFOLD_FRAME_CONFIGURE_SOURCE];
        memcpy(config.sites, in + REFOLD_FRAME_CONFIGURE_SITES, sizeof config.sites);
        status = keep_state > 1 ? REFOLD_ERROR_CONFIG
                                : refold_adapt_set(link->ctx, &config);
        if (status == REFOLD_OK) {
            if (!keep_state)
                refold_adapt_reset(link->ctx);
            begin_stream(link, stream);
        }
    }
    refold_frame_ack(link, frame->sequence, status);
}

static void send_result(refold_link *link, uint32_t index, uint16_t sequence)
{
    const refold_report *report = result_of(link, index);
    const int32_t *logits = logits_of(link, index);
    uint8_t *out = refold_frame_payload(link);
    uint32_t count = link->model->output_count;
    uint32_t offset = 0;

    do {
        uint32_t left = count - offset;
        uint32_t n = left < LOGITS_PER_FRAME ? left : LOGITS_PER_FRAME;

        put_u32(out + REFOLD_FRAME_RESULT_STREAM, link->stream);
        put_u32(out + REFOLD_FRAME_RESULT_INDEX, index);
        put_u32(out + REFOLD_FRAME_RESULT_INFER_US, report->infer_us);
        put_u32(out + REFOLD_FRAME_RESULT_ADAPT_US, report->adapt_us);
        put_u32(out + REFOLD_FRAME_RESULT_SEARCH_US, report->search_us);
        put_f32(out + REFOLD_FRAME_RESULT_SHIFT_SCORE, report->shift_score);
        out[REFOLD_FRAME_RESULT_ADAPTED] = report->adapted;
        out[REFOLD_FRAME_RESULT_GATE] = report->gate;
        put_u16(out + REFOLD_FRAME_RESULT_FORWARD_PASSES, report->forward_passes);
        put_u32(out + REFOLD_FRAME_RESULT_OFFSET, offset);
        for (uint32_t i = 0; i < n; i++)
            put_u32(out + REFOLD_FRAME_RESULT_LOGITS + 4 * i,
                    (uint32_t)logits[offset + i]);
        refold_frame_send(link, REFOLD_FRAME_RESULT, sequence,
                          REFOLD_FRAME_RESULT_BYTES + 4 * n);
        offset += n;
    } while (offset < count);
}

static void send_need(refold_link *link, uint32_t index, uint16_t sequence)
{
    uint8_t *out = refold_frame_payload(link);

    put_u32(out + REFOLD_FRAME_NEED_STREAM, link->stream);
    put_u32(out + REFOLD_FRAME_NEED_INDEX, index);
    put_u32(out + REFOLD_FRAME_NEED_OFFSET, slot_of(link, index)->received);
    slot_of(link, index)->asked = true;
    refold_frame_send(link, REFOLD_FRAME_NEED, sequence, REFOLD_FRAME_NEED_BYTES);
}

/* Bytes of image `index` came: what earlier images lack has been lost. */
static void ask_for_earlier(refold_link *link, uint32_t index, uint16_t sequence)
{
    for (uint32_t i = link->next; i != index; i++)
        if (!is_complete(link, i) && !slot_of(link, i)->asked)
            send_need(link, i, sequence);
}

/* Bytes from `offset` on of an image in the window; known ones are skipped. */
static void store(refold_link *link, uint32_t index, uint32_t offset,
                  const refold_frame *frame)
{
    const uint8_t *data = frame->payload + REFOLD_FRAME_INPUT_DATA;
    uint32_t end = offset + frame->bytes - REFOLD_FRAME_INPUT_BYTES;
    refold_link_slot *slot = slot_of(link, index);
    uint32_t received = slot->received;

    if (offset > received) {
        if (!slot->asked)
            send_need(link, index, frame->sequence);
    } else if (end > received) {
        memcpy(input_of(link, index) + received, data + (received - offset),
               end - received);
        slot->received = end;
        slot->sequence = frame->sequence;
        slot->asked = false;
    }
}

/* Whether the result of an image that has run is still kept. */
static bool is_kept(const refold_link *link, uint32_t index)
{
    return index < link->next && link->next - index <= 2 * link->window;
}

void refold_link_input(refold_link *link, const refold_frame *frame)
{
    uint32_t stream = get_u32(frame->payload + REFOLD_FRAME_INPUT_STREAM);
    uint32_t index = get_u32(frame->payload + REFOLD_FRAME_INPUT_INDEX);
    uint32_t offset = get_u32(frame->payload + REFOLD_FRAME_INPUT_OFFSET);
    uint32_t bytes = frame->bytes - REFOLD_FRAME_INPUT_BYTES;
    uint32_t total = link->model->input_bytes;

    if (bytes > REFOLD_CHUNK_BYTES || offset > total || bytes > total - offset) {
        refold_frame_ack(link, frame->sequence, REFOLD_ERROR_FRAME);
    } else if (!link->streaming || stream != link->stream) {
        refold_frame_ack(link, frame->sequence, REFOLD_ERROR_STREAM);
    } else if (is_kept(link, index)) {
        if (offset + bytes == total)
            send_result(link, index, frame->sequence);
    } else if (index - link->next < link->window) {
        ask_for_earlier(link, index, frame->sequence);
        store(link, index, offset, frame);
    } else {
        refold_frame_ack(link, frame->sequence, REFOLD_ERROR_STREAM);
    }
}

void refold_link_result_request(refold_link *link, const refold_frame *frame)
{
    uint32_t stream = get_u32(frame->payload + REFOLD_FRAME_RESULT_REQUEST_STREAM);
    uint32_t index = get_u32(frame->payload + REFOLD_FRAME_RESULT_REQUEST_INDEX);
    bool ours = link->streaming && stream == link->stream;

    if (ours && is_kept(link, index)) {
        send_result(link, index, frame->sequence);
    } else if (ours && index - link->next < link->window) {
        uint32_t first = link->next;

        while (first != index && is_complete(link, first))
            first++;
        /* Where nothing is lacking the result follows without being asked for. */
        if (!is_complete(link, first))
            send_need(link, first, frame->sequence);
    } else {
        refold_frame_ack(link, frame->sequence, REFOLD_ERROR_STREAM);
    }
}

bool refold_link_poll(refold_link *link)
{
    uint32_t index = link->next;
    refold_link_slot *slot = slot_of(link, index);
    refold_status status;

    if (!link->streaming || !is_complete(link, index))
        return false;
    refold_link_profile_begin(link);
    status = refold_infer(link->ctx, input_of(link, index), logits_of(link, index));
    refold_link_profile_end(link);
    if (status < 0) {
        /* Whether it was absorbed is unknown, so the stream cannot go on. */
        link->streaming = false;
        refold_frame_ack(link, slot->sequence, status);
        return true;
    }
    *result_of(link, index) = *refold_last(link->ctx);
    slot->received = 0;
    link->next++;
    send_result(link, index, slot->sequence);
    refold_adapt_search(link->ctx);
    return true;
}
