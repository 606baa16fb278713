/* Plain-C model of the ESP32-S3's SIMD instructions; see pie_model.h. */
#include "pie_model.h"

#include <string.h>

#if defined REFOLD_ESP32S3 && !defined __XTENSA__

static int64_t sign_extend(uint64_t value, int bits)
{
    uint64_t sign = (uint64_t)1 << (bits - 1);

    value &= 2 * sign - 1;
    return (int64_t)((value ^ sign) - sign);
}

static int64_t saturate(int64_t value, int bits)
{
    int64_t most = ((int64_t)1 << (bits - 1)) - 1;

    return value > most ? most : value < -most - 1 ? -most - 1 : value;
}

/* The address that an access of `size` bytes really uses. */
static void *align_down(const void *as, uintptr_t size)
{
    return (void *)((uintptr_t)as & ~(size - 1));
}

static void *advance(const void *as, intptr_t step)
{
    return (void *)((uintptr_t)as + (uintptr_t)step);
}

void refold_pie_reset(refold_pie *pie)
{
    memset(pie, 0, sizeof *pie);
}

/* --- loads and stores ---------------------------------------------------- */

static void load(refold_pie *pie, int qu, const void *as)
{
    memcpy(&pie->q[qu], align_down(as, 16), 16);
}

void *refold_pie_vld_128(refold_pie *pie, int qu, const void *as, intptr_t step)
{
    pie->count[PIE_LOAD]++;
    load(pie, qu, as);
    return advance(as, step);
}

void refold_pie_vldbc_16(refold_pie *pie, int qu, const void *as)
{
    pie->count[PIE_LOAD]++;
    for (int i = 0; i < 8; i++)
        memcpy(&pie->q[qu].s16[i], align_down(as, 2), 2);
}

void refold_pie_vldbc_8(refold_pie *pie, int qu, const void *as)
{
    pie->count[PIE_LOAD]++;
    memset(&pie->q[qu], *(const uint8_t *)as, 16);
}

void *refold_pie_vst_128(refold_pie *pie, int qv, void *as, intptr_t step)
{
    pie->count[PIE_STORE]++;
    memcpy(align_down(as, 16), &pie->q[qv], 16);
    return advance(as, step);
}

void *refold_pie_vst_l_64(refold_pie *pie, int qv, void *as, intptr_t step)
{
    pie->count[PIE_STORE]++;
    memcpy(align_down(as, 8), &pie->q[qv], 8);
    return advance(as, step);
}

void *refold_pie_ld_accx(refold_pie *pie, const void *as, intptr_t step)
{
    uint64_t bits;

    pie->count[PIE_LOAD]++;
    memcpy(&bits, align_down(as, 8), 8);
    pie->accx = sign_extend(bits, 40);
    return advance(as, step);
}

void *refold_pie_st_accx(refold_pie *pie, void *as, intptr_t step)
{
    uint64_t bits = (uint64_t)pie->accx & 0xFFFFFFFFFF;

    pie->count[PIE_STORE]++;
    memcpy(align_down(as, 8), &bits, 8);
    return advance(as, step);
}

/* The 20 bytes of one half of QACC. */
static void get_half(const refold_pie *pie, int half, uint8_t bytes[20])
{
    for (int i = 0; i < 4; i++)
        memcpy(bytes + 5 * i, &pie->qacc[4 * half + i], 5);
}

static void set_half(refold_pie *pie, int half, const uint8_t bytes[20])
{
    for (int i = 0; i < 4; i++) {
        uint64_t bits = 0;
        memcpy(&bits, bytes + 5 * i, 5);
        pie->qacc[4 * half + i] = sign_extend(bits, 40);
    }
}

static void load_half(refold_pie *pie, int half, const void *as, int first, int bytes)
{
    uint8_t image[20];

    pie->count[PIE_LOAD]++;
    get_half(pie, half, image);
    memcpy(image + first, align_down(as, (uintptr_t)bytes), (size_t)bytes);
    set_half(pie, half, image);
}

