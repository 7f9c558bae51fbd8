/*
 * The three stacks under one set of names, in which RFC 6458 has them: usrsctp (-DUSRSCTP), libmanypath_sctp
 * (-DMANYPATH) and the Linux kernel.
 */
#ifndef MANYPATH_STACK_H
#define MANYPATH_STACK_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if defined(USRSCTP)
#include <usrsctp.h>
#elif defined(MANYPATH)
#define MANYPATH_SCTP_REPLACE
#include "manypath_sctp.h"
#else
#include <netinet/sctp.h>
#endif

/* Whether SCTP_STREAM_CHANGE_EVENT has the numbers of all streams, or only of those added; and whether SCTP_ABORT is
 * taken on one-to-one sockets. */
#if defined(USRSCTP) || defined(MANYPATH)
#define STREAM_CHANGE_HAS_ALL 1
#define ABORT_IS_A_FLAG 1
#else
#define STREAM_CHANGE_HAS_ALL 0
#define ABORT_IS_A_FLAG 0
#endif

#if defined(USRSCTP)

/* netinet/sctp.h of usrsctp has it, usrsctp.h does not. */
#define SCTP_INTERLEAVING_SUPPORTED 0x00001206

typedef struct socket *stack_socket;
#define NO_SOCKET NULL

static inline void stack_begin(unsigned udp) {
	usrsctp_init((uint16_t)udp, NULL, NULL);
	/* No second path that nobody asked for, and data to addresses of this machine is checked too. */
	usrsctp_sysctl_set_sctp_auto_asconf(0);
	usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
}

static inline stack_socket stack_open(int family) {
	return usrsctp_socket(family, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
}

#define stack_option usrsctp_setsockopt
#define stack_bindx(s, addresses, count) usrsctp_bindx(s, addresses, count, SCTP_BINDX_ADD_ADDR)
#define stack_connectx(s, addresses, count, id) usrsctp_connectx(s, addresses, count, id)
#define stack_listen usrsctp_listen
#define stack_accept(s) usrsctp_accept(s, NULL, NULL)
#define stack_shutdown(s) usrsctp_shutdown(s, SHUT_WR)
#define stack_close usrsctp_close

static inline ssize_t stack_send(stack_socket s, const void *data, size_t size, struct sctp_sendv_spa *how) {
	return usrsctp_sendv(s, data, size, NULL, 0, how, sizeof(*how), SCTP_SENDV_SPA, 0);
}

static inline ssize_t stack_receive(stack_socket s, void *data, size_t size, struct sctp_rcvinfo *info, int *flags) {
	struct sockaddr_storage from;
	socklen_t from_size = sizeof(from), info_size = sizeof(*info);
	unsigned kind = 0;

	return usrsctp_recvv(s, data, size, (struct sockaddr *)&from, &from_size, info, &info_size, &kind, flags);
}

/*
 * Until the last chunks are repeated, for ten seconds: once in some hundred ends usrsctp 0.9.5 keeps an endpoint for ever
 * that has nothing left to send.
 */
static inline void stack_end(void) {
	struct timespec pause = {.tv_nsec = 20000000};

	for (int tries = 0; tries < 500 && usrsctp_finish() != 0; tries++)
		nanosleep(&pause, NULL);
}

#else

typedef int stack_socket;
#define NO_SOCKET (-1)

static inline void stack_begin(unsigned udp) {
	(void)udp;
}

static inline stack_socket stack_open(int family) {
	return socket(family, SOCK_STREAM, IPPROTO_SCTP);
}

#define stack_option setsockopt
#define stack_bindx(s, addresses, count) sctp_bindx(s, addresses, count, SCTP_BINDX_ADD_ADDR)
#define stack_connectx(s, addresses, count, id) sctp_connectx(s, addresses, count, id)
#define stack_listen listen
#define stack_accept(s) accept(s, NULL, NULL)
#define stack_shutdown(s) shutdown(s, SHUT_WR)
#define stack_close close

static inline ssize_t stack_send(stack_socket s, const void *data, size_t size, struct sctp_sendv_spa *how) {
	struct iovec iov = {(void *)(uintptr_t)data, size};

	return sctp_sendv(s, &iov, 1, NULL, 0, how, sizeof(*how), SCTP_SENDV_SPA, MSG_NOSIGNAL);
}

static inline ssize_t stack_receive(stack_socket s, void *data, size_t size, struct sctp_rcvinfo *info, int *flags) {
	struct iovec iov = {data, size};
	struct sockaddr_storage from;
	socklen_t from_size = sizeof(from), info_size = sizeof(*info);
	unsigned kind = 0;

	return sctp_recvv(s, &iov, 1, (struct sockaddr *)&from, &from_size, info, &info_size, &kind, flags);
}

static inline void stack_end(void) {
}

#endif
#endif
