/*
 * One-to-many style with notifications (RFC 6458 sections 3 and 6): a server that answers all clients through
 * one socket, and a client that talks to it without connecting first.
 *
 *   chat server ADDRESS PORT CLIENTS   ends when that many clients have come and gone
 *   chat client ADDRESS PORT MESSAGES
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
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

static int subscribe(int sd)
{
    const uint16_t types[] = {SCTP_ASSOC_CHANGE, SCTP_SHUTDOWN_EVENT, SCTP_PEER_ADDR_CHANGE};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct sctp_event event;
        memset(&event, 0, sizeof event);
        event.se_assoc_id = SCTP_FUTURE_ASSOC;
        event.se_type = types[i];
        event.se_on = 1;
        if (setsockopt(sd, IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event) < 0)
            return -1;
    }
    struct sctp_event_subscribe old;
    socklen_t len = sizeof old;
    if (getsockopt(sd, IPPROTO_SCTP, SCTP_EVENTS, &old, &len) < 0)
        return -1;
    old.sctp_data_io_event = 1;
    return setsockopt(sd, IPPROTO_SCTP, SCTP_EVENTS, &old, len);
}

/* The state of the association if a notification tells one, else -1. */
static int look(const void *bytes, sctp_assoc_t *id)
{
    union sctp_notification what;
    memcpy(&what, bytes, sizeof what);
    switch (what.sn_header.sn_type) {
    case SCTP_ASSOC_CHANGE:
        printf("association %d: state %u\n", what.sn_assoc_change.sac_assoc_id, what.sn_assoc_change.sac_state);
        *id = what.sn_assoc_change.sac_assoc_id;
        return what.sn_assoc_change.sac_state;
    case SCTP_SHUTDOWN_EVENT:
        printf("association %d: shutdown\n", what.sn_shutdown_event.sse_assoc_id);
        return -1;
    case SCTP_PEER_ADDR_CHANGE:
        printf("association %d: address in state %d\n", what.sn_paddr_change.spc_assoc_id,
               what.sn_paddr_change.spc_state);
        return -1;
    default:
        printf("notification %#x\n", what.sn_header.sn_type);
        return -1;
    }
}

static int serve(struct sockaddr_in at, int clients)
{
    char bytes[4096];
    int gone = 0, here = 0;
    int sd = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
    if (sd < 0 || subscribe(sd) < 0 || bind(sd, (struct sockaddr *)&at, sizeof at) < 0 || listen(sd, 5) < 0)
        return fail("listen");
    puts("ready");
    fflush(stdout);
    while (gone < clients) {
        struct sockaddr_in from;
        socklen_t len = sizeof from;
        struct sctp_sndrcvinfo info;
        int flags = 0;
        sctp_assoc_t id = 0;
        int got = sctp_recvmsg(sd, bytes, sizeof bytes, (struct sockaddr *)&from, &len, &info, &flags);
        if (got < 0)
            return fail("sctp_recvmsg");
        if (flags & MSG_NOTIFICATION) {
            int state = look(bytes, &id);
            here += state == SCTP_COMM_UP;
            gone += state == SCTP_SHUTDOWN_COMP || state == SCTP_COMM_LOST;
            continue;
        }
        /* To whom it came from, named by the association. */
        info.sinfo_flags = 0;
        if (sctp_send(sd, bytes, (size_t)got, &info, 0) != got)
            return fail("sctp_send");
    }
    printf("%d clients came, %d went\n", here, gone);
    return close(sd);
}

static int ask(struct sockaddr_in to, int messages)
{
    char text[64], bytes[4096];
    sctp_assoc_t id = 0;
    int sd = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
    if (sd < 0 || subscribe(sd) < 0)
        return fail("socket");
    for (int sent = 0, answered = 0; answered < messages;) {
        if (sent == answered) {
            int len = snprintf(text, sizeof text, "message %d", sent++);
            if (sctp_sendmsg(sd, text, (size_t)len, (struct sockaddr *)&to, sizeof to, htonl(7), 0, 3, 0, 0) != len)
                return fail("sctp_sendmsg");
        }
        struct sctp_sndrcvinfo info;
        int flags = 0;
        int got = sctp_recvmsg(sd, bytes, sizeof bytes, NULL, NULL, &info, &flags);
        if (got < 0)
            return fail("sctp_recvmsg");
        if (flags & MSG_NOTIFICATION) {
            look(bytes, &id);
            continue;
        }
        if ((size_t)got != strlen(text) || memcmp(bytes, text, (size_t)got) != 0 || info.sinfo_stream != 3 ||
            ntohl(info.sinfo_ppid) != 7 || info.sinfo_assoc_id != id) {
            fprintf(stderr, "'%.*s' is not the answer to '%s'\n", got, bytes, text);
            return 1;
        }
        answered++;
    }
    /* The association becomes a socket of its own, which ends as one-to-one sockets do. */
    int own = sctp_peeloff(sd, id);
    if (own < 0)
        return fail("sctp_peeloff");
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    if (getpeername(own, (struct sockaddr *)&peer, &len) < 0 || peer.sin_port != to.sin_port)
        return fail("getpeername");
    close(own);
    close(sd);
    printf("%d answers\n", messages);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "server") == 0)
        return serve(address(argv[2], argv[3]), atoi(argv[4]));
    if (argc == 5 && strcmp(argv[1], "client") == 0)
        return ask(address(argv[2], argv[3]), atoi(argv[4]));
    fprintf(stderr, "usage: chat server ADDRESS PORT CLIENTS | client ADDRESS PORT MESSAGES\n");
    return 2;
}
