/* What the device does with a whole command; each answers all but m-ready. */
#ifndef REFOLD_MLPERF_COMMANDS_H
#define REFOLD_MLPERF_COMMANDS_H

#include "refold/mlperf.h"

/* commands.c. Returns false where the answer comes later, from the poll. */
bool refold_mlperf_obey(refold_mlperf *m);

/* mlperf.c: the time as m-lap-us, or as an edge of the pin in energy mode. */
void refold_mlperf_timestamp(refold_mlperf *m);
void refold_mlperf_results(refold_mlperf *m);
void refold_mlperf_begin(refold_mlperf *m, uint32_t images, uint32_t warmups);

#endif
