/*
 * Bytes between the native board and its host: a pseudo-terminal, or a TCP port
 * of this machine that one host at a time may use.
 */
#ifndef REFOLD_NATIVE_CHANNEL_H
#define REFOLD_NATIVE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Replies that wait for the host to read: more than a window of them. */
#define REFOLD_CHANNEL_QUEUE_BYTES (1u << 20)

/* Zeroed, then opened; both descriptors are for poll. */
typedef struct refold_channel {
    int listener;               /* TCP, else -1 */
    int client;                 /* the pty's master or a connection, else -1 */
    unsigned long damage_every; /* turn a bit of every Nth byte; 0: of none */
    unsigned long seen, sent;   /* bytes, where they are to be damaged */
    size_t queued, flushed;     /* bytes put into the queue, and of those sent */
    uint8_t queue[REFOLD_CHANNEL_QUEUE_BYTES];
} refold_channel;

/* End the process with a message for whoever started it. */
void refold_native_fail(const char *format, ...);

/* Open and print the line that names the port; port 0 takes any. */
void refold_channel_open_pty(refold_channel *c);
void refold_channel_open_tcp(refold_channel *c, unsigned port);

/* Take a waiting connection; true where it is the new host, not one too many. */
bool refold_channel_accept(refold_channel *c);

/* Bytes that have come, at most `capacity`; 0 where none have. */
size_t refold_channel_read(refold_channel *c, uint8_t *bytes, size_t capacity);

/* Queue a frame and send what can be; a host that does not read loses frames. */
void refold_channel_write(refold_channel *c, const void *data, size_t bytes);

/* Send what the host takes at once. */
void refold_channel_flush(refold_channel *c);

#endif
