/*
 * Runs calls of the SIMD kernels as machine code of the ESP32-S3 and compares what
 * they write with what the portable kernels wrote on the host; cases.h holds both.
 * Without an operating system: start.S calls main, the emulator's services end it.
 *
 * Says which case is wrong and exits with 1, or exits with 0.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/esp32s3/esp32s3.h"
#include "refold/kernels.h"

typedef enum chip_op { CONV2D, DWCONV2D, DENSE, DENSE_S32, ADD, MAX_POOL, AVG_POOL } chip_op;

typedef struct chip_case {
    chip_op op;
    const void *params;
    const int8_t *in[2];
    const void *out;      /* expected */
    uint32_t bytes;       /* of it */
    const int64_t *s[2];  /* expected; NULL: no statistics */
    uint32_t channels;    /* of them */
    uint8_t shift;
} chip_case;

#include "cases.h"

int main(void);
void refold_board_panic(uint32_t cause, uint32_t pc);
uint32_t refold_board_simcall(uint32_t service, uintptr_t a, uintptr_t b, uintptr_t c);

enum { SERVICE_EXIT = 1, SERVICE_WRITE = 4 };

#define CANARY 0xA5
#define MARGIN 64
#define OUT_BYTES 16384
#define SCRATCH_BYTES 65536
#define CHANNELS 64

/* What a kernel writes, between canaries. */
static struct buffers {
    REFOLD_ALIGNED uint8_t before[MARGIN];
    REFOLD_ALIGNED uint8_t out[OUT_BYTES + MARGIN];
    REFOLD_ALIGNED uint8_t scratch[SCRATCH_BYTES + MARGIN];
    REFOLD_ALIGNED int64_t s[2][CHANNELS + 1];
} b;

static void say(const char *text)
{
    refold_board_simcall(SERVICE_WRITE, 1, (uintptr_t)text, strlen(text));
}

static void say_number(const char *what, uint32_t n)
{
    char digits[12];
    char *p = digits + sizeof digits - 1;

    *p = '\0';
    do
        *--p = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    say(what);
    say(p);
}

static int leave(int code)
{
    say("\n");
    for (;;)
        refold_board_simcall(SERVICE_EXIT, (uintptr_t)code, 0, 0);
}

void refold_board_panic(uint32_t cause, uint32_t pc)
{
    say_number("exception cause ", cause);
    say_number(" at ", pc);
    leave(1);
}

static bool convolve(const chip_case *c, size_t *scratch)
{
    const refold_conv2d_params *p = c->params;
    refold_moments sums = {b.s[0], b.s[1], c->shift};
    const refold_moments *moments = c->s[0] != NULL ? &sums : NULL;
    int8_t *out = (int8_t *)b.out;

    if (c->op == DWCONV2D) {
        *scratch = refold_dwconv2d_scratch_bytes_esp32s3(p);
        return refold_dwconv2d_esp32s3(p, &p->requant, c->in[0], out, b.scratch,
                                       moments);
    }
    *scratch = refold_conv2d_scratch_bytes_esp32s3(p);
    return refold_conv2d_esp32s3(p, &p->requant, c->in[0], out, b.scratch, moments);
}

static bool run(const chip_case *c, size_t *scratch)
{
    int8_t *out = (int8_t *)b.out;

    switch (c->op) {
    case DENSE:
        return refold_dense_esp32s3(c->params, c->in[0], out);
    case DENSE_S32:
        return refold_dense_s32_esp32s3(c->params, c->in[0], (int32_t *)(void *)b.out);
    case ADD:
        return refold_add_esp32s3(c->params, c->in[0], c->in[1], out);
    case MAX_POOL:
        return refold_max_pool_esp32s3(c->params, c->in[0], out);
    case AVG_POOL:
        return refold_avg_pool_esp32s3(c->params, c->in[0], out);
    default:
        return convolve(c, scratch);
    }
}

static bool is_canary(const void *from, size_t bytes)
{
    const uint8_t *p = from;

    while (bytes > 0 && *p == CANARY)
        p++, bytes--;
    return bytes == 0;
}

static bool agrees(const chip_case *c)
{
    size_t scratch = 0, sums = c->channels * sizeof(int64_t);

    memset(&b, CANARY, sizeof b);
    if (!run(c, &scratch) || scratch > SCRATCH_BYTES)
        return false;
    for (int i = 0; i < 2; i++)
        if (c->s[i] != NULL && memcmp(b.s[i], c->s[i], sums) != 0)
            return false;
    return memcmp(b.out, c->out, c->bytes) == 0 && is_canary(b.before, MARGIN) &&
           is_canary(b.out + c->bytes, MARGIN) &&
           is_canary(b.scratch + scratch, MARGIN) &&
           is_canary(&b.s[0][c->channels], 8) && is_canary(&b.s[1][c->channels], 8);
}

int main(void)
{
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!agrees(&cases[i])) {
            say_number("differs: case ", i);
            return leave(1);
        }
    say_number("agree: ", sizeof cases / sizeof *cases);
    return leave(0);
}
