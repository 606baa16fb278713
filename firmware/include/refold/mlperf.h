/*
 * The device side of MLPerf Tiny's serial protocol: the public runner of
 * mlcommons/tiny drives the board instead of refold. Characters in, lines out, no
 * I/O of its own. docs/mlperf-tiny.md has the protocol.
 *
 *     static refold_mlperf m;
 *     static REFOLD_ALIGNED uint8_t memory[REFOLD_MLPERF_BYTES(input_bytes, outputs)];
 *
 *     if (refold_mlperf_init(&m, ctx, model, &setup, memory, sizeof memory) < 0) ...
 *     for (;;) {
 *         refold_mlperf_feed(&m, received, count);
 *         refold_mlperf_poll(&m);
 *     }
 *
 * Characters are untrusted. Whatever arrives, in whatever pieces:
 *
 * 1. Nothing is written outside `refold_mlperf` and `memory`.
 * 2. A command that is too long or unknown gets an e-[...] line and changes nothing.
 * 3. Every command gets exactly one m-ready; nothing else is sent unasked.
 * 4. refold_mlperf_feed never runs an image, and refold_mlperf_poll runs at most one.
 *    What arrives before an INFER has been answered is dropped: the runner waits.
 */
#ifndef REFOLD_MLPERF_H
#define REFOLD_MLPERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "refold/port.h"
#include "refold/refold.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Longest command; the runner's own limit. */
#define REFOLD_MLPERF_COMMAND_BYTES 80
/* Longest line sent at once, its end included. */
#define REFOLD_MLPERF_LINE_BYTES 128

#define REFOLD_MLPERF_ALIGN(bytes) \
    (((size_t)(bytes) + REFOLD_ALIGNMENT - 1) / REFOLD_ALIGNMENT * REFOLD_ALIGNMENT)
#define REFOLD_MLPERF_BYTES(input_bytes, outputs)           \
    (REFOLD_MLPERF_ALIGN(input_bytes) +                     \
     REFOLD_MLPERF_ALIGN((size_t)(outputs) * sizeof(int32_t)) + \
     REFOLD_MLPERF_ALIGN((size_t)(outputs) * sizeof(uint16_t)))

/* Who the device is, and where its characters go. */
typedef struct refold_mlperf_setup {
    const char *name;     /* m-name-dut-[...]; letters, digits, - and _ */
    const char *model_id; /* ic01, vww01, kws01, ...: picks the runner's script */
    void (*write)(void *user, const void *data, size_t bytes);
    void *user;           /* passed to write and timestamp */
    refold_clock clock;   /* read at least once in 71 minutes: it wraps */
    /*
     * Energy mode: give a falling edge of at least 1 us on the pin that the power
     * monitor watches. NULL is performance mode: timestamps are lines.
     */
    void (*timestamp)(void *user);
} refold_mlperf_setup;

/* Private to firmware/src/mlperf. */
typedef struct refold_mlperf {
    refold_ctx *ctx;
    const refold_model *model;
    const refold_mlperf_setup *setup;

    char command[REFOLD_MLPERF_COMMAND_BYTES + 1];
    uint32_t length;      /* characters of it so far */
    bool overrun;         /* longer than any command: skip to its end */
    char line[REFOLD_MLPERF_LINE_BYTES];
    uint32_t line_length;

    uint8_t *input;       /* [input_bytes] */
    uint32_t expected;    /* bytes announced by DB LOAD; 0: none yet */
    uint32_t loaded;
    uint32_t outputs;     /* of the first output, the one that is reported */
    int32_t *logits;      /* [output_count] */
    uint16_t *probabilities; /* [outputs], Q15 */
    bool has_results;

    uint32_t warmups_left, left, images; /* of the INFER in progress */
    bool running;
    uint32_t clock_read;
    uint64_t us;          /* since the start */
} refold_mlperf;

/*
 * Prepare over a context of `model`, and announce the device as after a reset. All
 * pointers must outlive `m`; `memory` is aligned to REFOLD_ALIGNMENT.
 *
 * Returns REFOLD_ERROR_SIZE where memory is misaligned or less than
 * REFOLD_MLPERF_BYTES(model->input_bytes, model->output_count).
 */
refold_status refold_mlperf_init(refold_mlperf *m, refold_ctx *ctx,
                                 const refold_model *model,
                                 const refold_mlperf_setup *setup, void *memory,
                                 size_t bytes);

/* Take characters, cut anywhere; answers every whole command but INFER. */
void refold_mlperf_feed(refold_mlperf *m, const void *bytes, size_t count);

/* Run the next image of an INFER. Returns false where there is none. */
bool refold_mlperf_poll(refold_mlperf *m);

#ifdef __cplusplus
}
#endif

#endif
