/*
 * Reset and exceptions of a bare core, lx106 or ESP32-S3, for both ABIs: call0, and
 * the windowed one, which is the usual one of the ESP32-S3 and needs the handlers of
 * windows.h at the front of the vectors.
 *
 * QEMU enters _start with PS.EXCM set, under which an exception would go to the
 * double-exception vector and a loop would not repeat: PS is cleared first.
 */
#if defined __XTENSA_WINDOWED_ABI__
#define PS 0x40000 /* window overflows are served */
#define CALL call4
#define FIRST a6 /* argument of a call */
#define SECOND a7
#else
#define PS 0
#define CALL call0
#define FIRST a2
#define SECOND a3
#endif

    .section .vectors, "ax"
    .balign 1024
vectors: /* wherever from VECBASE a core has its vectors: the last at 0x70, or 0x3c0 */
#if defined __XTENSA_WINDOWED_ABI__
#include "windows.h"
#endif
    .rept 40
    .balign 16
    j exception
    .endr

exception:
    movi a0, PS
    wsr a0, ps
    rsync
    rsr FIRST, exccause
    rsr SECOND, epc1
    CALL refold_board_panic

    .section .text.start, "ax"
    .balign 4
    .literal_position
    .global _start
_start:
#if defined __XTENSA_WINDOWED_ABI__
    movi a2, 0
    wsr a2, windowbase
    rsync
    movi a2, 1
    wsr a2, windowstart
    rsync
#endif
    movi a2, PS
    wsr a2, ps
    rsync
    movi a0, 0 /* where a backtrace ends */
    movi a2, vectors
    wsr a2, vecbase
#if defined REFOLD_ESP32S3
    movi a2, 9 /* coprocessors 0, floating point, and 3, the SIMD unit */
    wsr a2, cpenable
    rsync
#endif
    movi sp, refold_board_stack_top
    movi a2, refold_board_bss_start
    movi a3, refold_board_bss_end
    j 2f
1:  s32i a0, a2, 0
    addi a2, a2, 4
2:  bltu a2, a3, 1b
    CALL main

    /*
     * A service of the emulator under -semihosting: number, then up to three
     * arguments, where both ABIs and SIMCALL alike have them, in a2 to a5.
     */
    .section .text.refold_board_simcall, "ax"
    .balign 4
    .global refold_board_simcall
refold_board_simcall:
#if defined __XTENSA_WINDOWED_ABI__
    entry sp, 32
    simcall
    retw
#else
    simcall
    ret
#endif