static void store_half(refold_pie *pie, int half, void *as, int first, int bytes)
{
    uint8_t image[20];

    pie->count[PIE_STORE]++;
    get_half(pie, half, image);
    memcpy(align_down(as, (uintptr_t)bytes), image + first, (size_t)bytes);
}

void *refold_pie_ld_qacc_low(refold_pie *pie, int half, const void *as, intptr_t step)
{
    load_half(pie, half, as, 0, 16);
    return advance(as, step);
}

void *refold_pie_ld_qacc_high(refold_pie *pie, int half, const void *as, intptr_t step)
{
    load_half(pie, half, as, 16, 4);
    return advance(as, step);
}

void *refold_pie_st_qacc_low(refold_pie *pie, int half, void *as, intptr_t step)
{
    store_half(pie, half, as, 0, 16);
    return advance(as, step);
}

void *refold_pie_st_qacc_high(refold_pie *pie, int half, void *as, intptr_t step)
{
    store_half(pie, half, as, 16, 4);
    return advance(as, step);
}

/* --- multiply and accumulate --------------------------------------------- */

void refold_pie_zero_accx(refold_pie *pie)
{
    pie->count[PIE_LANES]++;
    pie->accx = 0;
}

void refold_pie_zero_qacc(refold_pie *pie)
{
    pie->count[PIE_LANES]++;
    memset(pie->qacc, 0, sizeof pie->qacc);
}

void refold_pie_mov_s16_qacc(refold_pie *pie, int qu)
{
    pie->count[PIE_LANES]++;
    for (int i = 0; i < 8; i++)
        pie->qacc[i] = pie->q[qu].s16[i];
}

void *refold_pie_vmulas_s8_accx_ld(refold_pie *pie, int qu, const void *as,
                                   intptr_t step, int qx, int qy)
{
    int32_t sum = 0;

    pie->count[PIE_MAC]++;
    for (int i = 0; i < 16; i++)
        sum += pie->q[qx].s8[i] * pie->q[qy].s8[i];
    pie->accx = saturate(pie->accx + sum, 40);
    load(pie, qu, as);
    return advance(as, step);
}

/* Lane `half` of the two 20-bit lanes in a 40-bit one. */
static int64_t add_to_half(int64_t lane, int half, int product)
{
    uint64_t low = (uint64_t)lane & 0xFFFFF;
    uint64_t high = (uint64_t)lane >> 20 & 0xFFFFF;
    uint64_t *chosen = half ? &high : &low;

    *chosen = (uint64_t)saturate(sign_extend(*chosen, 20) + product, 20) & 0xFFFFF;
    return sign_extend(high << 20 | low, 40);
}

void *refold_pie_vmulas_s8_qacc_ld(refold_pie *pie, int qu, const void *as,
                                   intptr_t step, int qx, int qy)
{
    pie->count[PIE_MAC]++;
    for (int i = 0; i < 16; i++)
        pie->qacc[i / 2] = add_to_half(pie->qacc[i / 2], i % 2,
                                       pie->q[qx].s8[i] * pie->q[qy].s8[i]);
    load(pie, qu, as);
    return advance(as, step);
}

void refold_pie_vmulas_s16_qacc(refold_pie *pie, int qx, int qy)
{
    pie->count[PIE_MAC]++;
    for (int i = 0; i < 8; i++)
        pie->qacc[i] =
            saturate(pie->qacc[i] + pie->q[qx].s16[i] * pie->q[qy].s16[i], 40);
}

void *refold_pie_vmulas_s16_qacc_ld(refold_pie *pie, int qu, const void *as,
                                    intptr_t step, int qx, int qy)
{
    refold_pie_vmulas_s16_qacc(pie, qx, qy);
    load(pie, qu, as);
    return advance(as, step);
}

