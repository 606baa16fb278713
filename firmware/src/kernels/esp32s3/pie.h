/*
 * The ESP32-S3's SIMD instructions (EE.*), one macro an instruction form.
 *
 * Internal. On the chip a macro is the instruction; elsewhere it calls the C
 * model of pie_model.h, which behaves like the silicon and counts. Kernels are
 * written once, in these macros.
 *
 * qu, qx, ... are register numbers 0..7 and `imm` is a decimal literal: both
 * become assembly text. `as` is a pointer variable and is advanced where the
 * mnemonic says so (.ip by imm, .xp by ad, .incp by 16). Accesses of 16, 8, 4
 * and 2 bytes drop the low bits of the address. Every user has a
 * `refold_pie *pie` in scope. The compiler knows neither q registers nor QACC
 * nor ACCX, so their contents do not survive a call of another kernel.
 *
 * tests/firmware_esp32s3/instructions.py lists the forms and their ranges.
 */
#ifndef REFOLD_PIE_H
#define REFOLD_PIE_H

#if defined __XTENSA__

typedef struct refold_pie {
    char unused; /* the state is the core's */
} refold_pie;

#define PIE_ASM(...)                      \
    do {                                  \
        (void)pie;                        \
        __asm__ volatile(__VA_ARGS__);    \
    } while (0)

/* What scalar code around the macros costs; the model adds it up. */
#define PIE_SCALAR(instructions) (void)pie
#define PIE_DONE() (void)pie

