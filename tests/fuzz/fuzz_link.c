/*
 * Untrusted bytes against the link, over the stub runtime.
 *
 * LLVMFuzzerTestOneInput is what libFuzzer calls; benchmarks/fuzz_link.py builds
 * and runs it. With -DFUZZ_MAIN the program drives itself, for a bounded test:
 *     fuzz_link SEED RUNS
 *
 * An input is a list of steps: a tag byte, a length byte, and so many bytes. The
 * tag chooses whether they reach the link as they are, as a frame that is sound, so
 * that fuzzing does not end at the CRC, or as one whose CRC is wrong.
 */
#define _XOPEN_SOURCE 600

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../firmware/src/crc32.h"
#include "../../firmware/src/link/cobs.h"
#include "refold/frames.h"
#include "refold/link.h"
#include "stub_runtime.h"

#define WINDOW 2
#define INPUT_BYTES 40
#define OUTPUTS 530 /* more than one RESULT frame */
#define STATE_BYTES 48
#define LAYERS 3
#define MEMORY_BYTES REFOLD_LINK_BYTES(WINDOW, INPUT_BYTES, OUTPUTS, STATE_BYTES)

typedef struct sink {
    size_t frames;
} sink;

static const refold_model model = {
    .abi = REFOLD_ABI,
    .input_bytes = INPUT_BYTES,
    .output_count = OUTPUTS,
    .site_channels = STATE_BYTES,
    .activation_bytes = 64,
    .layer_count = LAYERS,
};

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "violated: %s\n", what);
        abort();
    }
}

static uint32_t ticks(void)
{
    return 7;
}

/* Every write is one whole frame: no zero but the last byte. */
static void write_frame(void *user, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    sink *out = user;

    require(bytes >= 2 && bytes <= REFOLD_WIRE_BYTES, "a frame of legal size");
    require(memchr(p, 0, bytes) == p + bytes - 1, "one delimiter, at the end");
    out->frames++;
}

/* Feed without running; at most a whole window of answers to each byte. */
static void feed(refold_link *link, sink *out, const uint8_t *bytes, size_t count)
{
    uint32_t images = stub_images();

    for (size_t i = 0; i < count; i++) {
        out->frames = 0;
        refold_link_feed(link, bytes + i, 1);
        require(out->frames <= WINDOW, "bounded answers");
    }
    require(images == stub_images(), "feed runs nothing");
}

/* Feed `body` as a frame whose CRC differs by `error`. */
static void feed_frame(refold_link *link, sink *out, const uint8_t *body, size_t count,
                       uint32_t error)
{
    uint8_t frame[300], encoded[310];
    uint32_t crc = refold_crc32(0, body, count) ^ error;

    memcpy(frame, body, count);
    for (int i = 0; i < 4; i++)
        frame[count + (size_t)i] = (uint8_t)(crc >> 8 * i);
    feed(link, out, encoded, refold_cobs_encode(frame, count + 4, encoded));
}

/* All that outlives a frame: the link beyond its receiver, its memory, the state. */
typedef struct snapshot {
    refold_link link;
    uint8_t memory[MEMORY_BYTES], state[STATE_BYTES];
} snapshot;

static void take_snapshot(const refold_link *link, snapshot *taken)
{
    memset(taken, 0, sizeof *taken);
    memcpy(&taken->link, link, sizeof *link);
    memset(&taken->link, 0, offsetof(refold_link, out));
    memcpy(taken->memory, link->state, MEMORY_BYTES);
    refold_adapt_save(link->ctx, taken->state, STATE_BYTES);
}

/* Without a valid CRC nothing is answered and nothing changes. */
static void feed_damaged(refold_link *link, sink *out, const uint8_t *body,
                         size_t count, uint32_t error)
{
    static const uint8_t delimiter = 0;
    static snapshot before, after;
    uint32_t dropped;

    feed(link, out, &delimiter, 1); /* what came before may have been sound */
    take_snapshot(link, &before);
    dropped = link->dropped;
    feed_frame(link, out, body, count, error);
    take_snapshot(link, &after);
    require(link->dropped == dropped + 1, "a damaged frame is counted");
    require(memcmp(&before, &after, sizeof before) == 0, "a damaged frame is no event");
}