void refold_pie_vsmulas_s16_qacc(refold_pie *pie, int qx, int qy, int sel)
{
    pie->count[PIE_MAC]++;
    for (int i = 0; i < 8; i++)
        pie->qacc[i] =
            saturate(pie->qacc[i] + pie->q[qx].s16[i] * pie->q[qy].s16[sel], 40);
}

/* --- results ------------------------------------------------------------- */

/* The shift floors and stays in QACC. */
void refold_pie_srcmb_s16_qacc(refold_pie *pie, int qu, uint32_t shift)
{
    pie->count[PIE_LANES]++;
    for (int i = 0; i < 8; i++) {
        pie->qacc[i] >>= shift & 63;
        pie->q[qu].s16[i] = (int16_t)saturate(pie->qacc[i], 16);
    }
}

int32_t refold_pie_rur_accx_0(refold_pie *pie)
{
    pie->count[PIE_LANES]++;
    return (int32_t)(uint32_t)pie->accx;
}

/* --- lanes --------------------------------------------------------------- */

void refold_pie_zero_q(refold_pie *pie, int qu)
{
    pie->count[PIE_LANES]++;
    memset(&pie->q[qu], 0, 16);
}

void refold_pie_xorq(refold_pie *pie, int qa, int qx, int qy)
{
    pie->count[PIE_LANES]++;
    for (int i = 0; i < 4; i++)
        pie->q[qa].u32[i] = pie->q[qx].u32[i] ^ pie->q[qy].u32[i];
}

#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define LANE_BY_LANE(name, lane, lanes, choose)                        \
    void name(refold_pie *pie, int qa, int qx, int qy)                 \
    {                                                                  \
        pie->count[PIE_LANES]++;                                       \
        for (int i = 0; i < lanes; i++)                                \
            pie->q[qa].lane[i] =                                       \
                choose(pie->q[qx].lane[i], pie->q[qy].lane[i]);        \
    }

LANE_BY_LANE(refold_pie_vmax_s8, s8, 16, MAX)
LANE_BY_LANE(refold_pie_vmin_s8, s8, 16, MIN)
LANE_BY_LANE(refold_pie_vmax_s16, s16, 8, MAX)
LANE_BY_LANE(refold_pie_vmin_s16, s16, 8, MIN)

void *refold_pie_vmax_s16_ld(refold_pie *pie, int qu, const void *as, int qa, int qx,
                             int qy)
{
    refold_pie_vmax_s16(pie, qa, qx, qy);
    load(pie, qu, as);
    return advance(as, 16);
}

void *refold_pie_vmin_s16_st(refold_pie *pie, int qv, void *as, int qa, int qx, int qy)
{
    memcpy(align_down(as, 16), &pie->q[qv], 16);
    refold_pie_vmin_s16(pie, qa, qx, qy);
    return advance(as, 16);
}

void refold_pie_vzip(refold_pie *pie, int qs0, int qs1, int bytes)
{
    uint8_t zipped[32];
    const uint8_t *a = (const uint8_t *)&pie->q[qs0];
    const uint8_t *b = (const uint8_t *)&pie->q[qs1];

    pie->count[PIE_LANES]++;
    for (int i = 0; i < 16; i += bytes) {
        memcpy(zipped + 2 * i, a + i, (size_t)bytes);
        memcpy(zipped + 2 * i + bytes, b + i, (size_t)bytes);
    }
    memcpy(&pie->q[qs0], zipped, 16);
    memcpy(&pie->q[qs1], zipped + 16, 16);
}

void refold_pie_vunzip(refold_pie *pie, int qs0, int qs1, int bytes)
{
    uint8_t both[32];
    uint8_t *even = (uint8_t *)&pie->q[qs0];
    uint8_t *odd = (uint8_t *)&pie->q[qs1];

    pie->count[PIE_LANES]++;
    memcpy(both, even, 16);
    memcpy(both + 16, odd, 16);
    for (int i = 0; i < 16; i += bytes) {
        memcpy(even + i, both + 2 * i, (size_t)bytes);
        memcpy(odd + i, both + 2 * i + bytes, (size_t)bytes);
    }
}

#endif
