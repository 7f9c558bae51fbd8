/*
 * accept, fork: each client is served by a child, and the parent closes its descriptor, as inetd and many servers do.
 *
 *   serve server ADDRESS PORT CLIENTS   serves so many clients, then ends
 *   serve before ADDRESS PORT CLIENTS   the same, but it forks first, and each child accepts one of them
 *   serve client ADDRESS PORT MESSAGES  sends that many and checks the answers
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define MOST 100000

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

/* What a child can do with a socket of its parent. */
static int check_calls(int sd)
{
    struct sockaddr_in name;
    struct sctp_status status;
    struct sockaddr *all = NULL;
    socklen_t len = sizeof name;
    int on = 1;
    if (getpeername(sd, (struct sockaddr *)&name, &len) < 0 || name.sin_family != AF_INET)
        return fail("getpeername");
    len = sizeof name;
    if (getsockname(sd, (struct sockaddr *)&name, &len) < 0 || name.sin_port == 0)
        return fail("getsockname");
    memset(&status, 0, sizeof status);
    len = sizeof status;
    if (sctp_opt_info(sd, 0, SCTP_STATUS, &status, &len) < 0 || status.sstat_state != SCTP_ESTABLISHED)
        return fail("SCTP_STATUS");
    if (setsockopt(sd, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on) < 0)
        return fail("SCTP_NODELAY");
    if (sctp_getpaddrs(sd, 0, &all) < 1)
        return fail("sctp_getpaddrs");
    sctp_freepaddrs(all);
    if (recv(sd, buffer, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno != EAGAIN)
        return fail("recv without waiting");
    return 0;
}

static int child(int sd)
{
    struct pollfd ready = {sd, POLLIN, 0};
    struct sctp_sndrcvinfo info;
    int copy = manypath_dup(sd), flags = 0, len;
    if (check_calls(sd) != 0 || copy < 0 || close(sd) < 0)
        return fail("dup");
    ready.fd = copy;
    while (poll(&ready, 1, 20000) == 1) {
        memset(&info, 0, sizeof info);
        len = sctp_recvmsg(copy, buffer, MOST, NULL, NULL, &info, &flags);
        if (len <= 0)
            return len == 0 ? close(copy) : fail("sctp_recvmsg");
        if (sctp_sendmsg(copy, buffer, (size_t)len, NULL, 0, info.sinfo_ppid, 0, info.sinfo_stream, 0, 0) != len)
            return fail("sctp_sendmsg");
    }
    return fail("poll");
}

static int serve(struct sockaddr_in at, int clients, int before)
{
    struct sctp_event_subscribe events = {.sctp_data_io_event = 1};
    int listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), status, failed = 0;
    if (setsockopt(listener, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) < 0)
        return fail("SCTP_EVENTS");
    if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 5) < 0)
        return fail("listen");
    puts("ready");
    fflush(stdout);
    for (int i = 0; i < clients; i++) {
        struct sockaddr_in from = {.sin_family = 0};
        socklen_t len = sizeof from;
        int sd = before ? -1 : accept(listener, (struct sockaddr *)&from, &len);
        if (sd < 0 && !before)
            return fail("accept");
        pid_t pid = fork();
        if (pid == 0) {
            if (before)
                sd = accept(listener, (struct sockaddr *)&from, &len);
            if (sd < 0 || from.sin_family != AF_INET)
                exit(fail("accept in a child"));
            close(listener);
            exit(child(sd));
        }
        if (pid < 0 || (sd >= 0 && close(sd) < 0))
            return fail("fork");
    }
    if (before)
        close(listener);
    for (int i = 0; i < clients; i++)
        failed += wait(&status) < 0 || status != 0;
    if (!before)
        close(listener);
    printf("%d children, %d failed\n", clients, failed);
    return failed;
}

static int ask(struct sockaddr_in to, int messages)
{
    int sd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (sd < 0 || connect(sd, (struct sockaddr *)&to, sizeof to) < 0)
        return fail("connect");
    for (int number = 0; number < messages; number++) {
        size_t len = 1 + (size_t)number * 997 % MOST;
        memset(buffer, number, len);
        if (send(sd, buffer, len, 0) != (ssize_t)len)
            return fail("send");
        size_t got = 0;
        while (got < len) {
            ssize_t some = recv(sd, answer + got, MOST - got, 0);
            if (some <= 0)
                return fail("recv");
            got += (size_t)some;
        }
        if (memcmp(buffer, answer, len) != 0)
            return fail("the right answer");
    }
    shutdown(sd, SHUT_WR);
    if (recv(sd, answer, MOST, 0) != 0)
        return fail("the end");
    close(sd);
    printf("%d messages came back\n", messages);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && (strcmp(argv[1], "server") == 0 || strcmp(argv[1], "before") == 0))
        return serve(address(argv[2], argv[3]), atoi(argv[4]), argv[1][0] == 'b');
    if (argc == 5 && strcmp(argv[1], "client") == 0)
        return ask(address(argv[2], argv[3]), atoi(argv[4]));
    fprintf(stderr, "usage: serve server|before ADDRESS PORT CLIENTS | client ADDRESS PORT MESSAGES\n");
    return 2;
}
