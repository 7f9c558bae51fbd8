/*
 * SCTP_EXPLICIT_EOR: one message in many calls, larger than the send buffer.
 *
 *   record server ADDRESS PORT          says how long the messages of one client are, then ends
 *   record client ADDRESS PORT BYTES    sends a message of so many bytes, and another one
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART 70000

static char buffer[PART];

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static struct sockaddr_in address(const char *text, const char *port)
{
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(port));
    inet_pton(AF_INET, text, &address.sin_addr);
    return address;
}

static int serve(struct sockaddr_in at)
{
    long long bytes = 0, wrong = 0;
    int listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), flags;
    if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 5) < 0)
        return fail("listen");
    puts("ready");
    fflush(stdout);
    int sd = accept(listener, NULL, NULL);
    if (sd < 0)
        return fail("accept");
    for (;;) {
        flags = 0;
        int len = sctp_recvmsg(sd, buffer, sizeof buffer, NULL, NULL, NULL, &flags);
        if (len < 0)
            return fail("sctp_recvmsg");
        if (len == 0)
            break;
        for (int i = 0; i < len; i++)
            wrong += buffer[i] != (char)((bytes + i) % 251);
        bytes += len;
        if (!(flags & MSG_EOR))
            continue;
        printf("one message of %lld bytes, %lld of them wrong\n", bytes, wrong);
        bytes = wrong = 0;
    }
    close(sd);
    close(listener);
    return 0;
}

static int tell(struct sockaddr_in to, long long bytes)
{
    int on = 1, small = 100000;
    int sd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (setsockopt(sd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small) < 0 ||
        setsockopt(sd, IPPROTO_SCTP, SCTP_EXPLICIT_EOR, &on, sizeof on) < 0)
        return fail("setsockopt");
    if (connect(sd, (struct sockaddr *)&to, sizeof to) < 0)
        return fail("connect");
    for (long long sent = 0; sent < bytes;) {
        size_t len = bytes - sent < PART ? (size_t)(bytes - sent) : PART;
        for (size_t i = 0; i < len; i++)
            buffer[i] = (char)((sent + (long long)i) % 251);
        struct sctp_sndinfo info;
        memset(&info, 0, sizeof info);
        if (sent + (long long)len == bytes)
            info.snd_flags = SCTP_EOR;
        struct iovec iov = {buffer, len};
        /* A call that waits takes all. */
        if (sctp_sendv(sd, &iov, 1, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0) != (int)len)
            return fail("sctp_sendv");
        sent += (long long)len;
    }
    /* One that does not wait takes what there is room for. */
    size_t taken = 0;
    struct pollfd room = {sd, POLLOUT, 0};
    for (;;) {
        for (size_t i = 0; i < PART; i++)
            buffer[i] = (char)((taken + i) % 251);
        ssize_t some = send(sd, buffer, PART, MSG_DONTWAIT);
        if (some > 0)
            taken += (size_t)some;
        else if (errno != EAGAIN || taken > 0 || poll(&room, 1, 5000) != 1)
            break;
    }
    if (errno != EAGAIN || taken == 0)
        return fail("send without waiting");
    if (send(sd, buffer, PART, MSG_EOR) != PART)
        return fail("the end");
    close(sd);
    printf("another one of %zu bytes\n", taken + PART);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "server") == 0)
        return serve(address(argv[2], argv[3]));
    if (argc == 5 && strcmp(argv[1], "client") == 0)
        return tell(address(argv[2], argv[3]), atoll(argv[4]));
    fprintf(stderr, "usage: record server ADDRESS PORT | client ADDRESS PORT BYTES\n");
    return 2;
}
