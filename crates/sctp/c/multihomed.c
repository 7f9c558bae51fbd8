/*
 * Several addresses at both ends (RFC 6458 sections 9.1 and 9.9): sctp_bindx, sctp_connectx, and what they say
 * of the paths.
 *
 *   multihomed server PORT ADDRESS...          counts what one client sends, then ends
 *   multihomed client PORT BYTES ADDRESS...    sends, and tells the state of each address of the server
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char buffer[16384];

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static struct sockaddr_in addresses[8];

static int read_addresses(char **words, int count, const char *port)
{
    for (int i = 0; i < count && i < 8; i++) {
        addresses[i].sin_family = AF_INET;
        addresses[i].sin_port = htons((uint16_t)atoi(port));
        if (inet_pton(AF_INET, words[i], &addresses[i].sin_addr) != 1)
            return -1;
    }
    return count < 8 ? count : 8;
}

static int serve(int count)
{
    long total = 0;
    ssize_t got;
    int listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (listener < 0)
        return fail("socket");
    if (sctp_bindx(listener, (struct sockaddr *)addresses, count, SCTP_BINDX_ADD_ADDR) < 0)
        return fail("sctp_bindx");
    struct sockaddr *own;
    int bound = sctp_getladdrs(listener, 0, &own);
    if (bound != count)
        return fail("sctp_getladdrs");
    sctp_freeladdrs(own);
    if (listen(listener, 1) < 0)
        return fail("listen");
    puts("ready");
    fflush(stdout);
    int sd = accept(listener, NULL, NULL);
    if (sd < 0)
        return fail("accept");
    while ((got = recv(sd, buffer, sizeof buffer, 0)) > 0)
        total += got;
    if (got < 0)
        return fail("recv");
    close(sd);
    close(listener);
    printf("received %ld bytes\n", total);
    return 0;
}

static int send_to(int count, long bytes)
{
    sctp_assoc_t id = 0;
    int sd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (sd < 0)
        return fail("socket");
    if (sctp_connectx(sd, (struct sockaddr *)addresses, count, &id) < 0 || id == 0)
        return fail("sctp_connectx");
    for (long sent = 0; sent < bytes;) {
        size_t len = bytes - sent < (long)sizeof buffer ? (size_t)(bytes - sent) : sizeof buffer;
        ssize_t taken = send(sd, buffer, len, 0);
        if (taken < 0)
            return fail("send");
        sent += taken;
    }
    struct sockaddr *all;
    int known = sctp_getpaddrs(sd, id, &all);
    if (known < 0)
        return fail("sctp_getpaddrs");
    char *next = (char *)all;
    for (int i = 0; i < known; i++) {
        struct sctp_paddrinfo info;
        socklen_t len = sizeof info;
        char text[INET_ADDRSTRLEN];
        struct sockaddr_in *one = (struct sockaddr_in *)next;
        memset(&info, 0, sizeof info);
        memcpy(&info.spinfo_address, one, sizeof *one);
        if (sctp_opt_info(sd, id, SCTP_GET_PEER_ADDR_INFO, &info, &len) < 0)
            return fail("SCTP_GET_PEER_ADDR_INFO");
        inet_ntop(AF_INET, &one->sin_addr, text, sizeof text);
        printf("%s state %d mtu %u\n", text, info.spinfo_state, info.spinfo_mtu);
        next += sctp_getaddrlen(one->sin_family);
    }
    sctp_freepaddrs(all);
    close(sd);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "server") == 0)
        return serve(read_addresses(argv + 3, argc - 3, argv[2]));
    if (argc >= 5 && strcmp(argv[1], "client") == 0)
        return send_to(read_addresses(argv + 4, argc - 4, argv[2]), atol(argv[3]));
    fprintf(stderr, "usage: multihomed server PORT ADDRESS... | client PORT BYTES ADDRESS...\n");
    return 2;
}
