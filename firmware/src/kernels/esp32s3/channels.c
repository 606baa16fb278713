/* Requantisation and statistics of a pixel's channels; see channels.h. */
#include "channels.h"

#include <string.h>

#if defined REFOLD_ESP32S3

#define SPLIT 0x8000 /* makes the low half of an accumulator signed */
#define PREFETCH 64  /* bytes past `acc` that the last round loads */
/*
 * A lane's 40 bits hold the squares of so many times -2^15 where they begin near its
 * least value, -2^39: not at it, where emulators saturate, but with low words of 0.
 */
#define MOST_SUMMED 1019
#define LEAST_LANE (-127 * ((int64_t)1 << 32))
#define IMAGE PIE_IMAGE_BYTES

static int bounded(int value, int least, int most)
{
    return value < least ? least : value > most ? most : value;
}

/* Blocks and batches save instructions a pixel; 2 KB and 4 KB bound what they take. */
static int block_of(int padded)
{
    return bounded(256 / padded, 1, 8);
}

static int batch_of(int padded)
{
    return bounded(2048 / padded / 8 * 8, 8, 128);
}

size_t refold_channels_bytes(int padded)
{
    int block = block_of(padded);
    int tables = 8 + IMAGE / 8 + 2 + 2 * IMAGE / 8;
    int a_channel = tables + 8 * block + 2 * batch_of(padded);

    return (size_t)(padded * a_channel + refold_round_up(block * padded, 16) + PREFETCH);
}

static void carve(refold_channels *ch, uint8_t *at)
{
    size_t n = (size_t)ch->padded;

    ch->a = (int16_t *)(void *)at; /* first: two rows past it are loaded, not used */
    ch->next = ch->a;
    ch->full = ch->a + n * (size_t)(ch->batch - ch->block);
    at += 2 * n * (size_t)ch->batch;
    ch->start = (int32_t (*)[2])(void *)at;
    at += 8 * n;
    ch->acc = (int32_t (*)[2])(void *)at;
    at += 8 * n * (size_t)ch->block + PREFETCH;
    ch->bias = at;
    at += n / 8 * IMAGE;
    ch->m = (int16_t *)(void *)at;
    at += 2 * n;
    ch->sums = at;
    at += n / 8 * 2 * IMAGE;
    ch->result = (int8_t *)at;
}

/* Where the 40-bit lane of channel c lies in its QACC image. */
static uint8_t *lane40(uint8_t *images, int c)
{
    return images + c / 8 * IMAGE + c % 8 / 4 * 32 + c % 4 * 5;
}

void refold_channels_init(refold_channels *ch, const refold_conv2d_params *p,
                          const refold_requant *requant, int padded, void *scratch,
                          const refold_moments *moments, refold_pie *pie)
{
    memset(ch, 0, sizeof *ch);
    ch->count = p->out.c;
    ch->padded = padded;
    ch->block = block_of(padded);
    ch->batch = batch_of(padded);
    ch->shift = requant->shift - 16;
    ch->lo = requant->lo;
    ch->hi = requant->hi;
    ch->moments = moments;
    carve(ch, scratch);
    for (int c = 0; c < padded; c++) {
        int real = c < ch->count ? c : 0; /* what is padded repeats a channel */
        ch->start[c][0] = p->offset[real] + SPLIT;
        ch->start[c][1] = 1;
        ch->m[c] = requant->m[real];
        memcpy(lane40(ch->bias, c), &requant->b[real], 5);
        PIE_SCALAR(40);
    }
    if (moments) {
        ch->a_shift = moments->shift;
        ch->a_scale = (int16_t)(1 << (moments->shift < 2 ? 14 - moments->shift
                                                         : 16 - moments->shift));
    }
}

/*
 * `pixels` of the block, eight channels a round. With lo and hi the halves of acc,
 *
 *     q = (lo * m + B >> 16) + hi * m >> s - 16        clamped
 *     a = (lo >> k) + hi * 2^(16 - k)                  saturated to 16 bits
 *
 * `factors` says in how many products of a_scale hi * 2^(16-k) is added: 0 no
 * statistics, 1, or 4 where 2^(16-k) is no int16. Loads of the next round ride
 * on the arithmetic of this one. Returns what follows in `a`.
 */
