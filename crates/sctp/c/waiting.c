/*
 * poll tells of what has arrived, also of what was there before the socket was accepted.
 *
 *   waiting ADDRESS PORT   a client and a server in one process
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what)
{
    perror(what);
    return 1;
}

/* Whether a descriptor is ready for something at once. */
static int is_ready(int sd, short events)
{
    struct pollfd one = { .fd = sd, .events = events };
    return poll(&one, 1, 0) == 1 && (one.revents & events) == events;
}

int main(int count, char **words)
{
    struct sockaddr_in address;
    struct pollfd waiting = { .events = POLLIN };
    char answer[8];
    int listener, client, server;
    if (count != 3)
        return fprintf(stderr, "waiting ADDRESS PORT\n"), 2;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(words[2]));
    inet_pton(AF_INET, words[1], &address.sin_addr);
    listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    client = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 5) < 0)
        return fail("listen");
    if (connect(client, (struct sockaddr *)&address, sizeof address) < 0 || send(client, "early", 5, 0) != 5)
        return fail("client");
    waiting.fd = listener;
    if (poll(&waiting, 1, 5000) != 1)
        return fail("nobody to accept");
    usleep(300000); /* The message is there, and acknowledged. */
    server = accept(listener, NULL, NULL);
    if (!is_ready(server, POLLIN | POLLOUT))
        return fprintf(stderr, "poll does not tell of what came before accept\n"), 1;
    if (recv(server, answer, sizeof answer, 0) != 5)
        return fail("recv");
    if (is_ready(server, POLLIN))
        return fprintf(stderr, "poll tells of nothing\n"), 1;
    close(server);
    close(client);
    close(listener);
    puts("ready at once");
    return 0;
}
