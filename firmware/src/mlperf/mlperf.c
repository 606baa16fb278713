/* The device: collects commands, keeps time, and runs an INFER image by image. */
#include "refold/mlperf.h"

#include <string.h>

#include "commands.h"
#include "line.h"

/* Of a probability in Q15, rounded to the nearest. */
static uint32_t thousandths(uint16_t probability)
{
    return (1000u * probability + (1u << 14)) >> 15;
}

static void ready(refold_mlperf *m)
{
    refold_mlperf_say(m, "m-ready");
}

/* Microseconds since the start; the clock wraps, they do not. */
static uint64_t now_us(refold_mlperf *m)
{
    uint32_t read = m->setup->clock();

    m->us += (uint32_t)(read - m->clock_read);
    m->clock_read = read;
    return m->us;
}

void refold_mlperf_timestamp(refold_mlperf *m)
{
    if (m->setup->timestamp != NULL) {
        m->setup->timestamp(m->setup->user);
        return;
    }
    refold_mlperf_text(m, "m-lap-us-");
    refold_mlperf_number(m, now_us(m));
    refold_mlperf_end_line(m);
}

/* Flushed value by value: the line may be longer than its buffer. */
void refold_mlperf_results(refold_mlperf *m)
{
    refold_mlperf_text(m, "m-results-[");
    for (uint32_t i = 0; i < m->outputs; i++) {
        if (i > 0)
            refold_mlperf_text(m, ",");
        refold_mlperf_thousandths(m, thousandths(m->probabilities[i]));
        refold_mlperf_flush(m);
    }
    refold_mlperf_say(m, "]");
}

static void start_measuring(refold_mlperf *m)
{
    refold_mlperf_say(m, "m-warmup-done");
    refold_mlperf_text(m, "m-infer-start-");
    refold_mlperf_number(m, m->images);
    refold_mlperf_end_line(m);
    refold_mlperf_timestamp(m);
}

void refold_mlperf_begin(refold_mlperf *m, uint32_t images, uint32_t warmups)
{
    m->running = true;
    m->has_results = false;
    m->images = m->left = images;
    m->warmups_left = warmups;
    refold_mlperf_text(m, "m-warmup-start-");
    refold_mlperf_number(m, warmups);
    refold_mlperf_end_line(m);
    if (warmups == 0)
        start_measuring(m);
}

static void finish(refold_mlperf *m)
{
    refold_mlperf_timestamp(m);
    m->running = false;
    m->has_results = true;
    refold_softmax(m->model->softmax, m->logits, m->outputs, m->probabilities);
    refold_mlperf_say(m, "m-infer-done");
    refold_mlperf_results(m);
    ready(m);
}

static void give_up(refold_mlperf *m)
{
    m->running = false;
    refold_mlperf_say(m, "e-[The inference failed]");
    ready(m);
}

bool refold_mlperf_poll(refold_mlperf *m)
{
    if (!m->running)
        return false;
    if (refold_infer(m->ctx, m->input, m->logits) < 0) {
        give_up(m);
    } else if (m->warmups_left > 0) {
        if (--m->warmups_left == 0)
            start_measuring(m);
    } else if (--m->left == 0) {
        finish(m);
    } else {
        now_us(m);
    }
    return true;
}

static void take(refold_mlperf *m, char c)
{
    if (c == '\r' || c == '\n' || c == '\0')
        return; /* what a terminal adds */
    if (c != '%') {
        if (m->length < REFOLD_MLPERF_COMMAND_BYTES)
            m->command[m->length++] = c;
        else
            m->overrun = true;
        return;
    }
    m->command[m->length] = '\0';
    if (refold_mlperf_obey(m))
        ready(m);
    m->length = 0;
    m->overrun = false;
}

void refold_mlperf_feed(refold_mlperf *m, const void *bytes, size_t count)
{
    const char *p = bytes;

    now_us(m);
    for (size_t i = 0; i < count && !m->running; i++)
        take(m, p[i]);
}

static void announce(refold_mlperf *m)
{
    bool energy = m->setup->timestamp != NULL;

    refold_mlperf_say(m, energy ? "m-timestamp-mode-energy"
                                : "m-timestamp-mode-performance");
    refold_mlperf_timestamp(m);
    refold_mlperf_say(m, "m-init-done");
    ready(m);
}

refold_status refold_mlperf_init(refold_mlperf *m, refold_ctx *ctx,
                                 const refold_model *model,
                                 const refold_mlperf_setup *setup, void *memory,
                                 size_t bytes)
{
    uint8_t *next = memory;

    if ((uintptr_t)memory % REFOLD_ALIGNMENT != 0 ||
        bytes < REFOLD_MLPERF_BYTES(model->input_bytes, model->output_count))
        return REFOLD_ERROR_SIZE;
    memset(m, 0, sizeof *m);
    m->ctx = ctx;
    m->model = model;
    m->setup = setup;
    m->outputs = model->layers[model->outputs[0].layer].out_elements;
    m->input = next;
    next += REFOLD_MLPERF_ALIGN(model->input_bytes);
    m->logits = (int32_t *)(void *)next;
    next += REFOLD_MLPERF_ALIGN(model->output_count * sizeof *m->logits);
    m->probabilities = (uint16_t *)(void *)next;
    m->clock_read = setup->clock();
    refold_set_clock(ctx, setup->clock);
    announce(m);
    return REFOLD_OK;
}