PIE_INLINE int16_t *requantise(const refold_channels *ch, int pixels, int8_t *out,
                               int16_t *a, int factors, refold_pie *pie)
{
    const int32_t(*acc)[2] = (const int32_t(*)[2])ch->acc;
    const int16_t split = (int16_t)(SPLIT - 0x10000);
    const int16_t *a_scale = &ch->a_scale;
    int32_t sixteen = 16, zero = 0, shift = ch->shift, a_shift = ch->a_shift;
    int rounds = ch->padded / REFOLD_S3_LANES;

    EE_VLDBC_16(5, &ch->hi);
    EE_VLDBC_16(6, &ch->lo);
    EE_VLDBC_16(7, &split);
    EE_VLD_128_IP(0, acc, 16);
    EE_VLD_128_IP(1, acc, 16);
    EE_VLD_128_IP(2, acc, 16);
    PIE_SCALAR(30);
    for (; pixels > 0; pixels--) {
        const int16_t *m = ch->m;
        const uint8_t *bias = ch->bias;
        int left = rounds;
        do {
            EE_VLD_128_IP(3, acc, 16);
            EE_VUNZIP_32(0, 1);
            EE_VUNZIP_32(2, 3);
            EE_VUNZIP_16(0, 2);
            EE_XORQ(0, 0, 7);
            if (factors) {
                EE_VLDBC_16(4, a_scale);
                EE_MOV_S16_QACC(0);
                EE_SRCMB_S16_QACC(3, a_shift);
                for (int i = 1; i < factors; i++)
                    EE_VMULAS_S16_QACC(2, 4);
                EE_VMULAS_S16_QACC_LD_IP(4, m, 16, 2, 4);
                EE_SRCMB_S16_QACC(3, zero);
            } else {
                EE_VLD_128_IP(4, m, 16);
            }
            PIE_LD_QACC(bias);
            EE_VMULAS_S16_QACC_LD_IP(0, acc, 16, 0, 4);
            EE_SRCMB_S16_QACC(1, sixteen);
            EE_VMULAS_S16_QACC_LD_IP(1, acc, 16, 2, 4);
            EE_SRCMB_S16_QACC(4, shift);
            EE_VMAX_S16_LD_INCP(2, acc, 4, 4, 6);
            if (factors)
                EE_VMIN_S16_ST_INCP(3, a, 4, 4, 5);
            else
                EE_VMIN_S16(4, 4, 5);
            EE_VUNZIP_8(4, 3);
            EE_VST_L_64_IP(4, out, 8);
            PIE_SCALAR(2);
        } while (--left != 0);
        PIE_SCALAR(5);
    }
    return a;
}

/* Add two or eight rows, which q0 and q1 hold in turn, times the registers y and z. */
#define TWO_ROWS(y, z)                            \
    EE_VMULAS_S16_QACC_LD_XP(0, a, stride, 0, y); \
    EE_VMULAS_S16_QACC_LD_XP(1, a, stride, 1, z)
#define EIGHT_ROWS(y, z) \
    TWO_ROWS(y, z);      \
    TWO_ROWS(y, z);      \
    TWO_ROWS(y, z);      \
    TWO_ROWS(y, z)
#define ROWS_OF(squares)      \
    do {                      \
        if (squares) {        \
            EIGHT_ROWS(0, 1); \
        } else {              \
            EIGHT_ROWS(2, 2); \
        }                     \
    } while (0)

/* Four lanes of 40 bits, each LEAST_LANE, in a slot of an image. */
#define LEAST_SLOT 0, 0x81, 0x8100, 0x810000, 0x81000000u, 0, 0, 0

static const uint32_t least_lanes[IMAGE / 4] PIE_ALIGNED = {LEAST_SLOT, LEAST_SLOT};

static const uint32_t no_lanes[IMAGE / 4] PIE_ALIGNED = {0};

/* Add eight channels of `pixels` rows, or their squares, to `from`; q2 = 1. */
PIE_INLINE void sum_pixels(const int16_t *a, int pixels, int stride, const void *from,
                           uint8_t *image, bool squares, refold_pie *pie)
{
    PIE_LD_QACC(from);
    EE_VLD_128_XP(0, a, stride);
    EE_VLD_128_XP(1, a, stride);
    for (int pairs = pixels / 16; pairs > 0; pairs--) {
        ROWS_OF(squares);
        ROWS_OF(squares);
        PIE_SCALAR(2);
    }
    if (pixels % 16 != 0)
        ROWS_OF(squares);
    PIE_ST_QACC(image);
    PIE_SCALAR(7);
}

/*
 * The 40-bit lane i of the four in a slot of a QACC image, above where it began: of
 * squares LEAST_LANE, of sums 0. Sums fit 32 bits.
 */
PIE_INLINE int64_t read_lane(const uint32_t *slot, int i, bool squares)
{
    uint64_t pair = (uint64_t)slot[i + 1] << 32 | slot[i];
    uint32_t low = (uint32_t)(pair >> (8 * i));
    int8_t top = (int8_t)(slot[i + 1] >> (8 * i));

    return squares ? (int64_t)((uint64_t)(int64_t)top << 32 | low) - LEAST_LANE
                   : (int32_t)low;
}

