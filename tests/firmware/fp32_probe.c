/* The inline functions of fp32.h, for tests to call. */
#include "fp32.h"

float probe_from_int48(int64_t x);
int32_t probe_floor32(float x);

float probe_from_int48(int64_t x)
{
    return refold_from_int48(x);
}

int32_t probe_floor32(float x)
{
    return refold_floor32(x);
}
