/*
 * fork: the child can use sockets of its parent (serve.c), but not bind, connect or peel off with them: that fails with EBADF.
 * Sockets that it opens are its own.
 *
 *   fork ADDRESS PORT
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static int in_child(int inherited, struct sockaddr_in to)
{
    if (listen(inherited, 5) == 0 || errno != EBADF)
        return fail("listen with an inherited socket");
    if (close(inherited) < 0)
        return fail("close of an inherited socket");
    int sd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (sd < 0 || connect(sd, (struct sockaddr *)&to, sizeof to) < 0 || send(sd, "child", 5, 0) != 5)
        return fail("connect");
    return close(sd);
}

int main(int argc, char **argv)
{
    char text[16];
    int status = 0;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argc == 3 ? argv[2] : "0"))};
    if (argc != 3 || inet_pton(AF_INET, argv[1], &at.sin_addr) != 1) {
        fprintf(stderr, "usage: fork ADDRESS PORT\n");
        return 2;
    }
    int listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 1) < 0)
        return fail("listen");
    pid_t child = fork();
    if (child == 0)
        exit(in_child(listener, at));
    /* The child has closed it; here it goes on. */
    int sd = accept(listener, NULL, NULL);
    if (child < 0 || sd < 0)
        return fail("accept");
    if (recv(sd, text, sizeof text, 0) != 5 || memcmp(text, "child", 5) != 0)
        return fail("recv");
    if (waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "the child ended with %d\n", status);
        return 1;
    }
    close(sd);
    close(listener);
    puts("the child had a socket of its own");
    return 0;
}
