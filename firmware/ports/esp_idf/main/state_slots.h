/*
 * One record kept in two slots of a storage that may lose power at any moment.
 *
 * A record is written over the older slot and becomes the newest only once it is
 * whole: whatever a write leaves behind when it is cut, loading finds either the
 * record before it or the new one. Nothing is assumed of the storage but that
 * writing one slot leaves the other alone.
 *
 * In a slot, little endian: magic "RFSL", version u16, zero u16, sequence u32,
 * CRC-32 of all that precedes it and of the payload, payload.
 */
#ifndef REFOLD_STATE_SLOTS_H
#define REFOLD_STATE_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REFOLD_SLOTS 2
#define REFOLD_SLOT_HEADER_BYTES 16

typedef struct refold_slots {
    /* Supplied by the port: bytes that slot 0 or 1 holds, of which `capacity` at
     * most are read (0: none), and whether all of a slot was replaced. */
    size_t (*read)(void *user, int slot, void *data, size_t capacity);
    bool (*write)(void *user, int slot, const void *data, size_t bytes);
    void *user;
    uint8_t *buffer;   /* one slot: the header, then the payload */
    size_t bytes;      /* of the buffer; a record always fills it */
    uint32_t sequence; /* of the newest record */
    int newest;        /* its slot, or -1: there is none */
} refold_slots;

/* Where a payload is placed to be saved, and found when it was loaded. */
static inline uint8_t *refold_slots_payload(const refold_slots *slots)
{
    return slots->buffer + REFOLD_SLOT_HEADER_BYTES;
}

/*
 * Find the newest sound record. Call it once before refold_slots_save; `read`,
 * `write`, `user`, `buffer` and `bytes` are set, the rest need not be.
 * Returns false where there is none; the payload then means nothing.
 */
bool refold_slots_load(refold_slots *slots);

/*
 * Keep the payload. Returns false where the storage did not take it: the record
 * before it is then still the newest.
 */
bool refold_slots_save(refold_slots *slots);

#endif
