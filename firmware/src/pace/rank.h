/* Order of losses. Internal. */
#ifndef REFOLD_PACE_RANK_H
#define REFOLD_PACE_RANK_H

#include <stdint.h>

/*
 * order[0..count): indices of losses[0..count), least loss first; equal losses by
 * index, -0 equal to 0, NaN last. count <= 255.
 */
void refold_rank(const float *losses, uint32_t count, uint8_t *order);

#endif