/* Add the lanes of a slot to sums[0..3], or begin those. */
PIE_INLINE void read_slot(const uint8_t *image, bool squares, bool first, int64_t *sums)
{
    const uint32_t *slot = (const uint32_t *)(const void *)image;

    sums[0] = (first ? 0 : sums[0]) + read_lane(slot, 0, squares);
    sums[1] = (first ? 0 : sums[1]) + read_lane(slot, 1, squares);
    sums[2] = (first ? 0 : sums[2]) + read_lane(slot, 2, squares);
    sums[3] = (first ? 0 : sums[3]) + read_lane(slot, 3, squares);
}

/* As read_slot, of a slot's first `count` lanes. */
static void read_part(const uint8_t *image, bool squares, bool first, int64_t *sums,
                      int count)
{
    int64_t four[4];

    read_slot(image, squares, true, four);
    for (int i = 0; i < count; i++)
        sums[i] = (first ? 0 : sums[i]) + four[i];
}

PIE_INLINE void read_sums(const refold_channels *ch, bool first, refold_pie *pie)
{
    int64_t *s1 = ch->moments->s1, *s2 = ch->moments->s2;
    int c = 0;

    for (; c + 4 <= ch->count; c += 4) {
        const uint8_t *image = ch->sums + c / 8 * 2 * IMAGE + c % 8 / 4 * 32;
        read_slot(image, true, first, s2 + c);
        read_slot(image + IMAGE, false, first, s1 + c);
        PIE_SCALAR(first ? 68 : 116);
    }
    if (c < ch->count) {
        const uint8_t *image = ch->sums + c / 8 * 2 * IMAGE + c % 8 / 4 * 32;
        read_part(image, true, first, s2 + c, ch->count - c);
        read_part(image + IMAGE, false, first, s1 + c, ch->count - c);
        PIE_SCALAR(160);
    }
}

/* Bring the sums into the moments, of which the first time none exist. */
static void flush(refold_channels *ch, refold_pie *pie)
{
    if (ch->flushed)
        read_sums(ch, false, pie);
    else
        read_sums(ch, true, pie);
    ch->flushed = true;
    ch->summed = 0;
    PIE_SCALAR(20);
}

/* Sum the batch, filled up with zeros to whole rounds of eight. */
static void absorb(refold_channels *ch, refold_pie *pie)
{
    const int16_t one = 1;
    int padded = ch->padded, stride = 2 * padded;
    int held = (int)(ch->next - ch->a) / padded;
    int pixels = refold_round_up(held, 8);
    const int16_t *a = ch->a;
    uint8_t *image = ch->sums;

    if (ch->summed + pixels > MOST_SUMMED)
        flush(ch, pie);
    if (held < pixels)
        memset(ch->next, 0, (size_t)((pixels - held) * stride));
    bool begin = ch->summed == 0;
    EE_VLDBC_16(2, &one);
    for (int c = 0; c < padded; c += REFOLD_S3_LANES, image += 2 * IMAGE) {
        const void *squares = begin ? (const void *)least_lanes : image;
        const void *sums = begin ? (const void *)no_lanes : image + IMAGE;
        sum_pixels(a + c, pixels, stride, squares, image, true, pie);
        sum_pixels(a + c, pixels, stride, sums, image + IMAGE, false, pie);
        PIE_SCALAR(8);
    }
    ch->summed += pixels;
    ch->next = ch->a;
    PIE_SCALAR(40);
}

static void copy_result(const refold_channels *ch, int8_t *out, int pixels,
                        refold_pie *pie)
{
    const int8_t *result = ch->result;

    for (; pixels > 0; pixels--, out += ch->count, result += ch->padded) {
        memcpy(out, result, (size_t)ch->count);
        PIE_SCALAR(20 + ch->count);
    }
}

void refold_channels_pixels(refold_channels *ch, int8_t *out, int pixels,
                            refold_pie *pie)
{
    bool direct = out != NULL && ch->padded == ch->count;
    int8_t *to = direct ? out : ch->result;

    if (ch->moments == NULL) {
        requantise(ch, pixels, to, NULL, 0, pie);
    } else {
        if (ch->next > ch->full)
            absorb(ch, pie);
        if (ch->a_shift < 2)
            ch->next = requantise(ch, pixels, to, ch->next, 4, pie);
        else
            ch->next = requantise(ch, pixels, to, ch->next, 1, pie);
    }
    if (out != NULL && !direct)
        copy_result(ch, out, pixels, pie);
}

void refold_channels_finish(refold_channels *ch, refold_pie *pie)
{
    if (ch->moments == NULL)
        return;
    if (ch->next != ch->a)
        absorb(ch, pie);
    flush(ch, pie);
}

void refold_channels_unpack(const int32_t (*start)[2], int32_t (*acc)[2],
                            refold_pie *pie)
{
    uint32_t image[IMAGE / 4] PIE_ALIGNED = {0};
    uint32_t *at = image;

    PIE_ST_QACC(at);
    for (int i = 0; i < 16; i++)
        acc[i][0] = start[i][0] + refold_lane20(image + i / 8 * 8, i % 8);
    PIE_SCALAR(24 + 16 * 7);
}

#endif
