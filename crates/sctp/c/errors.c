/*
 * Mistakes of a program end in errors, as the kernel's calls have them, and addresses of 127.0.0.0/8 are the host's.
 *
 *   errors PORT   prints "all as expected"
 */
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int wrong;

static void expect(const char *what, long result, int error)
{
    if (result != -1 || errno != error) {
        printf("%s: %ld, %s\n", what, result, strerror(errno));
        wrong = 1;
    }
}

int main(int count, char **words)
{
    void *nowhere = mmap(0, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sockaddr *addresses;
    struct sockaddr_in address, unnamed;
    struct iovec bad = { .iov_base = nowhere, .iov_len = 10 };
    struct msghdr header = { .msg_iov = &bad, .msg_iovlen = 1 };
    struct sctp_getaddrs_old to = { .addr_num = sizeof address, .addrs = (unsigned long)&address };
    sctp_assoc_t number = 0;
    int sd, seconds = 1;
    socklen_t len = sizeof address, size = sizeof to;
    if (count != 2)
        return fprintf(stderr, "errors PORT\n"), 2;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(words[1]));
    inet_pton(AF_INET, "127.0.0.9", &address.sin_addr);
    sd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);

    expect("bind", bind(sd, nowhere, len), EFAULT);
    expect("bind to the last byte", bind(sd, (void *)-1, len), EFAULT);
    expect("connect", connect(sd, nowhere, len), EFAULT);
    expect("setsockopt", setsockopt(sd, IPPROTO_SCTP, SCTP_NODELAY, nowhere, 4), EFAULT);
    expect("getsockopt", getsockopt(sd, IPPROTO_SCTP, SCTP_NODELAY, &seconds, nowhere), EFAULT);
    expect("getsockname", getsockname(sd, nowhere, &len), EFAULT);
    expect("send", send(sd, nowhere, 10, 0), EFAULT);
    expect("sendmsg", sendmsg(sd, &header, 0), EFAULT);
    expect("sendmsg without a header", sendmsg(sd, nowhere, 0), EFAULT);
    expect("recvmsg without a header", recvmsg(sd, nowhere, 0), EFAULT);

    expect("sctp_getladdrs of a file", sctp_getladdrs(1, 0, &addresses), ENOTSOCK);
    expect("sctp_getladdrs of nothing", sctp_getladdrs(-1, 0, &addresses), EBADF);
    unnamed = address;
    unnamed.sin_port = 0;
    expect("sctp_connectx to no port", sctp_connectx(sd, (void *)&unnamed, 1, 0), EINVAL);
    expect("autoclose", setsockopt(sd, IPPROTO_SCTP, SCTP_AUTOCLOSE, &seconds, 4), EOPNOTSUPP);
    expect("flags", sctp_sendmsg(sd, "a", 1, (void *)&address, len, 0, 0x100, 0, 0, 0), EINVAL);

    if (bind(sd, (void *)&address, len) != 0 || listen(sd, 1) != 0) {
        perror("127.0.0.9");
        wrong = 1;
    }
    sd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (connect(sd, (void *)&address, len) != 0) {
        perror("connect to 127.0.0.9");
        wrong = 1;
    }
    sd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_SCTP);
    expect("sctp_connectx at once", sctp_connectx(sd, (void *)&address, 1, &number), EINPROGRESS);
    if (number == 0) {
        puts("sctp_connectx at once gives no association");
        wrong = 1;
    }
    /* As libsctp does it. */
    sd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_SCTP);
    expect("connect by option", getsockopt(sd, IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX3, &to, &size), EINPROGRESS);
    if (to.assoc_id == 0) {
        puts("connect by option gives no association");
        wrong = 1;
    }
    /* What takes the place of a socket's descriptor is no SCTP socket. */
    sd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    expect("dup3 of nothing", manypath_dup3(-1, sd, 0), EBADF);
    expect("send after that", send(sd, "a", 1, 0), ENOTCONN);
    if (manypath_dup3(open("/dev/null", O_WRONLY), sd, 0) != sd || write(sd, "a", 1) != 1) {
        perror("/dev/null in its place");
        wrong = 1;
    }
    if (!wrong)
        puts("all as expected");
    return wrong;
}
