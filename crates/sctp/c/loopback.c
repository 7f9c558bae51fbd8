/*
 * With MANYPATH_SCTP_ALONE=1, what a call brings about at another socket of the process is done when it returns: nothing
 * here waits.
 *
 *   loopback PORT   prints "nothing waited"
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int count, char **words)
{
    struct sockaddr_in address;
    char buffer[16];
    int kind = SOCK_STREAM | SOCK_NONBLOCK;
    int listener = socket(AF_INET, kind, IPPROTO_SCTP), sd = socket(AF_INET, kind, IPPROTO_SCTP), accepted;
    if (count != 2)
        return fprintf(stderr, "loopback PORT\n"), 2;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(words[1]));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    if (bind(listener, (void *)&address, sizeof address) != 0 || listen(listener, 1) != 0)
        return fail("listen");
    if (connect(sd, (void *)&address, sizeof address) == 0 || errno != EINPROGRESS)
        return fail("connect does not begin");
    accepted = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (accepted < 0)
        return fail("accept");
    errno = 0;
    if (send(sd, "question", 8, 0) != 8 || recv(accepted, buffer, sizeof buffer, 0) != 8)
        return fail("question");
    if (send(accepted, "answer", 6, 0) != 6 || recv(sd, buffer, sizeof buffer, 0) != 6)
        return fail("answer");
    close(sd);
    if (recv(accepted, buffer, sizeof buffer, 0) != 0)
        return fail("end");
    if (errno != 0)
        return fail("a call that succeeded");
    puts("nothing waited");
    return 0;
}
