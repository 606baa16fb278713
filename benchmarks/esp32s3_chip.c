/*
 * Runs images through an emitted model as machine code of the ESP32-S3, without an
 * operating system, and prints for each what its layers took, in cycles of CCOUNT:
 *
 *     layers: N N ... N
 *     image: cycles of the inference, of them update, score and tables, logits ...,
 *            bits of the shift score
 *
 * plan.h holds the images and the modes. The emulator counts an instruction as a fixed number of cycles.
 */
#include <string.h>

#include "model.h"
#include "refold/refold.h"

/* FORGE at some sites; none is adaptation off. */
typedef struct mode {
    uint8_t gate;
    uint8_t sites[REFOLD_SITE_MASK_BYTES];
} mode;

#include "plan.h"

int main(void);
void refold_board_panic(uint32_t cause, uint32_t pc);
uint32_t refold_board_simcall(uint32_t service, uintptr_t a, uintptr_t b, uintptr_t c);

enum { SERVICE_EXIT = 1, SERVICE_WRITE = 4 };

static REFOLD_ALIGNED uint8_t arena[REFOLD_MODEL_ARENA_BYTES];
static uint32_t ticks[REFOLD_MODEL_LAYERS + 1];

static void say(const char *text)
{
    refold_board_simcall(SERVICE_WRITE, 1, (uintptr_t)text, strlen(text));
}

static void say_hex(uint32_t n)
{
    char text[] = " 00000000";

    for (int i = 8; n != 0; i--, n >>= 4)
        text[i] = "0123456789abcdef"[n & 15];
    say(text);
}

static int leave(const char *why, int code)
{
    say(why);
    for (;;)
        refold_board_simcall(SERVICE_EXIT, (uintptr_t)code, 0, 0);
}

void refold_board_panic(uint32_t cause, uint32_t pc)
{
    say("exception");
    say_hex(cause);
    say_hex(pc);
    leave("\n", 1);
}

static uint32_t now(void)
{
    uint32_t cycles;

    __asm__ volatile("rsr %0, ccount" : "=a"(cycles));
    return cycles;
}

/* refold_trace */
static void end_layer(void *user, uint16_t layer, const void *data, uint32_t bytes)
{
    (void)user, (void)data, (void)bytes;
    ticks[layer + 1] = now();
}

static void run_image(refold_ctx *ctx, const void *image)
{
    static int32_t logits[REFOLD_MODEL_OUTPUTS];
    uint32_t end, score;

    ticks[0] = now();
    if (refold_infer(ctx, image, logits) < 0)
        leave("refold_infer fails\n", 1);
    end = now();
    say("layers:");
    for (int i = 0; i < REFOLD_MODEL_LAYERS; i++)
        say_hex(ticks[i + 1] - ticks[i]);
    say("\nimage:");
    say_hex(end - ticks[0]);
    say_hex(refold_last(ctx)->adapt_us);
    for (int i = 0; i < REFOLD_MODEL_OUTPUTS; i++)
        say_hex((uint32_t)logits[i]);
    memcpy(&score, &refold_last(ctx)->shift_score, sizeof score);
    say_hex(score);
    say("\n");
}

static void run_mode(refold_ctx *ctx, const mode *chosen)
{
    static const uint8_t none[REFOLD_SITE_MASK_BYTES];
    refold_adapt_config config;

    refold_adapt_defaults(&refold_model_data, &config);
    config.gate = chosen->gate;
    memcpy(config.sites, chosen->sites, sizeof config.sites);
    if (memcmp(chosen->sites, none, sizeof none) == 0)
        config.method = REFOLD_METHOD_OFF;
    refold_adapt_reset(ctx);
    if (refold_adapt_set(ctx, &config) < 0)
        leave("refold_adapt_set fails\n", 1);
    for (int i = 0; i < IMAGES; i++)
        run_image(ctx, images[i]);
}

int main(void)
{
    refold_ctx *ctx;

    if (refold_init(&ctx, &refold_model_data, arena, sizeof arena) < 0)
        leave("refold_init fails\n", 1);
    refold_set_clock(ctx, now);
    refold_set_trace(ctx, end_layer, NULL);
    for (int i = 0; i < MODES; i++)
        run_mode(ctx, &modes[i]);
    return leave("", 0);
}
