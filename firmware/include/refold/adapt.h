/*
 * Adaptation without gradients: FORGE and PACE, alone or together.
 *
 * FORGE: forward-only recalibration of folded convolutions.
 *
 * At every site the accumulators' running mean and second moment are tracked
 * per channel, and the layer's requantisation table is recomputed so that the
 * output keeps the clean mean and deviation that BatchNorm gave it.
 *
 * PACE: a search by CMA-ES for better targets of a few sites. The images of a
 * window are kept, candidates run on them, and the best guess is in force from
 * the next image on; the reply to an image never waits for a search.
 *
 * The equations of both are in docs/numerics.md.
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
    uint8_t method;    /* REFOLD_METHOD_* */
    uint8_t stats;     /* REFOLD_STATS_LAGGED or REFOLD_STATS_EXACT */
    uint8_t rule;      /* REFOLD_RULE_REFOLD or REFOLD_RULE_PUBLISHED */
    uint8_t gate;      /* 1: static tables until the stream is seen to have shifted */
    uint8_t interval;  /* images between table updates, 1..REFOLD_INTERVAL_MAX */
    uint16_t warm;     /* the momentum of image t is at least 1 / (t + warm) */
    float shrinkage;   /* a in [0, 1]: 0 keeps the targets, 1 trusts the stream */
    float momentum;    /* floor of the momentum, in (0, 1] */
    float grade;       /* g: shrinkage is a * score / (score + g); 0, or 1e-6 to 1 */
    uint8_t sites[REFOLD_SITE_MASK_BYTES]; /* bit i: site i adapts by FORGE */
    /* PACE. The memory that the model was compiled with bounds d and window. */
    uint32_t seed;
    uint16_t dimension;   /* d of the search; 0: as large as the memory allows */
    uint16_t generations; /* at most so many in a domain; 0: until it settles */
    uint8_t population;   /* candidates of a generation */
    uint8_t window;       /* images that judge them; 0: as many as it allows */
    uint8_t source;       /* 1: the last layer's input returns to clean images' mean */
    float sigma;          /* initial step, in (0, REFOLD_SIGMA_MAX] */
    float lambda;         /* weight of the features' discrepancy in the loss */
    float settle;         /* relative movement of the mean that ends a search */
    float shift;          /* distance of a window that is a change of domain */
    float accept;         /* standard errors by which a better loss must be better */
} refold_adapt_config;

/* What happened to the last image. */
typedef struct refold_report {
    float shift_score; /* mean KL(running || clean) over live channels */
    uint32_t adapt_us; /* statistics to tables, and the search before the image */
    uint32_t search_us; /* of adapt_us: the search, which is no part of infer_us */
    uint32_t infer_us; /* network and statistics to tables; 0 without a clock */
    uint16_t forward_passes; /* this image's, and the search's since the last */
    uint8_t adapted;   /* 1: statistics were absorbed, or a search goes on */
    uint8_t gate;      /* REFOLD_GATE_*: as it stood while the image ran */
} refold_report;

/*
 * The defaults: FORGE, lagged, gated, a = 0.5, floor 1/640, warm 8, every image.
 * PACE's are those of `forge+pace`; `pace` alone asks for a larger sigma, and for the
 * features' help: lambda and source.
 */
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

/*
 * Do now the search that a full window calls for; refold_infer does it otherwise,
 * before its next image. To be called once the reply to the last image is sent.
 */
void refold_adapt_search(refold_ctx *ctx);

/* Most bytes that refold_adapt_save writes, whatever the method. */
size_t refold_adapt_state_bytes(const refold_model *model);

/* Bytes that it writes under the present configuration. */
size_t refold_adapt_record_bytes(const refold_ctx *ctx);

/*
 * Write the running statistics, and the search of a method with PACE, as a
 * self-describing, CRC-guarded record, little endian. A window of images that is
 * being filled is no part of it. Returns REFOLD_ERROR_SIZE where `bytes` is too small.
 */
refold_status refold_adapt_save(const refold_ctx *ctx, void *buffer, size_t bytes);

/*
 * Restore a record of refold_adapt_record_bytes and recompute the tables. One that
 * is damaged, of another version, model or configuration is refused with
 * REFOLD_ERROR_STATE, and the context is as after refold_adapt_reset.
 */
refold_status refold_adapt_load(refold_ctx *ctx, const void *buffer, size_t bytes);

/* The report of the last refold_infer; valid until the next. */
const refold_report *refold_last(const refold_ctx *ctx);

#ifdef __cplusplus
}
#endif

#endif
