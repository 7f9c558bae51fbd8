/*
 * Thousands of associations in one process, and how fast they come about: a server with one socket of the one-to-many
 * style, and a client with a socket of the one-to-one style for each association, waited for with epoll.
 *
 *   many server ADDRESS PORT COUNT HEARTBEAT   says when COUNT associations are up, and when all have gone
 *   many client ADDRESS PORT COUNT HEARTBEAT WINDOW FIRST
 *
 * The client begins COUNT from the ports FIRST and up, WINDOW at a time, and ends them with its input. HEARTBEAT is
 * HB.interval in milliseconds.
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void say(const char *what, int count, double seconds)
{
    printf("%s %d %.3f\n", what, count, seconds);
    fflush(stdout);
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

static int subscribe(int sd, uint16_t type)
{
    struct sctp_event event;
    memset(&event, 0, sizeof event);
    event.se_assoc_id = SCTP_FUTURE_ASSOC;
    event.se_type = type;
    event.se_on = 1;
    return setsockopt(sd, IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event);
}

static int set_heartbeat(int sd, uint32_t interval)
{
    struct sctp_paddrparams parameters;
    memset(&parameters, 0, sizeof parameters);
    parameters.spp_hbinterval = interval;
    parameters.spp_flags = SPP_HB_ENABLE;
    return setsockopt(sd, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &parameters, sizeof parameters);
}

static int serve(struct sockaddr_in at, int count, uint32_t heartbeat)
{
    union sctp_notification what;
    int up = 0, gone = 0;
    double begun = 0;
    int sd = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
    if (sd < 0 || set_heartbeat(sd, heartbeat) < 0 || subscribe(sd, SCTP_ASSOC_CHANGE) < 0 ||
        subscribe(sd, SCTP_SENDER_DRY_EVENT) < 0 || bind(sd, (struct sockaddr *)&at, sizeof at) < 0 ||
        listen(sd, 1000) < 0)
        return fail("listen");
    puts("ready");
    fflush(stdout);
    while (gone < count) {
        ssize_t got = recv(sd, &what, sizeof what, 0);
        if (got < 0)
            return fail("recv");
        if (what.sn_header.sn_type != SCTP_ASSOC_CHANGE)
            continue;
        if (what.sn_assoc_change.sac_state == SCTP_COMM_UP) {
            if (up++ == 0)
                begun = now();
            if (up == count)
                say("up", up, now() - begun);
        } else {
            gone++;
        }
    }
    say("gone", gone, now() - begun);
    return close(sd);
}

/* Begins one more association. */
static int begin(int poll, struct sockaddr_in to, uint32_t heartbeat, uint16_t port)
{
    int sd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_SCTP);
    struct epoll_event wanted = {.events = EPOLLOUT | EPOLLONESHOT, .data = {.fd = sd}};
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (sd < 0 || set_heartbeat(sd, heartbeat) < 0 || bind(sd, (struct sockaddr *)&own, sizeof own) < 0)
        return fail("socket");
    if (connect(sd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS)
        return fail("connect");
    return epoll_ctl(poll, EPOLL_CTL_ADD, sd, &wanted) < 0 ? fail("epoll_ctl") : 0;
}

static int ask(struct sockaddr_in to, int count, uint32_t heartbeat, int window, int first)
{
    struct epoll_event ready[64];
    int begun = 0, up = 0, poll = epoll_create1(0);
    double start = now();
    while (up < count) {
        for (; begun < count && begun < up + window; begun++)
            if (begin(poll, to, heartbeat, (uint16_t)(first + begun)) != 0)
                return 1;
        int found = epoll_wait(poll, ready, 64, -1);
        for (int i = 0; i < found; i++, up++) {
            int error = 0;
            socklen_t len = sizeof error;
            if (getsockopt(ready[i].data.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0) {
                errno = error;
                return fail("connect");
            }
        }
    }
    say("up", up, now() - start);
    while (getchar() != EOF)
        ;
    return 0;
}

int main(int argc, char **argv)
{
    /* Each one-to-one socket has two descriptors. */
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (argc == 6 && strcmp(argv[1], "server") == 0)
        return serve(address(argv[2], argv[3]), atoi(argv[4]), (uint32_t)atoi(argv[5]));
    if (argc == 8 && strcmp(argv[1], "client") == 0)
        return ask(address(argv[2], argv[3]), atoi(argv[4]), (uint32_t)atoi(argv[5]), atoi(argv[6]), atoi(argv[7]));
    fprintf(stderr, "usage: many server|client ADDRESS PORT COUNT HEARTBEAT [WINDOW FIRST]\n");
    return 2;
}
