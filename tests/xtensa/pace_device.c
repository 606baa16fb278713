/* Runs on the emulated core: sends the words of pace_exercise, then exits. */
#include "pace_exercise.h"
#include "uart.h"

void refold_board_panic(uint32_t cause, uint32_t pc);
uint32_t refold_board_simcall(uint32_t service, uintptr_t a, uintptr_t b, uintptr_t c);

/* A test that ends early has too few words. */
void refold_board_panic(uint32_t cause, uint32_t pc)
{
    (void)cause;
    (void)pc;
    refold_board_simcall(1, 1, 0, 0);
}

int main(void)
{
    uint32_t words[PACE_WORDS];
    uint32_t count = pace_exercise(words);

    refold_uart_init();
    refold_uart_write(words, count * sizeof words[0]);
    refold_board_simcall(1, 0, 0, 0);
    return 0;
}
