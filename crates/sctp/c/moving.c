/*
 * SCTP_AUTO_ASCONF: an association follows the addresses of the host. SCTP_GET_ASSOC_STATS tells what it has sent.
 *
 *   moving server PORT                  sends back what one client sends, then ends
 *   moving client ADDRESS PORT OLD NEW  asks every 20 ms until it has the address NEW and OLD no more
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    char text[100];
    ssize_t len;
    struct sctp_assoc_value on = {.assoc_value = 1};
    int listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (setsockopt(listener, IPPROTO_SCTP, SCTP_ASCONF_SUPPORTED, &on, sizeof on) < 0)
        return fail("SCTP_ASCONF_SUPPORTED");
    if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 5) < 0)
        return fail("listen");
    puts("ready");
    fflush(stdout);
    int sd = accept(listener, NULL, NULL);
    if (sd < 0)
        return fail("accept");
    while ((len = recv(sd, text, sizeof text, 0)) > 0)
        if (send(sd, text, (size_t)len, 0) != len)
            return fail("send");
    close(sd);
    close(listener);
    return len < 0 ? fail("recv") : 0;
}

/* Whether the association uses an address of this host. */
static int has(int sd, const char *wanted)
{
    struct sockaddr *all = NULL;
    struct in_addr ip;
    int found = 0, count = sctp_getladdrs(sd, 0, &all);
    inet_pton(AF_INET, wanted, &ip);
    for (int i = 0; i < count; i++)
        found |= ((struct sockaddr_in *)(void *)all)[i].sin_addr.s_addr == ip.s_addr;
    if (count > 0)
        sctp_freeladdrs(all);
    return found;
}

static int ask(struct sockaddr_in to, const char *old, const char *new)
{
    int on = 1, asked = 0, both = 0;
    char text[100], answer[100];
    int sd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (setsockopt(sd, IPPROTO_SCTP, SCTP_AUTO_ASCONF, &on, sizeof on) < 0)
        return fail("SCTP_AUTO_ASCONF");
    if (connect(sd, (struct sockaddr *)&to, sizeof to) < 0)
        return fail("connect");
    puts("connected");
    fflush(stdout);
    while (has(sd, old) || !has(sd, new)) {
        int len = snprintf(text, sizeof text, "question %d", asked++);
        if (send(sd, text, (size_t)len, 0) != len || recv(sd, answer, sizeof answer, 0) != len)
            return fail("an answer");
        if (memcmp(text, answer, (size_t)len) != 0)
            return fail("the right answer");
        if (!both && has(sd, old) && has(sd, new)) {
            both = 1;
            puts("both");
            fflush(stdout);
        }
        poll(NULL, 0, 20);
    }
    struct sctp_assoc_stats stats;
    socklen_t size = sizeof stats;
    memset(&stats, 0, sizeof stats);
    if (sctp_opt_info(sd, 0, SCTP_GET_ASSOC_STATS, &stats, &size) < 0)
        return fail("SCTP_GET_ASSOC_STATS");
    if (stats.sas_oodchunks != (unsigned)asked || stats.sas_iodchunks != (unsigned)asked || stats.sas_maxrto == 0) {
        fprintf(stderr, "%d questions were %llu chunks\n", asked, (unsigned long long)stats.sas_oodchunks);
        return 1;
    }
    close(sd);
    puts("moved");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "server") == 0)
        return serve(address("0.0.0.0", argv[2]));
    if (argc == 6 && strcmp(argv[1], "client") == 0)
        return ask(address(argv[2], argv[3]), argv[4], argv[5]);
    fprintf(stderr, "usage: moving server PORT | client ADDRESS PORT OLD NEW\n");
    return 2;
}
