/*
 * Bank of domain vectors: where searches of earlier domains ended.
 *
 * Internal. The zero vector, the unadapted network, is a member that is not
 * stored and never leaves.
 */
#ifndef REFOLD_PACE_BANK_H
#define REFOLD_PACE_BANK_H

#include <stdint.h>

#define REFOLD_BANK_CAPACITY_MAX 64
/* Starting points that one pick names: the best, and 4 to inject. */
#define REFOLD_BANK_STARTS 5
/* Floats of memory. */
#define REFOLD_BANK_FLOATS(capacity, d) ((uint32_t)(capacity) * (uint32_t)(d))

typedef struct refold_bank {
    uint16_t dimension;        /* d */
    uint8_t capacity;          /* 1..REFOLD_BANK_CAPACITY_MAX */
    uint8_t count;             /* vectors stored; 0 begins an empty bank */
    float *vectors;            /* [capacity][d], oldest first */
} refold_bank;

/* Vector `index` < count, [d]. */
const float *refold_bank_vector(const refold_bank *bank, uint32_t index);

/*
 * Stores a copy of v [d] as the newest. A full bank first drops the vector whose
 * mean cosine similarity to the other stored ones is highest, the oldest of
 * equals; the cosine with a zero vector is 0.
 */
void refold_bank_insert(refold_bank *bank, const float *v);

/*
 * Ranks the zero vector, of losses[0], and the stored ones, of losses[1 + i];
 * equal losses by index. starts[0] is the best, then come the next ones; NULL
 * stands for the zero vector. Returns how many: min(count + 1, REFOLD_BANK_STARTS).
 */
uint32_t refold_bank_pick(const refold_bank *bank, const float *losses,
                          const float *starts[REFOLD_BANK_STARTS]);

#endif
