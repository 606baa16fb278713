/*
 * Untrusted characters against the device of MLPerf Tiny, over the stub runtime.
 *
 * LLVMFuzzerTestOneInput is what libFuzzer calls:
 *     clang -fsanitize=fuzzer,address,undefined fuzz_mlperf.c ...
 * With -DFUZZ_MAIN the program drives itself, for a bounded test:
 *     fuzz_mlperf SEED RUNS
 */
#define _XOPEN_SOURCE 600

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "refold/mlperf.h"
#include "stub_runtime.h"

#define INPUT_BYTES 40
#define OUTPUTS 70 /* more than one line's buffer */
#define IMAGES_MAX 300 /* of one INFER: a fuzzer soon asks for billions */

static const refold_softmax_table softmax = {.exp = {32768}, .shift = 31};
static const refold_layer layer = {.out_elements = OUTPUTS};
static const refold_output_tensor output = {.layer = 0};
static const refold_model model = {
    .abi = REFOLD_ABI,
    .input_bytes = INPUT_BYTES,
    .layer_count = 1,
    .layers = &layer,
    .outputs = &output,
    .output_tensors = 1,
    .output_count = OUTPUTS,
    .softmax = &softmax,
    .activation_bytes = 64,
};

/* What the device has said. */
typedef struct ear {
    char line[2048];
    size_t length;
    unsigned long ready; /* lines m-ready */
} ear;

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "violated: %s\n", what);
        abort();
    }
}

static uint32_t clock_us(void)
{
    static uint32_t now;

    return now += 1000003; /* wraps every 72 minutes of pretended time */
}

static void hear_line(ear *heard)
{
    const char *line = heard->line;
    size_t length = heard->length;

    require(length >= 9 && line[length - 2] == '\r', "CR LF after some text");
    require(memcmp(line, "m-", 2) == 0 || memcmp(line, "e-[", 3) == 0 ||
                memcmp(line, "refold: ", 8) == 0 || memcmp(line, "db load N", 9) == 0,
            "a line of the protocol");
    heard->ready += memcmp(line, "m-ready", 7) == 0;
    heard->length = 0;
}

static void write_text(void *user, const void *data, size_t bytes)
{
    const char *p = data;
    ear *heard = user;

    for (size_t i = 0; i < bytes; i++) {
        require(heard->length < sizeof heard->line, "bounded lines");
        heard->line[heard->length++] = p[i];
        if (p[i] == '\n')
            hear_line(heard);
    }
}

/* One command at a time: as many m-ready as commands. */
static void command(refold_mlperf *m, ear *heard, const uint8_t *text, size_t bytes)
{
    unsigned long ready = heard->ready;
    uint32_t images = stub_images();

    refold_mlperf_feed(m, text, bytes);
    require(images == stub_images(), "feed runs nothing");
    refold_mlperf_feed(m, "%", 1);
    for (int ran = 1; refold_mlperf_poll(m); ran++) {
        require(stub_images() == images + (uint32_t)ran, "one image a call");
        refold_mlperf_feed(m, text, bytes); /* dropped */
        if (ran == IMAGES_MAX) {
            m->left = 1;
            m->warmups_left = m->warmups_left > 0;
        }
    }
    require(heard->ready == ready + 1, "one m-ready for each command");
    require(heard->length == 0, "whole lines");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t bytes = REFOLD_MLPERF_BYTES(INPUT_BYTES, OUTPUTS);
    ear heard = {.length = 0};
    refold_mlperf_setup setup = {"fuzz", "ic01", write_text, &heard, clock_us, NULL};
    refold_mlperf *m = malloc(sizeof *m);
    refold_ctx *ctx;
    void *memory;

    require(m != NULL && posix_memalign(&memory, REFOLD_ALIGNMENT, bytes) == 0, "memory");
    refold_init(&ctx, &model, NULL, 0);
    require(refold_mlperf_init(m, ctx, &model, &setup, memory, bytes) == REFOLD_OK,
            "init");
    require(heard.ready == 1, "announced once");
    while (size > 0) {
        const uint8_t *end = memchr(data, '%', size);
        size_t count = end != NULL ? (size_t)(end - data) : size;

        command(m, &heard, data, count);
        count += end != NULL;
        data += count;
        size -= count;
    }
    free(memory);
    free(m);
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

/* Commands as a runner sends them, which reach the images; some get damaged. */
static size_t likely_command(uint32_t *random, char *out)
{
    static const char *const texts[] = {
        "name%",     "profile%",   "timestamp%", "db load 40%", "db load 40%",
        "db print%", "infer 2 1%", "infer 3 0%", "results%",    "help%",
        "db 000102030405060708090a0b0c0d0e0f10111213%",
        "db 000102030405060708090a0b0c0d0e0f10111213%",
        "db 000102030405060708090a0b0c0d0e0f10111213%",
        "db 00010203040506070809%",
    };
    const char *text = texts[next_random(random) % (sizeof texts / sizeof *texts)];
    size_t bytes = strlen(text);

    memcpy(out, text, bytes);
    if (next_random(random) % 8 == 0)
        out[next_random(random) % bytes] = (char)next_random(random);
    return bytes;
}

int main(int argc, char **argv)
{
    uint32_t random = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    unsigned long runs = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    unsigned long images = 0;
    static char input[4096];

    for (unsigned long run = 0; run < runs; run++) {
        size_t size = 0;

        while (size + 64 < sizeof input)
            size += likely_command(&random, input + size);
        LLVMFuzzerTestOneInput((const uint8_t *)input, size);
        images += stub_images();
    }
    printf("%lu runs, %lu images\n", runs, images);
    return 0;
}

#endif
