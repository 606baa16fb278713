/*
 * The context at the start of the arena, shared by runtime.c and adapt*.c.
 *
 * Internal.
 */
#ifndef REFOLD_CONTEXT_H
#define REFOLD_CONTEXT_H

#include <stdbool.h>

#include "forge.h"
#include "gate.h"
#include "pace.h"
#include "refold/refold.h"

/* What a site keeps besides its channels' arrays; 8 bytes, see arena.h. */
typedef struct refold_site_state {
    uint32_t first;        /* index of the site's first channel in the arrays */
    uint8_t shift;         /* of the recomputed table; 0: the static one is in force */
} refold_site_state;

struct refold_ctx {
    const refold_model *model;
    uint8_t *activations;
    void *scratch;
    refold_clock clock;
    refold_trace trace;
    void *trace_user;
    refold_trigger trigger;
    void *trigger_user;
    refold_adapt_config config;
    refold_report report;
    uint32_t images;       /* absorbed since the last reset: t */
    float momentum;        /* of the present image */
    float shrinkage;       /* of its tables: a, graded */
    float shift_score;     /* of the image before */
    refold_forge_score score;
    refold_gate gate;
    refold_gate_look look; /* at the present image */
    refold_pace *pace;     /* NULL in a model compiled without */
    bool rehearsing;       /* an image runs to judge a candidate: nothing is absorbed */

    /* Adaptation state; NULL in a model compiled without. */
    refold_site_state *sites; /* [site_count] */
    float *e1, *e2;        /* [site_channels], of the stream */
    float *w1;             /* [site_channels], E[a] of the gate's window */
    int16_t *m;            /* [site_channels] */
    int32_t *centre;       /* [site_channels] */
    int64_t *s1, *s2, *b;  /* [widest_site] */
    float *work;           /* [widest_site] */
};

/* Microseconds, or always 0 without a clock. */
static inline uint32_t refold_now(const refold_ctx *ctx)
{
    return ctx->clock ? ctx->clock() : 0;
}

/* Tell the port that REFOLD_TRIGGER_* begins or ends. */
static inline void refold_signal(const refold_ctx *ctx, uint8_t what, bool on)
{
    if (ctx->trigger)
        ctx->trigger(ctx->trigger_user, what, on);
}

/* Bytes of adaptation state in the arena. */
size_t refold_adapt_bytes(const refold_model *model);

/* Divide `memory` among the arrays, reset, and switch adaptation off. */
void refold_adapt_init(refold_ctx *ctx, uint8_t *memory);

/* Around the layers of one image. */
void refold_adapt_begin(refold_ctx *ctx);
void refold_adapt_end(refold_ctx *ctx);

/* Before the last layer. */
void refold_adapt_features(refold_ctx *ctx);

/* Before the layers in which candidates differ: `kept` is what those read. */
void refold_adapt_take(refold_ctx *ctx, const void *kept);

/* After the logits are known. */
void refold_adapt_keep(refold_ctx *ctx, const int32_t *logits);

/* Recompute the tables of the sites that PACE moves. */
void refold_adapt_move(refold_ctx *ctx);

/* Recompute the tables of the sites that adapt; the others are static. */
void refold_adapt_retable(refold_ctx *ctx);

/* Run a site's layer under the table in force, and absorb its statistics. */
void refold_adapt_run(refold_ctx *ctx, int site, refold_kernel run, refold_call *call);

/* Run what was taken of an image under the tables in force; nothing is absorbed. */
void refold_rehearse(refold_ctx *ctx, const void *kept, int32_t *logits);

/* What the last layer reads of the image that runs, to be changed. */
int8_t *refold_last_input(const refold_ctx *ctx);

#endif
