#ifdef _WIN32
#error "the native port needs POSIX (pseudo-terminals, poll); on Windows use WSL"
#endif

#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 600
#endif

#include "channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

void refold_native_fail(const char *format, ...)
{
    va_list values;

    va_start(values, format);
    fputs("native board: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(EXIT_FAILURE);
}

/* Turn a bit of every Nth byte of a direction that has carried `*count`. */
static void damage(const refold_channel *c, unsigned long *count, uint8_t *bytes,
                   size_t n)
{
    unsigned long every = c->damage_every;

    for (size_t i = 0; every != 0 && i < n; i++)
        if (++*count % every == 0)
            bytes[i] ^= (uint8_t)(1u << *count / every % 8);
}

/* A TCP host has left; the next begins with an empty queue. */
static void hang_up(refold_channel *c)
{
    if (c->listener < 0)
        refold_native_fail("the pseudo-terminal failed: %s", strerror(errno));
    close(c->client);
    c->client = -1;
    c->queued = c->flushed = 0;
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

void refold_channel_flush(refold_channel *c)
{
    while (c->client >= 0 && c->flushed < c->queued) {
        ssize_t n = write(c->client, c->queue + c->flushed, c->queued - c->flushed);

        if (n < 0) {
            if (!would_block())
                hang_up(c);
            return;
        }
        c->flushed += (size_t)n;
    }
    c->queued = c->flushed = 0;
}

void refold_channel_write(refold_channel *c, const void *data, size_t bytes)
{
    if (c->client < 0)
        return;
    if (bytes > sizeof c->queue - c->queued) {
        memmove(c->queue, c->queue + c->flushed, c->queued - c->flushed);
        c->queued -= c->flushed;
        c->flushed = 0;
    }
    if (bytes <= sizeof c->queue - c->queued) {
        memcpy(c->queue + c->queued, data, bytes);
        damage(c, &c->sent, c->queue + c->queued, bytes);
        c->queued += bytes;
    }
    refold_channel_flush(c);
}

size_t refold_channel_read(refold_channel *c, uint8_t *bytes, size_t capacity)
{
    ssize_t n = c->client >= 0 ? read(c->client, bytes, capacity) : -1;

    if (n > 0) {
        damage(c, &c->seen, bytes, (size_t)n);
        return (size_t)n;
    }
    if (c->client >= 0 && (n == 0 || !would_block()))
        hang_up(c);
    return 0;
}

static void set_nonblocking(int fd)
{
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
        refold_native_fail("cannot make the port non-blocking: %s", strerror(errno));
}

static void set_raw(int fd)
{
    struct termios mode;

    if (tcgetattr(fd, &mode) < 0)
        refold_native_fail("cannot read the terminal's mode: %s", strerror(errno));
    mode.c_iflag = 0;
    mode.c_oflag = 0;
    mode.c_lflag = 0;
    mode.c_cflag = CS8 | CREAD | CLOCAL;
    mode.c_cc[VMIN] = 1;
    mode.c_cc[VTIME] = 0;
    if (tcsetattr(fd, TCSANOW, &mode) < 0)
        refold_native_fail("cannot make the terminal raw: %s", strerror(errno));
}

/*
 * The host's side is opened here too and stays open: the terminal keeps its raw
 * mode, and a host that closes the port is no event, as on a serial line.
 */
void refold_channel_open_pty(refold_channel *c)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    const char *name = NULL;
    int host;

    if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0)
        name = ptsname(master);
    host = name != NULL ? open(name, O_RDWR | O_NOCTTY) : -1;
    if (host < 0)
        refold_native_fail("cannot open a pseudo-terminal: %s; try --tcp 0",
                           strerror(errno));
    set_raw(host);
    set_nonblocking(master);
    c->client = master;
    printf("port: %s\n", name);
}

void refold_channel_open_tcp(refold_channel *c, unsigned port)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int on = 1;

    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port);
    c->listener = socket(AF_INET, SOCK_STREAM, 0);
    if (c->listener < 0 ||
        setsockopt(c->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(c->listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(c->listener, 1) < 0 ||
        getsockname(c->listener, (struct sockaddr *)&address, &length) < 0)
        refold_native_fail("cannot listen on 127.0.0.1:%u: %s", port, strerror(errno));
    set_nonblocking(c->listener);
    printf("port: socket://127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
}

bool refold_channel_accept(refold_channel *c)
{
    int on = 1;
    int fd = accept(c->listener, NULL, NULL);

    if (fd < 0)
        return false;
    if (c->client >= 0) {
        close(fd);
        return false;
    }
    set_nonblocking(fd);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    c->client = fd;
    return true;
}
