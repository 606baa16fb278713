/* What the link does with each frame. Every function answers its frame. */
#ifndef REFOLD_LINK_SESSION_H
#define REFOLD_LINK_SESSION_H

#include "frame.h"

/* stream.c: images and results */
void refold_link_configure(refold_link *link, const refold_frame *frame);
void refold_link_input(refold_link *link, const refold_frame *frame);
void refold_link_result_request(refold_link *link, const refold_frame *frame);

/* state.c: the saved adaptation state. Takes effect between two images. */
void refold_link_state_read(refold_link *link, const refold_frame *frame);
void refold_link_state_write(refold_link *link, const refold_frame *frame);
void refold_link_state_reset(refold_link *link, const refold_frame *frame);

/* trace.c: what every layer gives, for debugging */
void refold_link_trace(refold_link *link, const refold_frame *frame);
void refold_link_trace_off(refold_link *link);

#endif
