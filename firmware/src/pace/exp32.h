/*
 * Natural exponential in IEEE single precision, without a math library.
 *
 * Internal. Its logarithm is refold_log32 of fp32.h. Exact definition:
 * docs/numerics.md, "PACE".
 */
#ifndef REFOLD_PACE_EXP32_H
#define REFOLD_PACE_EXP32_H

/*
 * e^x within 1.1 ulp for x in [-87, 88]. Below it is 0 and above e^88, so that no
 * result is subnormal or infinite; NaN gives 0.
 */
float refold_exp32(float x);

#endif
