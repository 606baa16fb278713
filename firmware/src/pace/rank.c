#include "rank.h"

#include <stdbool.h>

static bool is_nan(float x)
{
    return x != x;
}

/* `a` comes strictly before `b`. */
static bool precedes(float a, float b)
{
    return a < b || (is_nan(b) && !is_nan(a));
}

/* Insertion keeps equals in the order of their indices. */
void refold_rank(const float *losses, uint32_t count, uint8_t *order)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = i;

        for (; place > 0 && precedes(losses[i], losses[order[place - 1]]); place--)
            order[place] = order[place - 1];
        order[place] = (uint8_t)i;
    }
}
