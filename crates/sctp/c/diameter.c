/*
 * Requests and answers in the form of Diameter (RFC 6733) over all paths between two hosts: whether each
 * request gets its answer, and how soon.
 *
 *   diameter server PORT ADDRESS...                  answers each request of any client; ends with SIGTERM
 *   diameter client PORT REQUESTS RATE ADDRESS...    so many requests, RATE a second whatever the answers do
 *
 * The time of a request begins when it was due, so that requests that wait to be sent count as late.
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DIAMETER_PPID 46
#define SIZE 400
#define ADDRESSES 8
#define CLIENTS 64
#define NANO 1000000000LL
#define PATIENCE (60 * NANO)

struct header {
    uint32_t version_length, flags_code, application, hop_by_hop, end_to_end;
};

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * NANO + time.tv_nsec;
}

static int addresses(struct sockaddr_in *to, char **texts, int count, const char *port)
{
    memset(to, 0, sizeof *to * ADDRESSES);
    for (int i = 0; i < count && i < ADDRESSES; i++) {
        to[i].sin_family = AF_INET;
        to[i].sin_port = htons((uint16_t)atoi(port));
        if (inet_pton(AF_INET, texts[i], &to[i].sin_addr) != 1)
            return -1;
    }
    return count < ADDRESSES ? count : ADDRESSES;
}

static ssize_t send_message(int sd, const void *bytes, size_t len)
{
    struct iovec iov = {(void *)bytes, len};
    struct sctp_sndinfo info;
    memset(&info, 0, sizeof info);
    info.snd_ppid = htonl(DIAMETER_PPID);
    return sctp_sendv(sd, &iov, 1, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0);
}

/* Answers what has come from a client; whether it is still there. */
static int answer(int sd)
{
    char buffer[SIZE];
    ssize_t len = recv(sd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (len < 0)
        return errno == EAGAIN;
    if (len < (ssize_t)sizeof(struct header))
        return 0;
    buffer[4] &= 0x7f;
    return send_message(sd, buffer, (size_t)len) == len;
}

static int serve(struct sockaddr_in *own, int count)
{
    struct pollfd fds[CLIENTS + 1];
    int used = 1;
    fds[0].fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    fds[0].events = POLLIN;
    if (fds[0].fd < 0 || sctp_bindx(fds[0].fd, (struct sockaddr *)own, count, SCTP_BINDX_ADD_ADDR) < 0)
        return fail("sctp_bindx");
    if (listen(fds[0].fd, CLIENTS) < 0)
        return fail("listen");
    puts("ready");
    fflush(stdout);
    for (;;) {
        if (poll(fds, (nfds_t)used, -1) < 0)
            return fail("poll");
        if ((fds[0].revents & POLLIN) && used <= CLIENTS) {
            int sd = accept(fds[0].fd, NULL, NULL);
            if (sd >= 0)
                fds[used++] = (struct pollfd){sd, POLLIN, 0};
        }
        for (int i = used - 1; i > 0; i--)
            if (fds[i].revents && !answer(fds[i].fd)) {
                close(fds[i].fd);
                fds[i] = fds[--used];
            }
    }
}

struct session {
    int sd, requests, sent, answers;
    int64_t begin, interval;
    int64_t *took;
};

/* Sends the requests that are due. */
static int send_due(struct session *session)
{
    char bytes[SIZE] = {0};
    struct header *header = (struct header *)bytes;
    while (session->sent < session->requests && now() >= session->begin + session->sent * session->interval) {
        header->version_length = htonl(1u << 24 | SIZE);
        header->flags_code = htonl(0x80000110);
        header->hop_by_hop = header->end_to_end = htonl((uint32_t)session->sent);
        if (send_message(session->sd, bytes, SIZE) != SIZE)
            return errno == EAGAIN ? 0 : fail("sctp_sendv");
        session->sent++;
    }
    return 0;
}

static int read_answers(struct session *session)
{
    char bytes[SIZE];
    struct header *header = (struct header *)bytes;
    ssize_t len;
    while ((len = recv(session->sd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        int number = (int)ntohl(header->hop_by_hop);
        if (len != SIZE || number >= session->sent || session->took[number] || (bytes[4] & 0x80)) {
            fprintf(stderr, "%zd bytes are no answer that is awaited\n", len);
            return 1;
        }
        session->took[number] = now() - (session->begin + number * session->interval);
        session->answers++;
    }
    return len < 0 && errno == EAGAIN ? 0 : fail("recv");
}

static int by_size(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static double milliseconds(struct session *session, double part)
{
    int last = session->requests - 1;
    return (double)session->took[(int)(part * last + 0.5)] / 1e6;
}

static int report(struct session *session)
{
    qsort(session->took, (size_t)session->requests, sizeof *session->took, by_size);
    printf("%d requests, %d answers, %d lost; median %.1f ms, 99th percentile %.1f ms, longest %.1f ms\n",
           session->requests, session->answers, session->requests - session->answers,
           milliseconds(session, 0.5), milliseconds(session, 0.99), milliseconds(session, 1));
    return session->answers != session->requests;
}

static int ask(struct session *session)
{
    int64_t end = now() + session->requests * session->interval + PATIENCE;
    session->begin = now();
    while (session->answers < session->requests && now() < end) {
        int64_t due = session->begin + session->sent * session->interval - now();
        int wait = session->sent == session->requests ? 1000 : due < 0 ? 1 : (int)(due / 1000000 + 1);
        struct pollfd fd = {session->sd, POLLIN, 0};
        if (poll(&fd, 1, wait) < 0)
            return fail("poll");
        if (send_due(session) || (fd.revents && read_answers(session)))
            return 1;
    }
    return report(session);
}

static int request(struct sockaddr_in *to, int count, int requests, int rate)
{
    int on = 1;
    struct session session = {.requests = requests, .interval = NANO / rate};
    session.took = calloc((size_t)requests, sizeof *session.took);
    session.sd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (session.sd < 0 || setsockopt(session.sd, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on) < 0)
        return fail("socket");
    if (sctp_connectx(session.sd, (struct sockaddr *)to, count, NULL) < 0)
        return fail("sctp_connectx");
    puts("connected");
    fflush(stdout);
    int result = ask(&session);
    close(session.sd);
    free(session.took);
    return result;
}

int main(int argc, char **argv)
{
    struct sockaddr_in all[ADDRESSES];
    if (argc >= 4 && strcmp(argv[1], "server") == 0) {
        int count = addresses(all, argv + 3, argc - 3, argv[2]);
        return count < 1 ? fail("addresses") : serve(all, count);
    }
    if (argc >= 6 && strcmp(argv[1], "client") == 0) {
        int count = addresses(all, argv + 5, argc - 5, argv[2]), requests = atoi(argv[3]), rate = atoi(argv[4]);
        if (count >= 1 && requests >= 1 && rate >= 1)
            return request(all, count, requests, rate);
    }
    fprintf(stderr, "usage: diameter server PORT ADDRESS... | diameter client PORT REQUESTS RATE ADDRESS...\n");
    return 2;
}
