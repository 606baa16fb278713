/* What the link does with each frame. Functions of a frame answer it. */
#ifndef REFOLD_LINK_SESSION_H
#define REFOLD_LINK_SESSION_H

#include "frame.h"

/* stream.c: images and results */
void refold_link_configure(refold_link *link, const refold_frame *frame);
void refold_link_input(refold_link *link, const refold_frame *frame);
void refold_link_result_request(refold_link *link, const refold_frame *frame);

/* profile.c: layer times, whenever no tensors are sent */
void refold_link_profile_on(refold_link *link);
void refold_link_profile_begin(refold_link *link); /* around an inference */
void refold_link_profile_end(refold_link *link);
void refold_link_profile_request(refold_link *link, const refold_frame *frame);

/* state.c: the saved adaptation state. Takes effect between two images. */
void refold_link_state_read(refold_link *link, const refold_frame *frame);
void refold_link_state_write(refold_link *link, const refold_frame *frame);
void refold_link_state_reset(refold_link *link, const refold_frame *frame);

/* trace.c: what every layer gives, for debugging */
void refold_link_trace(refold_link *link, const refold_frame *frame);
void refold_link_trace_off(refold_link *link);

#endif
