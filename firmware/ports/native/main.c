/*
 * The native board: the firmware as a process, reached over a pseudo-terminal
 * or a TCP port of this machine.
 *
 *     board [--pty | --tcp PORT] [test hooks]
 *
 * It prints one line, "port: /dev/pts/N" or "port: socket://127.0.0.1:PORT"
 * (PORT 0 takes any free one), and serves one host after another until its
 * standard input closes, so that it never outlives whoever started it.
 *
 * --mlperf ID: speak MLPerf Tiny's protocol instead of refold's, as the device of
 * that benchmark (ic01, ...). --mlperf-pin FILE: in its energy mode; each timestamp
 * adds a line to FILE, the microsecond of the falling edge of a pin that is not there.
 *
 * Test hooks, off unless given: --pace-us N, no image takes less than N us;
 * --exit-after N, die once N images have been answered; --damage-every N, turn
 * one bit of every Nth byte, in both directions.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 600
#endif

#include "channel.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "model.h"
#include "refold/link.h"
#include "refold/mlperf.h"
#include "refold/refold.h"

#ifndef REFOLD_BUILD_HASH
#error "the build passes its hash: -DREFOLD_BUILD_HASH=\"<16 hex digits>\""
#endif

/* Credits: enough that a host hides its own delays behind short inferences. */
#define WINDOW 32
/* Reads between two images, so that a flood cannot keep them from running. */
#define READS_MAX 32

#define EXIT_USAGE 2

typedef struct options {
    bool tcp;
    const char *mlperf; /* benchmark; NULL: refold's own protocol */
    const char *mlperf_pin; /* file; NULL: performance mode */
    unsigned long tcp_port, pace_us, exit_after, damage_every;
} options;

typedef struct board {
    options options;
    refold_port port;
    refold_ctx *ctx;
    refold_link link;
    refold_mlperf_setup setup;
    refold_mlperf mlperf;
    FILE *pin; /* where the falling edges go */
    refold_channel channel;
    unsigned long images; /* answered so far */
} board;

static const char *status_text(refold_status status)
{
    switch (status) {
#define CASE(code, value, text) \
    case code:                  \
        return text;
        REFOLD_STATUSES(CASE)
#undef CASE
    default:
        return "unknown status";
    }
}

static void check(refold_status status, const char *what)
{
    if (status < 0)
        refold_native_fail("%s: %s", what, status_text(status));
}

static uint32_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)now.tv_sec * 1000000u + (uint32_t)(now.tv_nsec / 1000);
}

static uint32_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)now.tv_sec * 1000000000u + (uint32_t)now.tv_nsec;
}

/* refold_port.write, refold_mlperf_setup.write */
static void write_bytes(void *user, const void *data, size_t bytes)
{
    board *b = user;

    refold_channel_write(&b->channel, data, bytes);
}

/* refold_mlperf_setup.timestamp */
static void mark_time(void *user)
{
    board *b = user;

    if (fprintf(b->pin, "%lu\n", (unsigned long)now_us()) < 0 || fflush(b->pin) != 0)
        refold_native_fail("cannot write %s: %s", b->options.mlperf_pin,
                           strerror(errno));
}

static void receive(board *b)
{
    uint8_t bytes[4096];
    size_t n = 1;

    for (int reads = 0; n > 0 && reads < READS_MAX; reads++) {
        n = refold_channel_read(&b->channel, bytes, sizeof bytes);
        if (b->options.mlperf != NULL)
            refold_mlperf_feed(&b->mlperf, bytes, n);
        else
            refold_link_feed(&b->link, bytes, n);
    }
}

/* Run an image, where one is due. */
static bool run_image(board *b)
{
    return b->options.mlperf != NULL ? refold_mlperf_poll(&b->mlperf)
                                     : refold_link_poll(&b->link);
}

