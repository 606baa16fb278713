/*
 * Reset and exceptions of a bare core with the call0 ABI: lx106, or ESP32-S3.
 *
 * QEMU enters _start with PS.EXCM set, under which an exception would go to the
 * double-exception vector and a loop would not repeat: PS is cleared first.
 */
    .section .vectors, "ax"
    .balign 1024
vectors: /* wherever from VECBASE a core has its vectors: the last at 0x70, or 0x3c0 */
    .rept 64
    .balign 16
    j exception
    .endr

exception:
    rsr a2, exccause
    rsr a3, epc1
    call0 refold_board_panic

    .section .text.start, "ax"
    .balign 4
    .literal_position
    .global _start
_start:
    movi a0, 0
    wsr a0, ps
    rsync
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
    call0 main

    /*
     * A service of the emulator under -semihosting: number, then up to three
     * arguments, where the call0 ABI and SIMCALL alike have them, in a2 to a5.
     */
    .section .text.refold_board_simcall, "ax"
    .balign 4
    .global refold_board_simcall
refold_board_simcall:
    simcall
    ret
