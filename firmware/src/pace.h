/*
 * PACE: a forward-only search for the targets of a few sites, image by image.
 *
 * Internal. Images are kept until a window of them is full. Then every candidate
 * of CMA-ES is judged on the window (confidence.h), and the distribution's mean
 * moves the sites' targets (space.h) from the next image on; with `accept` only if
 * it serves better than what is in force by more than chance (paired.h). The search
 * pauses when it has settled or had its generations; a change of domain, seen in the
 * first moved site's statistics or by FORGE's gate, stores what is in force in the
 * bank and starts another from the stored vector that serves best.
 *
 * Source: the PACE method of docs/numerics.md; the loss and the space are ours.
 */
#ifndef REFOLD_PACE_H
#define REFOLD_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pace/bank.h"
#include "pace/cma.h"
#include "confidence.h"
#include "refold/adapt.h"
#include "pace/shift.h"
#include "pace/source_shift.h"
#include "space.h"
#include "pace/window.h"

/* Reserved for refold_pace; pace.c proves that it fits. */
#define REFOLD_PACE_HEAD_BYTES 800

typedef struct refold_pace {
    refold_cma cma;
    refold_bank bank;
    refold_shift shift;        /* of the watched site: the first that moves */
    refold_window window;      /* its sums over the images kept */
    refold_space space;        /* what is in force */
    refold_confidence confidence;
    refold_window features;    /* sums of the last layer's input over a rehearsal */
    refold_source_shift back;  /* of that input */
    float *found;              /* [d] what is in force */
    float *parts;              /* [2][window] images' parts of two losses */
    float *floor;              /* [watched channels] least variance */
    float *point;              /* [d] a candidate */
    int32_t *logits;           /* [output_count] of a rehearsal */
    uint8_t *images;           /* [window][plan->kept_bytes] */
    uint8_t kept;              /* images of the window so far */
    uint8_t taken;             /* where the image under way was put */
    bool paused;               /* the search has ended in this domain */
    bool choosing;             /* the bank is asked before the search begins */
    bool strange;              /* the last window was far from those before */
    uint16_t generations;      /* of this domain */
    uint16_t passes;           /* rehearsals since the last report */
    uint32_t search_us;        /* and their time */
} refold_pace;

/* What of the arena PACE takes; 0 for a model without. */
size_t refold_pace_bytes(const refold_model *model);

/* Builds it in `memory`, refold_pace_bytes large and aligned to 8. */
refold_pace *refold_pace_init(const refold_model *model, uint8_t *memory);

/* Is the configuration, of a method with PACE, one that the memory allows? */
bool refold_pace_allows(const refold_model *model, const refold_adapt_config *config);

/* Fills in what is 0 and means: as much as the memory allows. */
void refold_pace_complete(const refold_model *model, refold_adapt_config *config);

/* Takes a configuration; where it changes the search all is forgotten. */
void refold_pace_configure(refold_pace *pace, const refold_adapt_config *before,
                           const refold_adapt_config *config);

/* Forgets everything, the bank included. */
void refold_pace_reset(refold_pace *pace, const refold_adapt_config *config);

/* Begins an empty window. */
void refold_pace_empty(refold_pace *pace);

/* Another domain has begun: what was found is stored, and the search is anew. */
void refold_pace_change(refold_pace *pace, const refold_adapt_config *config);

/* Has the search left the model's own targets? */
bool refold_pace_has_moved(const refold_pace *pace);

/* The site whose statistics tell domains apart. */
int refold_pace_watched(const refold_model *model);

/* Takes the watched site's sums of the image that runs. */
void refold_pace_watch(refold_pace *pace, const refold_moments *moments,
                       uint32_t pixels);

/* Enters what the search has cost since the last report. */
void refold_pace_report(refold_pace *pace, refold_report *report);

/*
 * Takes the last layer's input of the image that runs, [features], and returns it to
 * the source where the configuration says so.
 */
void refold_pace_features(refold_ctx *ctx, int8_t *features);

/* Takes, while an image runs, what candidates run of it: plan->kept_bytes. */
void refold_pace_take(refold_pace *pace, const void *kept);

/* Keeps what was taken of the image that has run. */
void refold_pace_keep(refold_pace *pace, const int32_t *logits);

/* Searches if the window is full, and puts the mean in force. */
void refold_pace_search(refold_ctx *ctx);

#endif