static bool input_closed(void)
{
    char ignored[64];
    ssize_t n = read(STDIN_FILENO, ignored, sizeof ignored);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void after_image(board *b, uint32_t started)
{
    uint32_t spent = now_us() - started;

    if (spent < b->options.pace_us) {
        uint32_t rest = (uint32_t)b->options.pace_us - spent;
        struct timespec wait = {rest / 1000000u, (long)(rest % 1000000u) * 1000};

        nanosleep(&wait, NULL);
    }
    if (++b->images == b->options.exit_after)
        refold_native_fail("dies after %lu images, as asked", b->images);
}

static void serve(board *b)
{
    refold_channel *channel = &b->channel;
    bool busy = false;

    for (;;) {
        short events = channel->queued > 0 ? POLLIN | POLLOUT : POLLIN;
        struct pollfd fds[] = {
            {STDIN_FILENO, POLLIN, 0},
            {channel->listener, POLLIN, 0},
            {channel->client, events, 0},
        };
        uint32_t started;

        if (poll(fds, 3, busy ? 0 : -1) < 0 && errno != EINTR)
            refold_native_fail("cannot wait for the port: %s", strerror(errno));
        if (fds[0].revents != 0 && input_closed())
            return;
        if (fds[2].revents != 0) {
            refold_channel_flush(channel);
            receive(b);
        }
        if (fds[1].revents != 0 && refold_channel_accept(channel) &&
            b->options.mlperf == NULL)
            refold_link_feed(&b->link, "", 1); /* ends what the last host left */
        started = now_us();
        busy = run_image(b);
        if (busy)
            after_image(b, started);
    }
}

static void *allocate(size_t bytes)
{
    void *memory;

    if (posix_memalign(&memory, REFOLD_ALIGNMENT, bytes) != 0)
        refold_native_fail("no memory for %zu bytes", bytes);
    return memory;
}

static board *make_board(const options *chosen)
{
    const refold_model *model = &refold_model_data;
    size_t arena_bytes = refold_arena_bytes(model);
    size_t link_bytes = refold_link_bytes(model, WINDOW);
    board *b = allocate(sizeof *b);

    memset(b, 0, sizeof *b);
    b->options = *chosen;
    b->channel.listener = b->channel.client = -1;
    b->channel.damage_every = chosen->damage_every;
    b->port.write = write_bytes;
    b->port.user = b;
    b->port.clock = now_us;
    b->port.chip = "native";
    b->port.build_hash = REFOLD_BUILD_HASH;
    b->port.reset_reason = REFOLD_RESET_REASON_POWER_ON;
    b->port.boot_count = 1;
    b->port.receive_bytes = REFOLD_RECEIVE_UNLIMITED;
    b->port.layer_ticks = allocate(model->layer_count * sizeof(uint32_t));
    b->port.ticks = now_ns;
    b->port.ticks_per_us = 1000;
    b->port.ticks_kind = REFOLD_TICKS_NANOSECONDS;
    check(refold_init(&b->ctx, model, allocate(arena_bytes), arena_bytes), "refold_init");
    check(refold_link_init(&b->link, b->ctx, model, &b->port, allocate(link_bytes),
                           link_bytes),
          "refold_link_init");
    return b;
}

/* In place of the link, whose trace hook goes: it would be timed. */
static void start_mlperf(board *b)
{
    const refold_model *model = &refold_model_data;
    size_t bytes = REFOLD_MLPERF_BYTES(model->input_bytes, model->output_count);

    b->setup.name = "refold";
    b->setup.model_id = b->options.mlperf;
    b->setup.write = write_bytes;
    b->setup.user = b;
    b->setup.clock = now_us;
    if (b->options.mlperf_pin != NULL) {
        b->pin = fopen(b->options.mlperf_pin, "a");
        if (b->pin == NULL)
            refold_native_fail("cannot open %s: %s", b->options.mlperf_pin,
                               strerror(errno));
        b->setup.timestamp = mark_time;
    }
    refold_set_trace(b->ctx, NULL, NULL);
    check(refold_mlperf_init(&b->mlperf, b->ctx, model, &b->setup, allocate(bytes),
                             bytes),
          "refold_mlperf_init");
}

static bool parse_number(const char *text, unsigned long *value)
{
    char *end;

    if (text == NULL || *text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoul(text, &end, 10);
    return *end == '\0' && errno == 0;
}

/* Where an option's text goes; NULL for one that has none. */
static const char **text_option(const char *name, options *chosen)
{
    if (strcmp(name, "--mlperf") == 0)
        return &chosen->mlperf;
    return strcmp(name, "--mlperf-pin") == 0 ? &chosen->mlperf_pin : NULL;
}

static bool parse(char **arguments, options *chosen)
{
    for (; *arguments != NULL; arguments++) {
        const char *name = *arguments;
        const char **text = text_option(name, chosen);
        unsigned long *value;

        if (strcmp(name, "--pty") == 0) {
            chosen->tcp = false;
            continue;
        }
        if (text != NULL) {
            *text = *++arguments;
            if (*text == NULL)
                return false;
            continue;
        }
        if (strcmp(name, "--tcp") == 0) {
            chosen->tcp = true;
            value = &chosen->tcp_port;
        } else if (strcmp(name, "--pace-us") == 0) {
            value = &chosen->pace_us;
        } else if (strcmp(name, "--exit-after") == 0) {
            value = &chosen->exit_after;
        } else if (strcmp(name, "--damage-every") == 0) {
            value = &chosen->damage_every;
        } else {
            return false;
        }
        if (!parse_number(*++arguments, value))
            return false;
    }
    return chosen->tcp_port <= UINT16_MAX &&
           (chosen->mlperf_pin == NULL || chosen->mlperf != NULL);
}

int main(int argc, char **argv)
{
    options chosen;
    board *b;

    memset(&chosen, 0, sizeof chosen);
    if (argc < 1 || !parse(argv + 1, &chosen)) {
        fputs("usage: board [--pty | --tcp PORT] [--mlperf ID [--mlperf-pin FILE]]"
              " [--pace-us N] [--exit-after N] [--damage-every N]\n",
              stderr);
        return EXIT_USAGE;
    }
    signal(SIGPIPE, SIG_IGN);
    b = make_board(&chosen);
    if (chosen.tcp)
        refold_channel_open_tcp(&b->channel, (unsigned)chosen.tcp_port);
    else
        refold_channel_open_pty(&b->channel);
    if (chosen.mlperf != NULL)
        start_mlperf(b);
    fflush(stdout);
    serve(b);
    return EXIT_SUCCESS;
}
