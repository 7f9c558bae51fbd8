/*
 * Threads (RFC 6458 says nothing of them; here all functions may be called from all threads): a server whose threads answer through
 * one socket of the one-to-many style, clients with a thread for each socket of the one-to-one style, and sockets that
 * are closed while another thread waits for them. All in one process, over loopback.
 *
 *   threads ADDRESS PORT THREADS MESSAGES
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static struct sockaddr_in server_address;
static int server, messages;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* Sends back what comes, until it is told to end. */
static void *serve(void *unused)
{
    char bytes[256];
    (void)unused;
    for (;;) {
        struct sockaddr_in from;
        socklen_t len = sizeof from;
        struct sctp_sndrcvinfo info;
        int flags = 0;
        int got = sctp_recvmsg(server, bytes, sizeof bytes, (struct sockaddr *)&from, &len, &info, &flags);
        if (got < 0)
            die("sctp_recvmsg");
        info.sinfo_flags = 0;
        if (sctp_send(server, bytes, (size_t)got, &info, 0) != got)
            die("sctp_send");
        if (memcmp(bytes, "end", 3) == 0)
            return NULL;
    }
}

static int connect_to_server(void)
{
    int sd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (sd < 0 || connect(sd, (struct sockaddr *)&server_address, sizeof server_address) < 0)
        die("connect");
    return sd;
}

static void exchange(int sd, const char *text)
{
    char bytes[256];
    ssize_t len = (ssize_t)strlen(text);
    if (send(sd, text, (size_t)len, 0) != len)
        die("send");
    if (recv(sd, bytes, sizeof bytes, 0) != len || memcmp(bytes, text, (size_t)len) != 0)
        die("recv");
}

static void *ask(void *number)
{
    char text[64];
    int sd = connect_to_server();
    for (int i = 0; i < messages; i++) {
        snprintf(text, sizeof text, "message %d of client %d", i, *(int *)number);
        exchange(sd, text);
    }
    close(sd);
    return NULL;
}

/* Waits for a message that never comes: another thread closes the socket. */
static void *wait_in_vain(void *sd)
{
    char byte;
    ssize_t got = recv(*(int *)sd, &byte, 1, 0);
    if (got > 0 || (got < 0 && errno != EBADF && errno != ENOTCONN))
        die("recv of a closed socket");
    return NULL;
}

static void close_under_a_waiting_thread(void)
{
    pthread_t waiting;
    int sd = connect_to_server();
    int copy = sd;
    if (pthread_create(&waiting, NULL, wait_in_vain, &copy) != 0)
        die("pthread_create");
    close(sd);
    pthread_join(waiting, NULL);
}

int main(int argc, char **argv)
{
    pthread_t servers[MOST], clients[MOST];
    int numbers[MOST], threads = argc == 5 ? atoi(argv[3]) : 0;
    if (threads < 1 || threads > MOST) {
        fprintf(stderr, "usage: threads ADDRESS PORT THREADS MESSAGES\n");
        return 2;
    }
    messages = atoi(argv[4]);
    server_address.sin_family = AF_INET;
    server_address.sin_port = htons((uint16_t)atoi(argv[2]));
    inet_pton(AF_INET, argv[1], &server_address.sin_addr);
    struct sctp_event_subscribe events;
    memset(&events, 0, sizeof events);
    events.sctp_data_io_event = 1;
    server = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
    if (server < 0 || setsockopt(server, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) < 0 ||
        bind(server, (struct sockaddr *)&server_address, sizeof server_address) < 0 || listen(server, MOST) < 0)
        die("listen");
    for (int i = 0; i < threads; i++) {
        numbers[i] = i;
        if (pthread_create(&servers[i], NULL, serve, NULL) != 0 || pthread_create(&clients[i], NULL, ask, &numbers[i]) != 0)
            die("pthread_create");
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(clients[i], NULL);
        close_under_a_waiting_thread();
    }
    /* Each server thread ends with one of these. */
    int sd = connect_to_server();
    for (int i = 0; i < threads; i++)
        exchange(sd, "end");
    for (int i = 0; i < threads; i++)
        pthread_join(servers[i], NULL);
    close(sd);
    close(server);
    printf("%d threads, %d messages each\n", threads, messages);
    return 0;
}
