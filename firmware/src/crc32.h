/*
 * CRC-32 of IEEE 802.3 (reflected polynomial 0xEDB88320), the one of zlib: it
 * guards the frames of the link and the saved adaptation state.
 */
#ifndef REFOLD_CRC32_H
#define REFOLD_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Continue `crc` over `data`; the CRC of nothing, where to start, is 0. */
uint32_t refold_crc32(uint32_t crc, const void *data, size_t bytes);

#endif
