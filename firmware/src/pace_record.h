/*
 * The saved record of a search: docs/numerics.md, "Saved state".
 *
 * Internal. It follows FORGE's record where the method has PACE, and is guarded by
 * its own CRC. A window that is being filled is no part of it.
 */
#ifndef REFOLD_PACE_RECORD_H
#define REFOLD_PACE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "pace.h"

/* Bytes of a record of searches in d dimensions. */
size_t refold_pace_record_bytes(const refold_model *model, uint32_t d);

/* Writes the record. */
void refold_pace_save(refold_pace *pace, uint8_t *record);

/*
 * Restores a record of refold_pace_record_bytes bytes. Returns false, and leaves
 * the search as it was, where it is damaged, of another version, of another model
 * or of a search with other dimensions, seed or sites.
 */
bool refold_pace_load(refold_pace *pace, const uint8_t *record);

#endif
