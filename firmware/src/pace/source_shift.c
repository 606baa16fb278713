#include "source_shift.h"

#include "../fp32.h"

void refold_source_shift_reset(refold_source_shift *shift)
{
    for (uint32_t c = 0; c < shift->channels; c++)
        shift->mean[c] = shift->source[c];
}

void refold_source_shift_absorb(refold_source_shift *shift, const int8_t *feature)
{
    for (uint32_t c = 0; c < shift->channels; c++) {
        float mean = shift->mean[c];

        shift->mean[c] = mean + shift->rate * ((float)feature[c] - mean);
    }
}

void refold_source_shift_apply(const refold_source_shift *shift, int8_t *feature)
{
    for (uint32_t c = 0; c < shift->channels; c++) {
        float move = (shift->source[c] - shift->mean[c]) + 0.5f;
        int64_t moved = feature[c] + refold_floor(move);

        feature[c] = (int8_t)(moved < -128 ? -128 : moved > 127 ? 127 : moved);
    }
}
