/*
 * The ESP32-S3's SIMD unit in plain C: the host back end of pie.h.
 *
 * Internal. Semantics are those of the silicon (Technical Reference Manual v1.8,
 * sections 1.5 to 1.8): accumulators saturate at -2^39 and -2^19, fused forms
 * read every register before they load. For little-endian hosts. The state is
 * the caller's.
 */
#ifndef REFOLD_PIE_MODEL_H
#define REFOLD_PIE_MODEL_H

#include <stdint.h>

/* What an instruction mainly is; a fused load or store is not counted again. */
enum refold_pie_class {
    PIE_MAC,    /* multiply and accumulate */
    PIE_LOAD,
    PIE_STORE,
    PIE_LANES,  /* shuffles, comparisons, reading of accumulators */
    PIE_PLAIN,  /* scalar code, as the kernels declare it */
    PIE_CLASSES
};

typedef union refold_pie_q {
    int8_t s8[16];
    int16_t s16[8];
    uint32_t u32[4];
} refold_pie_q;

typedef struct refold_pie {
    refold_pie_q q[8];
    int64_t accx;    /* 40 bits, sign-extended */
    int64_t qacc[8]; /* 40-bit lanes; 20-bit lanes 2i and 2i + 1 are the halves of i */
    uint32_t count[PIE_CLASSES];
} refold_pie;

/* Zeroes everything. */
void refold_pie_reset(refold_pie *pie);

/* Loads and stores return the advanced pointer. */
void *refold_pie_vld_128(refold_pie *pie, int qu, const void *as, intptr_t step);
void refold_pie_vldbc_16(refold_pie *pie, int qu, const void *as);
void refold_pie_vldbc_8(refold_pie *pie, int qu, const void *as);
void *refold_pie_vst_128(refold_pie *pie, int qv, void *as, intptr_t step);
void *refold_pie_vst_l_64(refold_pie *pie, int qv, void *as, intptr_t step);
void *refold_pie_ld_accx(refold_pie *pie, const void *as, intptr_t step);
void *refold_pie_st_accx(refold_pie *pie, void *as, intptr_t step);
/* `half` 0 is QACC_L; bits 127:0 (low) or 159:128 (high) of it. */
void *refold_pie_ld_qacc_low(refold_pie *pie, int half, const void *as, intptr_t step);
void *refold_pie_ld_qacc_high(refold_pie *pie, int half, const void *as, intptr_t step);
void *refold_pie_st_qacc_low(refold_pie *pie, int half, void *as, intptr_t step);
void *refold_pie_st_qacc_high(refold_pie *pie, int half, void *as, intptr_t step);

void refold_pie_zero_accx(refold_pie *pie);
void refold_pie_zero_qacc(refold_pie *pie);
void refold_pie_mov_s16_qacc(refold_pie *pie, int qu);
void *refold_pie_vmulas_s8_accx_ld(refold_pie *pie, int qu, const void *as,
                                   intptr_t step, int qx, int qy);
void *refold_pie_vmulas_s8_qacc_ld(refold_pie *pie, int qu, const void *as,
                                   intptr_t step, int qx, int qy);
void refold_pie_vmulas_s16_qacc(refold_pie *pie, int qx, int qy);
void *refold_pie_vmulas_s16_qacc_ld(refold_pie *pie, int qu, const void *as,
                                    intptr_t step, int qx, int qy);
void refold_pie_vsmulas_s16_qacc(refold_pie *pie, int qx, int qy, int sel);

void refold_pie_srcmb_s16_qacc(refold_pie *pie, int qu, uint32_t shift);
int32_t refold_pie_rur_accx_0(refold_pie *pie);

void refold_pie_zero_q(refold_pie *pie, int qu);
void refold_pie_xorq(refold_pie *pie, int qa, int qx, int qy);
void refold_pie_vmax_s8(refold_pie *pie, int qa, int qx, int qy);
void refold_pie_vmin_s8(refold_pie *pie, int qa, int qx, int qy);
void refold_pie_vmax_s16(refold_pie *pie, int qa, int qx, int qy);
void refold_pie_vmin_s16(refold_pie *pie, int qa, int qx, int qy);
void *refold_pie_vmax_s16_ld(refold_pie *pie, int qu, const void *as, int qa, int qx,
                             int qy);
void *refold_pie_vmin_s16_st(refold_pie *pie, int qv, void *as, int qa, int qx, int qy);
/* Both operands are read and written; `bytes` is the lane. */
void refold_pie_vzip(refold_pie *pie, int qs0, int qs1, int bytes);
void refold_pie_vunzip(refold_pie *pie, int qs0, int qs1, int bytes);

/* Who counts defines this; each kernel calls it once, when it is done. */
#if defined REFOLD_PIE_COUNT
void refold_pie_counted(const refold_pie *pie);
#define PIE_DONE() refold_pie_counted(pie)
#else
#define PIE_DONE() (void)pie
#endif
#define PIE_SCALAR(instructions) \
    ((void)(pie->count[PIE_PLAIN] += (uint32_t)(instructions)))

