#include "state_slots.h"

#include <string.h>

#include "bytes.h"
#include "crc32.h"

#define VERSION 1

/* Offsets within the header. */
enum { AT_MAGIC = 0, AT_VERSION = 4, AT_ZERO = 6, AT_SEQUENCE = 8, AT_CRC = 12 };

static const uint8_t magic[4] = {'R', 'F', 'S', 'L'};

static uint32_t crc_of(const refold_slots *slots)
{
    uint32_t crc = refold_crc32(0, slots->buffer, AT_CRC);

    return refold_crc32(crc, refold_slots_payload(slots),
                        slots->bytes - REFOLD_SLOT_HEADER_BYTES);
}

/* Read a slot into the buffer; false where it holds no sound record. */
static bool read_slot(const refold_slots *slots, int slot)
{
    const uint8_t *header = slots->buffer;

    return slots->read(slots->user, slot, slots->buffer, slots->bytes) == slots->bytes &&
           memcmp(header + AT_MAGIC, magic, sizeof magic) == 0 &&
           get_u16(header + AT_VERSION) == VERSION && get_u16(header + AT_ZERO) == 0 &&
           get_u32(header + AT_CRC) == crc_of(slots);
}

/* Is sequence number a the later one? They wrap. */
static bool is_later(uint32_t a, uint32_t b)
{
    return a != b && a - b < 0x80000000u;
}

bool refold_slots_load(refold_slots *slots)
{
    slots->newest = -1;
    slots->sequence = 0;
    for (int slot = 0; slot < REFOLD_SLOTS; slot++) {
        uint32_t sequence;

        if (!read_slot(slots, slot))
            continue;
        sequence = get_u32(slots->buffer + AT_SEQUENCE);
        if (slots->newest < 0 || is_later(sequence, slots->sequence)) {
            slots->newest = slot;
            slots->sequence = sequence;
        }
    }
    return slots->newest >= 0 && read_slot(slots, slots->newest);
}

bool refold_slots_save(refold_slots *slots)
{
    int slot = slots->newest == 0 ? 1 : 0;
    uint32_t sequence = slots->sequence + 1;
    uint8_t *header = slots->buffer;

    memcpy(header + AT_MAGIC, magic, sizeof magic);
    put_u16(header + AT_VERSION, VERSION);
    put_u16(header + AT_ZERO, 0);
    put_u32(header + AT_SEQUENCE, sequence);
    put_u32(header + AT_CRC, crc_of(slots));
    if (!slots->write(slots->user, slot, slots->buffer, slots->bytes) ||
        !read_slot(slots, slot) || get_u32(header + AT_SEQUENCE) != sequence)
        return false;
    slots->newest = slot;
    slots->sequence = sequence;
    return true;
}
