/* Little-endian fields at any alignment, on machines of any byte order. */
#ifndef REFOLD_LINK_BYTES_H
#define REFOLD_LINK_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint16_t get_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t get_u32(const uint8_t *p)
{
    return get_u16(p) | (uint32_t)get_u16(p + 2) << 16;
}

static inline float get_f32(const uint8_t *p)
{
    uint32_t bits = get_u32(p);
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void put_u16(uint8_t *p, uint16_t value)
{
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
}

static inline void put_u32(uint8_t *p, uint32_t value)
{
    put_u16(p, (uint16_t)value);
    put_u16(p + 2, (uint16_t)(value >> 16));
}

static inline void put_f32(uint8_t *p, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    put_u32(p, bits);
}

#endif