#define EE_VLD_128_IP(qu, as, imm) ((as) = refold_pie_vld_128(pie, qu, as, imm))
#define EE_VLD_128_XP(qu, as, ad) ((as) = refold_pie_vld_128(pie, qu, as, ad))
#define EE_VLDBC_16(qu, as) refold_pie_vldbc_16(pie, qu, as)
#define EE_VLDBC_8(qu, as) refold_pie_vldbc_8(pie, qu, as)
#define EE_VST_128_IP(qv, as, imm) ((as) = refold_pie_vst_128(pie, qv, as, imm))
#define EE_VST_128_XP(qv, as, ad) ((as) = refold_pie_vst_128(pie, qv, as, ad))
#define EE_VST_L_64_IP(qv, as, imm) ((as) = refold_pie_vst_l_64(pie, qv, as, imm))
#define EE_LD_ACCX_IP(as, imm) ((as) = refold_pie_ld_accx(pie, as, imm))
#define EE_ST_ACCX_IP(as, imm) ((as) = refold_pie_st_accx(pie, as, imm))
#define EE_LD_QACC_L_L_128_IP(as, imm) ((as) = refold_pie_ld_qacc_low(pie, 0, as, imm))
#define EE_LD_QACC_L_H_32_IP(as, imm) ((as) = refold_pie_ld_qacc_high(pie, 0, as, imm))
#define EE_LD_QACC_H_L_128_IP(as, imm) ((as) = refold_pie_ld_qacc_low(pie, 1, as, imm))
#define EE_LD_QACC_H_H_32_IP(as, imm) ((as) = refold_pie_ld_qacc_high(pie, 1, as, imm))
#define EE_ST_QACC_L_L_128_IP(as, imm) ((as) = refold_pie_st_qacc_low(pie, 0, as, imm))
#define EE_ST_QACC_L_H_32_IP(as, imm) ((as) = refold_pie_st_qacc_high(pie, 0, as, imm))
#define EE_ST_QACC_H_L_128_IP(as, imm) ((as) = refold_pie_st_qacc_low(pie, 1, as, imm))
#define EE_ST_QACC_H_H_32_IP(as, imm) ((as) = refold_pie_st_qacc_high(pie, 1, as, imm))
#define EE_ZERO_ACCX() refold_pie_zero_accx(pie)
#define EE_ZERO_QACC() refold_pie_zero_qacc(pie)
#define EE_MOV_S16_QACC(qu) refold_pie_mov_s16_qacc(pie, qu)
#define EE_VMULAS_S8_ACCX_LD_IP(qu, as, imm, qx, qy) \
    ((as) = refold_pie_vmulas_s8_accx_ld(pie, qu, as, imm, qx, qy))
#define EE_VMULAS_S8_QACC_LD_XP(qu, as, ad, qx, qy) \
    ((as) = refold_pie_vmulas_s8_qacc_ld(pie, qu, as, ad, qx, qy))
#define EE_VMULAS_S16_QACC(qx, qy) refold_pie_vmulas_s16_qacc(pie, qx, qy)
#define EE_VMULAS_S16_QACC_LD_IP(qu, as, imm, qx, qy) \
    ((as) = refold_pie_vmulas_s16_qacc_ld(pie, qu, as, imm, qx, qy))
#define EE_VMULAS_S16_QACC_LD_XP(qu, as, ad, qx, qy) \
    ((as) = refold_pie_vmulas_s16_qacc_ld(pie, qu, as, ad, qx, qy))
#define EE_VSMULAS_S16_QACC(qx, qy, sel) refold_pie_vsmulas_s16_qacc(pie, qx, qy, sel)
#define EE_SRCMB_S16_QACC(qu, shift) refold_pie_srcmb_s16_qacc(pie, qu, shift)
#define EE_RUR_ACCX_0(au) ((au) = refold_pie_rur_accx_0(pie))
#define EE_ZERO_Q(qu) refold_pie_zero_q(pie, qu)
#define EE_XORQ(qa, qx, qy) refold_pie_xorq(pie, qa, qx, qy)
#define EE_VMAX_S8(qa, qx, qy) refold_pie_vmax_s8(pie, qa, qx, qy)
#define EE_VMIN_S8(qa, qx, qy) refold_pie_vmin_s8(pie, qa, qx, qy)
#define EE_VMAX_S16(qa, qx, qy) refold_pie_vmax_s16(pie, qa, qx, qy)
#define EE_VMIN_S16(qa, qx, qy) refold_pie_vmin_s16(pie, qa, qx, qy)
#define EE_VMAX_S16_LD_INCP(qu, as, qa, qx, qy) \
    ((as) = refold_pie_vmax_s16_ld(pie, qu, as, qa, qx, qy))
#define EE_VMIN_S16_ST_INCP(qv, as, qa, qx, qy) \
    ((as) = refold_pie_vmin_s16_st(pie, qv, as, qa, qx, qy))
#define EE_VZIP_8(qs0, qs1) refold_pie_vzip(pie, qs0, qs1, 1)
#define EE_VUNZIP_8(qs0, qs1) refold_pie_vunzip(pie, qs0, qs1, 1)
#define EE_VUNZIP_16(qs0, qs1) refold_pie_vunzip(pie, qs0, qs1, 2)
#define EE_VUNZIP_32(qs0, qs1) refold_pie_vunzip(pie, qs0, qs1, 4)

#endif
