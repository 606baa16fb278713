/* All of firmware/src/pace in one fixed run, as the bits it computes. */
#ifndef PACE_EXERCISE_H
#define PACE_EXERCISE_H

#include <stdint.h>

enum { PACE_WORDS = 1024 };

/* Fills words[PACE_WORDS]: equal on all machines. Returns how many it used. */
uint32_t pace_exercise(uint32_t *words);

#endif