static void poll_all(refold_link *link)
{
    uint32_t before = stub_images();
    uint32_t next = link->next;

    for (uint32_t ran = 1; refold_link_poll(link); ran++) {
        require(ran <= WINDOW, "no more images than the window holds");
        require(stub_images() == before + ran, "one image a call");
        require(link->next == next + ran, "in order");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    refold_port port = {.chip = "fuzz", .build_hash = "0000000000000000"};
    uint32_t *layer_ticks = calloc(LAYERS, sizeof *layer_ticks);
    refold_link *link = malloc(sizeof *link);
    sink out = {0};
    refold_ctx *ctx;
    void *memory = NULL;

    require(link != NULL && layer_ticks != NULL &&
                posix_memalign(&memory, REFOLD_ALIGNMENT, MEMORY_BYTES) == 0,
            "memory");
    memset(memory, 0, MEMORY_BYTES);
    port.layer_ticks = layer_ticks;
    port.ticks = ticks;
    port.write = write_frame;
    port.user = &out;
    refold_init(&ctx, &model, NULL, 0);
    require(refold_link_init(link, ctx, &model, &port, memory, MEMORY_BYTES) ==
                REFOLD_OK,
            "init");
    while (size >= 2) {
        size_t count = data[1] < size - 2 ? data[1] : size - 2;

        if (data[0] % 4 == 0)
            feed(link, &out, data + 2, count);
        else if (data[0] % 16 == 1)
            feed_damaged(link, &out, data + 2, count, 1u + data[0]);
        else
            feed_frame(link, &out, data + 2, count, 0);
        if (data[0] % 3 != 0)
            poll_all(link);
        data += 2 + count;
        size -= 2 + count;
    }
    free(memory);
    free(link);
    free(layer_ticks);
    return 0;
}

#ifdef FUZZ_MAIN

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* A frame as a host would send it, mostly of stream 0 and of its first images. */
static size_t likely_frame(uint32_t *random, uint8_t *out)
{
    static const uint8_t types[] = {
        REFOLD_FRAME_HELLO_REQUEST,  REFOLD_FRAME_CONFIGURE,
        REFOLD_FRAME_INPUT,          REFOLD_FRAME_INPUT,
        REFOLD_FRAME_INPUT,          REFOLD_FRAME_RESULT_REQUEST,
        REFOLD_FRAME_STATE_READ,     REFOLD_FRAME_STATE_WRITE,
        REFOLD_FRAME_STATE_RESET,    REFOLD_FRAME_TRACE,
    };
    static const uint8_t sizes[] = {
        REFOLD_FRAME_HELLO_REQUEST_BYTES,   REFOLD_FRAME_CONFIGURE_BYTES,
        REFOLD_FRAME_INPUT_BYTES + 40,      REFOLD_FRAME_INPUT_BYTES + 20,
        REFOLD_FRAME_INPUT_BYTES + 7,       REFOLD_FRAME_RESULT_REQUEST_BYTES,
        REFOLD_FRAME_STATE_READ_BYTES,      REFOLD_FRAME_STATE_WRITE_BYTES + 24,
        REFOLD_FRAME_STATE_RESET_BYTES,     REFOLD_FRAME_TRACE_BYTES,
    };
    size_t kind = next_random(random) % sizeof types;
    size_t bytes = sizes[kind];

    out[0] = REFOLD_PROTOCOL;
    out[1] = types[kind];
    out[2] = out[3] = 0;
    for (size_t i = 0; i < bytes; i++)
        out[4 + i] = next_random(random) % 128 == 0;
    if (types[kind] == REFOLD_FRAME_INPUT) {
        out[4 + REFOLD_FRAME_INPUT_INDEX] = (uint8_t)(next_random(random) % 4);
        out[4 + REFOLD_FRAME_INPUT_OFFSET] = (uint8_t)(next_random(random) % 2 * 20);
    }
    if (types[kind] == REFOLD_FRAME_TRACE)
        out[4 + REFOLD_FRAME_TRACE_ON] = (uint8_t)(next_random(random) % 3);
    if (types[kind] == REFOLD_FRAME_CONFIGURE)
        out[4 + REFOLD_FRAME_CONFIGURE_INTERVAL] = 1;
    if (types[kind] == REFOLD_FRAME_STATE_WRITE) {
        uint8_t offset = next_random(random) % 2 ? STATE_BYTES / 2 : 0;

        out[4 + REFOLD_FRAME_STATE_WRITE_TOTAL] = STATE_BYTES;
        out[4 + REFOLD_FRAME_STATE_WRITE_OFFSET] = offset;
    }
    return 4 + bytes;
}

static size_t make_input(uint32_t *random, uint8_t *out, size_t capacity)
{
    size_t size = 0;

    while (size + 300 < capacity) {
        uint8_t *step = out + size;

        step[0] = (uint8_t)next_random(random);
        if (next_random(random) % 8 != 0) {
            step[1] = (uint8_t)likely_frame(random, step + 2);
        } else {
            step[1] = (uint8_t)next_random(random);
            for (size_t i = 0; i < step[1]; i++)
                step[2 + i] = (uint8_t)next_random(random);
        }
        if (next_random(random) % 4 == 0 && step[1] > 0)
            step[2 + next_random(random) % step[1]] ^= (uint8_t)next_random(random);
        size += 2u + step[1];
    }
    return size;
}

int main(int argc, char **argv)
{
    uint32_t random = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    unsigned long runs = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    unsigned long images = 0;
    static uint8_t input[8192];

    for (unsigned long run = 0; run < runs; run++) {
        LLVMFuzzerTestOneInput(input, make_input(&random, input, sizeof input));
        images += stub_images();
    }
    printf("%lu runs, %lu images\n", runs, images);
    return 0;
}

#endif
