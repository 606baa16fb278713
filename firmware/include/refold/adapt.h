/*
 * FORGE: forward-only recalibration of folded convolutions.
 *
 * At every site the accumulators' running mean and second moment are tracked
 * per channel, and the layer's requantisation table is recomputed so that the
 * output keeps the clean mean and deviation that BatchNorm gave it. The
 * equations are in docs/numerics.md.
 */
#ifndef REFOLD_ADAPT_H
#define REFOLD_ADAPT_H

#include <stddef.h>
#include <stdint.h>

#include "refold/facts.h"
#include "refold/model.h"
#include "refold/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct refold_ctx refold_ctx;

typedef struct refold_adapt_config {
    uint8_t method;    /* REFOLD_METHOD_OFF or REFOLD_METHOD_FORGE */
    uint8_t stats;     /* REFOLD_STATS_LAGGED or REFOLD_STATS_EXACT */
    uint8_t rule;      /* REFOLD_RULE_REFOLD or REFOLD_RULE_PUBLISHED */
    uint8_t gate;      /* 1: static tables until the stream is seen to have shifted */
    uint8_t interval;  /* images between table updates, 1..REFOLD_INTERVAL_MAX */
    uint16_t warm;     /* the momentum of image t is at least 1 / (t + warm) */
    float shrinkage;   /* a in [0, 1]: 0 keeps the targets, 1 trusts the stream */
    float momentum;    /* floor of the momentum, in (0, 1] */
    uint8_t sites[REFOLD_SITE_MASK_BYTES]; /* bit i: site i adapts */
} refold_adapt_config;

/* What happened to the last image. */
typedef struct refold_report {
    float shift_score; /* mean KL(running || clean) over live channels */
    uint32_t adapt_us; /* statistics to tables; 0 without a clock */
    uint32_t infer_us; /* the whole of refold_infer, adaptation included */
    uint8_t adapted;   /* 1: statistics were absorbed */
    uint8_t gate;      /* REFOLD_GATE_*: as it stood while the image ran */
} refold_report;

/* The defaults: FORGE, lagged, gated, a = 0.5, floor 1/640, warm 8, every image. */
void refold_adapt_defaults(const refold_model *model, refold_adapt_config *config);

/*
 * Choose a method and its parameters. The running statistics are kept; the
 * tables are recomputed from them where images have been absorbed, else the
 * static ones are in force. A change of rule resets.
 * Returns REFOLD_ERROR_CONFIG where a field is out of its range, or
 * REFOLD_ERROR_UNSUPPORTED where the model was compiled without the method;
 * nothing changes then.
 */
refold_status refold_adapt_set(refold_ctx *ctx, const refold_adapt_config *config);
void refold_adapt_get(const refold_ctx *ctx, refold_adapt_config *config);

/* Forget the stream: statistics back to the targets, static tables in force. */
void refold_adapt_reset(refold_ctx *ctx);

/* Bytes that refold_adapt_save writes. */
size_t refold_adapt_state_bytes(const refold_model *model);

/*
 * Write the running statistics as a self-describing, CRC-guarded record, little
 * endian. Returns REFOLD_ERROR_SIZE where `bytes` is too small.
 */
refold_status refold_adapt_save(const refold_ctx *ctx, void *buffer, size_t bytes);

/*
 * Restore a record and recompute the tables. A record that is damaged, of
 * another version or of another model is refused with REFOLD_ERROR_STATE, and
 * the context is as after refold_adapt_reset.
 */
refold_status refold_adapt_load(refold_ctx *ctx, const void *buffer, size_t bytes);

/* The report of the last refold_infer; valid until the next. */
const refold_report *refold_last(const refold_ctx *ctx);

#ifdef __cplusplus
}
#endif

#endif