/* Loads and stores. */
#define EE_VLD_128_IP(qu, as, imm) \
    PIE_ASM("ee.vld.128.ip q" #qu ", %0, " #imm : "+r"(as) : : "memory")
#define EE_VLD_128_XP(qu, as, ad) \
    PIE_ASM("ee.vld.128.xp q" #qu ", %0, %1" : "+r"(as) : "r"(ad) : "memory")
#define EE_VLDBC_16(qu, as) PIE_ASM("ee.vldbc.16 q" #qu ", %0" : : "r"(as) : "memory")
#define EE_VLDBC_8(qu, as) PIE_ASM("ee.vldbc.8 q" #qu ", %0" : : "r"(as) : "memory")
#define EE_VST_128_IP(qv, as, imm) \
    PIE_ASM("ee.vst.128.ip q" #qv ", %0, " #imm : "+r"(as) : : "memory")
#define EE_VST_128_XP(qv, as, ad) \
    PIE_ASM("ee.vst.128.xp q" #qv ", %0, %1" : "+r"(as) : "r"(ad) : "memory")
#define EE_VST_L_64_IP(qv, as, imm) \
    PIE_ASM("ee.vst.l.64.ip q" #qv ", %0, " #imm : "+r"(as) : : "memory")
#define EE_LD_ACCX_IP(as, imm) \
    PIE_ASM("ee.ld.accx.ip %0, " #imm : "+r"(as) : : "memory")
#define EE_ST_ACCX_IP(as, imm) \
    PIE_ASM("ee.st.accx.ip %0, " #imm : "+r"(as) : : "memory")
#define EE_LD_QACC_L_L_128_IP(as, imm) \
    PIE_ASM("ee.ld.qacc_l.l.128.ip %0, " #imm : "+r"(as) : : "memory")
#define EE_LD_QACC_L_H_32_IP(as, imm) \
    PIE_ASM("ee.ld.qacc_l.h.32.ip %0, " #imm : "+r"(as) : : "memory")
#define EE_LD_QACC_H_L_128_IP(as, imm) \
    PIE_ASM("ee.ld.qacc_h.l.128.ip %0, " #imm : "+r"(as) : : "memory")
#define EE_LD_QACC_H_H_32_IP(as, imm) \
    PIE_ASM("ee.ld.qacc_h.h.32.ip %0, " #imm : "+r"(as) : : "memory")
#define EE_ST_QACC_L_L_128_IP(as, imm) \
    PIE_ASM("ee.st.qacc_l.l.128.ip %0, " #imm : "+r"(as) : : "memory")
#define EE_ST_QACC_L_H_32_IP(as, imm) \
    PIE_ASM("ee.st.qacc_l.h.32.ip %0, " #imm : "+r"(as) : : "memory")
#define EE_ST_QACC_H_L_128_IP(as, imm) \
    PIE_ASM("ee.st.qacc_h.l.128.ip %0, " #imm : "+r"(as) : : "memory")
#define EE_ST_QACC_H_H_32_IP(as, imm) \
    PIE_ASM("ee.st.qacc_h.h.32.ip %0, " #imm : "+r"(as) : : "memory")

/* Multiply and accumulate. */
#define EE_ZERO_ACCX() PIE_ASM("ee.zero.accx")
#define EE_ZERO_QACC() PIE_ASM("ee.zero.qacc")
#define EE_MOV_S16_QACC(qu) PIE_ASM("ee.mov.s16.qacc q" #qu)
#define EE_VMULAS_S8_ACCX_LD_IP(qu, as, imm, qx, qy)                              \
    PIE_ASM("ee.vmulas.s8.accx.ld.ip q" #qu ", %0, " #imm ", q" #qx ", q" #qy \
            : "+r"(as) : : "memory")
#define EE_VMULAS_S8_QACC_LD_XP(qu, as, ad, qx, qy)                             \
    PIE_ASM("ee.vmulas.s8.qacc.ld.xp q" #qu ", %0, %1, q" #qx ", q" #qy \
            : "+r"(as) : "r"(ad) : "memory")
#define EE_VMULAS_S16_QACC(qx, qy) PIE_ASM("ee.vmulas.s16.qacc q" #qx ", q" #qy)
#define EE_VMULAS_S16_QACC_LD_IP(qu, as, imm, qx, qy)                              \
    PIE_ASM("ee.vmulas.s16.qacc.ld.ip q" #qu ", %0, " #imm ", q" #qx ", q" #qy \
            : "+r"(as) : : "memory")
#define EE_VMULAS_S16_QACC_LD_XP(qu, as, ad, qx, qy)                             \
    PIE_ASM("ee.vmulas.s16.qacc.ld.xp q" #qu ", %0, %1, q" #qx ", q" #qy \
            : "+r"(as) : "r"(ad) : "memory")
#define EE_VSMULAS_S16_QACC(qx, qy, sel) \
    PIE_ASM("ee.vsmulas.s16.qacc q" #qx ", q" #qy ", " #sel)

/* Results. */
#define EE_SRCMB_S16_QACC(qu, shift) \
    PIE_ASM("ee.srcmb.s16.qacc q" #qu ", %0, 0" : : "r"(shift))
#define EE_RUR_ACCX_0(au) PIE_ASM("rur.accx_0 %0" : "=r"(au))

/* Lanes. */
#define EE_ZERO_Q(qu) PIE_ASM("ee.zero.q q" #qu)
#define EE_XORQ(qa, qx, qy) PIE_ASM("ee.xorq q" #qa ", q" #qx ", q" #qy)
#define EE_VMAX_S8(qa, qx, qy) PIE_ASM("ee.vmax.s8 q" #qa ", q" #qx ", q" #qy)
#define EE_VMIN_S8(qa, qx, qy) PIE_ASM("ee.vmin.s8 q" #qa ", q" #qx ", q" #qy)
#define EE_VMAX_S16(qa, qx, qy) PIE_ASM("ee.vmax.s16 q" #qa ", q" #qx ", q" #qy)
#define EE_VMIN_S16(qa, qx, qy) PIE_ASM("ee.vmin.s16 q" #qa ", q" #qx ", q" #qy)
#define EE_VMAX_S16_LD_INCP(qu, as, qa, qx, qy)                                 \
    PIE_ASM("ee.vmax.s16.ld.incp q" #qu ", %0, q" #qa ", q" #qx ", q" #qy \
            : "+r"(as) : : "memory")
#define EE_VMIN_S16_ST_INCP(qv, as, qa, qx, qy)                                 \
    PIE_ASM("ee.vmin.s16.st.incp q" #qv ", %0, q" #qa ", q" #qx ", q" #qy \
            : "+r"(as) : : "memory")
#define EE_VZIP_8(qs0, qs1) PIE_ASM("ee.vzip.8 q" #qs0 ", q" #qs1)
#define EE_VUNZIP_8(qs0, qs1) PIE_ASM("ee.vunzip.8 q" #qs0 ", q" #qs1)
#define EE_VUNZIP_16(qs0, qs1) PIE_ASM("ee.vunzip.16 q" #qs0 ", q" #qs1)
#define EE_VUNZIP_32(qs0, qs1) PIE_ASM("ee.vunzip.32 q" #qs0 ", q" #qs1)

#else
#include "pie_model.h"
#endif

/* All of QACC, from or to the 64 bytes of one image: two slots of 32. */
#define PIE_IMAGE_BYTES 64
#define PIE_LD_QACC(as)            \
    EE_LD_QACC_L_L_128_IP(as, 16); \
    EE_LD_QACC_L_H_32_IP(as, 16);  \
    EE_LD_QACC_H_L_128_IP(as, 16); \
    EE_LD_QACC_H_H_32_IP(as, 16)
#define PIE_ST_QACC(as)            \
    EE_ST_QACC_L_L_128_IP(as, 16); \
    EE_ST_QACC_L_H_32_IP(as, 16);  \
    EE_ST_QACC_H_L_128_IP(as, 16); \
    EE_ST_QACC_H_H_32_IP(as, 16)

#define PIE_ALIGNED __attribute__((aligned(16)))
#define PIE_INLINE static inline __attribute__((always_inline))

#endif
