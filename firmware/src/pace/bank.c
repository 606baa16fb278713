#include "bank.h"

#include <math.h>
#include <stddef.h>

#include "rank.h"

const float *refold_bank_vector(const refold_bank *bank, uint32_t index)
{
    return bank->vectors + index * bank->dimension;
}

static float dot(const float *a, const float *b, uint32_t d)
{
    float sum = 0.0f;

    for (uint32_t i = 0; i < d; i++)
        sum = sum + a[i] * b[i];
    return sum;
}

static float cosine(const float *a, const float *b, uint32_t d)
{
    float lengths = sqrtf(dot(a, a, d)) * sqrtf(dot(b, b, d));

    return lengths > 0.0f ? dot(a, b, d) / lengths : 0.0f;
}

/* Sum of the cosines with the others: the mean orders alike. */
static float similarity(const refold_bank *bank, uint32_t index)
{
    const float *v = refold_bank_vector(bank, index);
    float sum = 0.0f;

    for (uint32_t i = 0; i < bank->count; i++) {
        if (i != index)
            sum = sum + cosine(v, refold_bank_vector(bank, i), bank->dimension);
    }
    return sum;
}

static void drop_most_similar(refold_bank *bank)
{
    uint32_t dropped = 0;
    float highest = similarity(bank, 0);

    for (uint32_t i = 1; i < bank->count; i++) {
        float s = similarity(bank, i);
        if (s > highest) {
            highest = s;
            dropped = i;
        }
    }
    bank->count--;
    for (uint32_t i = dropped * bank->dimension;
         i < (uint32_t)bank->count * bank->dimension; i++)
        bank->vectors[i] = bank->vectors[i + bank->dimension];
}

void refold_bank_insert(refold_bank *bank, const float *v)
{
    if (bank->count == bank->capacity)
        drop_most_similar(bank);
    float *place = bank->vectors + (uint32_t)bank->count * bank->dimension;
    for (uint32_t i = 0; i < bank->dimension; i++)
        place[i] = v[i];
    bank->count++;
}

uint32_t refold_bank_pick(const refold_bank *bank, const float *losses,
                          const float *starts[REFOLD_BANK_STARTS])
{
    uint8_t order[REFOLD_BANK_CAPACITY_MAX + 1];
    uint32_t members = bank->count + 1u;
    uint32_t picked = members < REFOLD_BANK_STARTS ? members : REFOLD_BANK_STARTS;

    refold_rank(losses, members, order);
    for (uint32_t i = 0; i < picked; i++)
        starts[i] = order[i] == 0 ? NULL : refold_bank_vector(bank, order[i] - 1u);
    return picked;
}
