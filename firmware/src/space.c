#include "space.h"

#include <math.h>

#include "fp32.h"
#include "pace/exp32.h"

/* A factor of twenty, and more deviations than int8 holds: nothing is beyond. */
#define LOG_GAIN_MAX 3.0f
#define SHIFT_MAX 64.0f

bool refold_space_moves(const refold_model *model, int site)
{
    return model->pace != NULL && (model->pace->sites[site / 8] >> (site % 8) & 1) != 0;
}

/* NaN gives -most. */
static float clamp(float x, float most)
{
    return refold_fmin(refold_fmax(x, -most), most);
}

/* x[c] += sum of x / sqrt(count) */
static void share(float *x, int count)
{
    float sum = 0.0f;

    for (int c = 0; c < count; c++)
        sum = sum + x[c];
    float part = sum / sqrtf((float)count);
    for (int c = 0; c < count; c++)
        x[c] = x[c] + part;
}

static void move(const refold_site *site, float *log_gain, float *shift, float *gain,
                 float *offset)
{
    share(log_gain, site->channels);
    share(shift, site->channels);
    for (int c = 0; c < site->channels; c++) {
        gain[c] = site->gain[c] * refold_exp32(clamp(log_gain[c], LOG_GAIN_MAX));
        offset[c] = site->offset[c] + site->gain[c] * clamp(shift[c], SHIFT_MAX);
    }
}

void refold_space_go(const refold_space *space, const float *v)
{
    const refold_model *model = space->model;
    uint32_t first = 0;

    refold_fastfood_project(&space->map, v, space->theta);
    for (int i = 0; i < model->site_count; i++) {
        if (!refold_space_moves(model, i))
            continue;
        move(&model->sites[i], space->theta + first,
             space->theta + model->pace->channels + first, space->gain + first,
             space->offset + first);
        first += model->sites[i].channels;
    }
}

const refold_site *refold_space_site(const refold_space *space, int site,
                                     refold_site *copy)
{
    const refold_model *model = space->model;
    uint32_t first = 0;

    if (!refold_space_moves(model, site))
        return &model->sites[site];
    for (int i = 0; i < site; i++)
        if (refold_space_moves(model, i))
            first += model->sites[i].channels;
    *copy = model->sites[site];
    copy->gain = space->gain + first;
    copy->offset = space->offset + first;
    return copy;
}
