/*
 * Four bytes a step ("slicing by 4"). Entry i of table k is the CRC register
 * after byte i and k zero bytes. The register is linear over GF(2), so an entry
 * is the exclusive or of what the bits of i give alone; those are consecutive
 * states of the register shifting a single 1, listed below from bit 7 to bit 0.
 */
#include "crc32.h"

#define BIT(i, n, value) ((i) >> (n)&1 ? (value) : 0u)
#define ENTRY(i, b7, b6, b5, b4, b3, b2, b1, b0)                          \
    (BIT(i, 7, b7##u) ^ BIT(i, 6, b6##u) ^ BIT(i, 5, b5##u) ^             \
     BIT(i, 4, b4##u) ^ BIT(i, 3, b3##u) ^ BIT(i, 2, b2##u) ^             \
     BIT(i, 1, b1##u) ^ BIT(i, 0, b0##u))

#define SLICE0(i) ENTRY(i, 0xEDB88320, 0x76DC4190, 0x3B6E20C8, 0x1DB71064, \
                        0x0EDB8832, 0x076DC419, 0xEE0E612C, 0x77073096)
#define SLICE1(i) ENTRY(i, 0x3B83984B, 0xF0794F05, 0x958424A2, 0x4AC21251, \
                        0xC8D98A08, 0x646CC504, 0x32366282, 0x191B3141)
#define SLICE2(i) ENTRY(i, 0xE1351B80, 0x709A8DC0, 0x384D46E0, 0x1C26A370, \
                        0x0E1351B8, 0x0709A8DC, 0x0384D46E, 0x01C26A37)
#define SLICE3(i) ENTRY(i, 0xED59B63B, 0x9B14583D, 0xA032AF3E, 0x5019579F, \
                        0xC5B428EF, 0x8F629757, 0xAA09C88B, 0xB8BC6765)

#define FOUR(f, i) f(i), f((i) + 1), f((i) + 2), f((i) + 3)
#define SIXTEEN(f, i) FOUR(f, i), FOUR(f, (i) + 4), FOUR(f, (i) + 8), FOUR(f, (i) + 12)
#define SIXTY_FOUR(f, i) \
    SIXTEEN(f, i), SIXTEEN(f, (i) + 16), SIXTEEN(f, (i) + 32), SIXTEEN(f, (i) + 48)
#define TABLE(f) \
    {SIXTY_FOUR(f, 0), SIXTY_FOUR(f, 64), SIXTY_FOUR(f, 128), SIXTY_FOUR(f, 192)}

static const uint32_t table[4][256] = {TABLE(SLICE0), TABLE(SLICE1), TABLE(SLICE2),
                                       TABLE(SLICE3)};

uint32_t refold_crc32(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *p = data;

    crc = ~crc;
    for (; bytes >= 4; bytes -= 4, p += 4) {
        crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
               (uint32_t)p[3] << 24;
        crc = table[3][crc & 255] ^ table[2][crc >> 8 & 255] ^
              table[1][crc >> 16 & 255] ^ table[0][crc >> 24];
    }
    for (; bytes > 0; bytes--, p++) {
        crc = table[0][(crc ^ *p) & 255] ^ crc >> 8;
    }
    return ~crc;
}
