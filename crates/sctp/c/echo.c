/*
 * One-to-one style (RFC 6458 section 4): an echo server and its client.
 *
 *   echo server ADDRESS PORT            serves one client, then ends
 *   echo client ADDRESS PORT MESSAGES   sends that many messages of growing size and checks the answers
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 60000

static char buffer[MOST], answer[MOST];

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

/* Reads one message, which may come in parts. */
static ssize_t read_message(int sd, char *to, struct sctp_rcvinfo *info)
{
    size_t len = 0;
    for (;;) {
        struct iovec iov = {to + len, MOST - len};
        struct sockaddr_storage from;
        socklen_t from_len = sizeof from, info_len = sizeof *info;
        unsigned type = 0;
        int flags = 0;
        int got = sctp_recvv(sd, &iov, 1, (struct sockaddr *)&from, &from_len, info, &info_len, &type, &flags);
        if (got <= 0)
            return got;
        if (type != SCTP_RECVV_RCVINFO) {
            fprintf(stderr, "no information came with the message\n");
            return -1;
        }
        len += (size_t)got;
        if (flags & MSG_EOR)
            return (ssize_t)len;
    }
}

static int want_information(int sd)
{
    int on = 1;
    return setsockopt(sd, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on);
}

static int serve(struct sockaddr_in at)
{
    int listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (listener < 0 || want_information(listener) < 0)
        return fail("socket");
    if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 5) < 0)
        return fail("listen");
    puts("ready");
    fflush(stdout);
    int sd = accept(listener, NULL, NULL);
    if (sd < 0)
        return fail("accept");
    struct sctp_rcvinfo info;
    ssize_t len;
    while ((len = read_message(sd, buffer, &info)) > 0) {
        struct iovec iov = {buffer, (size_t)len};
        struct sctp_sndinfo back;
        memset(&back, 0, sizeof back);
        back.snd_sid = info.rcv_sid;
        back.snd_ppid = info.rcv_ppid;
        if (sctp_sendv(sd, &iov, 1, NULL, 0, &back, sizeof back, SCTP_SENDV_SNDINFO, 0) != len)
            return fail("sctp_sendv");
    }
    if (len < 0)
        return fail("sctp_recvv");
    close(sd);
    close(listener);
    return 0;
}

static int check(int sd, int number)
{
    size_t len = 1 + (size_t)number * 997 % MOST;
    for (size_t i = 0; i < len; i++)
        buffer[i] = (char)(number + i);
    struct iovec iov = {buffer, len};
    struct sctp_sendv_spa how;
    memset(&how, 0, sizeof how);
    how.sendv_flags = SCTP_SEND_SNDINFO_VALID;
    how.sendv_sndinfo.snd_sid = (uint16_t)(number % 10);
    how.sendv_sndinfo.snd_ppid = htonl((uint32_t)number);
    if (sctp_sendv(sd, &iov, 1, NULL, 0, &how, sizeof how, SCTP_SENDV_SPA, 0) != (int)len)
        return fail("sctp_sendv");
    struct sctp_rcvinfo info;
    ssize_t got = read_message(sd, answer, &info);
    if (got != (ssize_t)len || memcmp(buffer, answer, len) != 0) {
        fprintf(stderr, "message %d came back with %zd bytes instead of %zu\n", number, got, len);
        return 1;
    }
    if (info.rcv_sid != number % 10 || ntohl(info.rcv_ppid) != (uint32_t)number) {
        fprintf(stderr, "message %d came back on stream %u\n", number, info.rcv_sid);
        return 1;
    }
    return 0;
}

/* Several messages in one call, each way. */
static int check_many(int sd)
{
    struct mmsghdr all[3], more;
    struct iovec parts[3];
    memset(all, 0, sizeof all);
    for (int i = 0; i < 3; i++) {
        parts[i] = (struct iovec){buffer + i, 100};
        all[i].msg_hdr.msg_iov = &parts[i];
        all[i].msg_hdr.msg_iovlen = 1;
    }
    for (int i = 0; i < 200; i++)
        buffer[i] = (char)i;
    if (sendmmsg(sd, all, 3, 0) != 3 || all[2].msg_len != 100)
        return fail("sendmmsg");
    memset(buffer, 0, 200);
    for (int i = 0; i < 3; i++)
        parts[i] = (struct iovec){buffer + 1000 * i, 1000};
    if (recvmmsg(sd, all, 3, 0, NULL) != 3)
        return fail("recvmmsg");
    for (int i = 0; i < 3; i++)
        if (all[i].msg_len != 100 || buffer[1000 * i] != i || buffer[1000 * i + 99] != i + 99) {
            fprintf(stderr, "message %d of three has %u bytes\n", i, all[i].msg_len);
            return 1;
        }
    more = all[0];
    if (recvmmsg(sd, &more, 1, MSG_DONTWAIT, NULL) != -1 || errno != EAGAIN)
        return fail("recvmmsg without a message waits or succeeds");
    return 0;
}

/* Waits for the first of two messages, and takes the other one only if it is there, too. */
static int check_waiting(int sd)
{
    struct mmsghdr two[2];
    struct iovec part = {buffer, MOST};
    memset(two, 0, sizeof two);
    two[0].msg_hdr.msg_iov = two[1].msg_hdr.msg_iov = &part;
    two[0].msg_hdr.msg_iovlen = two[1].msg_hdr.msg_iovlen = 1;
    if (send(sd, "alone", 5, 0) != 5 || recvmmsg(sd, two, 2, MSG_WAITFORONE, NULL) != 1 || two[0].msg_len != 5)
        return fail("MSG_WAITFORONE");
    return 0;
}

static int ask(struct sockaddr_in to, int messages)
{
    int sd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_SCTP);
    if (sd < 0 || want_information(sd) < 0)
        return fail("socket");
    /* A connection that is waited for with poll, as event loops do. */
    int error = 0;
    socklen_t len = sizeof error;
    struct pollfd ready = {sd, POLLOUT, 0};
    if (connect(sd, (struct sockaddr *)&to, sizeof to) == 0 || errno != EINPROGRESS)
        return fail("connect does not begin");
    if (poll(&ready, 1, 5000) != 1 || getsockopt(sd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return fail("poll");
    errno = error;
    if (error != 0)
        return fail("connect");
    if (read(sd, answer, sizeof answer) >= 0 || errno != EAGAIN)
        return fail("a read without a message waits or succeeds");
    fcntl(sd, F_SETFL, 0);
    struct sctp_status status;
    memset(&status, 0, sizeof status);
    len = sizeof status;
    if (sctp_opt_info(sd, 0, SCTP_STATUS, &status, &len) < 0 || status.sstat_state != SCTP_ESTABLISHED)
        return fail("SCTP_STATUS");
    if (check_many(sd) != 0 || check_waiting(sd) != 0)
        return 1;
    for (int number = 0; number < messages; number++)
        if (check(sd, number) != 0)
            return 1;
    shutdown(sd, SHUT_WR);
    if (read(sd, answer, sizeof answer) != 0)
        return fail("the end of the association");
    close(sd);
    printf("%d messages came back, %u streams\n", messages, status.sstat_outstrms);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "server") == 0)
        return serve(address(argv[2], argv[3]));
    if (argc == 5 && strcmp(argv[1], "client") == 0)
        return ask(address(argv[2], argv[3]), atoi(argv[4]));
    fprintf(stderr, "usage: echo server ADDRESS PORT | client ADDRESS PORT MESSAGES\n");
    return 2;
}
