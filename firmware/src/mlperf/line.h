/* Lines to the runner, put together without stdio in the buffer of refold_mlperf. */
#ifndef REFOLD_MLPERF_LINE_H
#define REFOLD_MLPERF_LINE_H

#include "refold/mlperf.h"

/* Add to the line; what does not fit is cut off. */
void refold_mlperf_text(refold_mlperf *m, const char *text);
void refold_mlperf_number(refold_mlperf *m, uint64_t value);
void refold_mlperf_hex(refold_mlperf *m, uint8_t value);     /* two digits */
void refold_mlperf_thousandths(refold_mlperf *m, uint32_t value); /* 1234: 1.234 */

/* Send what has been added and begin anew; `end_line` ends the line. */
void refold_mlperf_flush(refold_mlperf *m);
void refold_mlperf_end_line(refold_mlperf *m);

/* A whole line of one text. */
void refold_mlperf_say(refold_mlperf *m, const char *text);

#endif
