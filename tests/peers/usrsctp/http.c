/*
 * HTTP over SCTP in UDP (RFC 6951) by usrsctp: one association for each connection, bytes in stream 0. A server and a
 * client that know nothing of manypath.
 *
 *     http serve OWN-ADDRESS PORT             serves until it is killed; says "ready" on standard error
 *     http get   OWN-ADDRESS PEER-ADDRESS PORT PATH
 *     http put   OWN-ADDRESS PEER-ADDRESS PORT PATH BYTES
 *
 * The server answers GET /BYTES with so many bytes whose SHA-256 is in the header X-Sha256, and PUT with the SHA-256 of
 * what it got. The client prints one line of JSON: the status, and the bytes of the answer with their SHA-256; with
 * put also the SHA-256 of what it sent, and the answer as text.
 *
 * The UDP port is 9899 at both ends, or UDP of the environment at the own end. With NATIVE=1 in the environment there is
 * no UDP: raw sockets (as root).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

#include "../sockets/sha256.h"

#define UDP_PORT 9899
#define MESSAGE 16384
#define HEAD 8192
/* 20 ms each. */
#define LAST_TURNS 250
#define SECONDS 60

/* What has been read of a connection beyond what was asked for. */
struct reader {
	struct socket *socket;
	uint8_t buffer[1 << 16];
	size_t first, end;
};

static int native;

static void fail(const char *what) {
	fprintf(stderr, "http: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static struct sockaddr_in address(const char *text, unsigned port) {
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	if (inet_pton(AF_INET, text, &v4.sin_addr) != 1)
		fail(text);
	return v4;
}

static struct socket *open_socket(void) {
	struct socket *s = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	struct sctp_udpencaps encapsulation = {.sue_port = htons(UDP_PORT)};
	int on = 1, buffer = 1 << 20;

	if (s == NULL)
		fail("socket");
	encapsulation.sue_address.ss_family = AF_INET;
	if (usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof(on)) < 0 ||
	    usrsctp_setsockopt(s, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) < 0 ||
	    usrsctp_setsockopt(s, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)) < 0)
		fail("options");
	if (!native && usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation, sizeof(encapsulation)) < 0)
		fail("SCTP_REMOTE_UDP_ENCAPS_PORT");
	return s;
}

/* Bytes that never repeat: xorshift64*, from a seed of its own for each body. */
static void fill(uint64_t *state, uint8_t *buffer, size_t size) {
	for (size_t i = 0; i < size; i++) {
		if (i % 8 == 0) {
			*state ^= *state >> 12;
			*state ^= *state << 25;
			*state ^= *state >> 27;
		}
		buffer[i] = (uint8_t)(*state * 0x2545f4914f6cdd1dULL >> (56 - 8 * (i % 8)));
	}
}

static void hex(struct sha256 *sum, char text[65]) {
	uint8_t digest[32];

	sha256_finish(sum, digest);
	for (int i = 0; i < 32; i++)
		sprintf(text + 2 * i, "%02x", digest[i]);
}

static int send_all(struct socket *s, const void *bytes, size_t size) {
	const uint8_t *next = bytes;

	while (size > 0) {
		size_t part = size < MESSAGE ? size : MESSAGE;
		if (usrsctp_sendv(s, next, part, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0) < 0)
			return -1;
		next += part;
		size -= part;
	}
	return 0;
}

/* The SHA-256 of a body, which is sent as well if there is a socket. */
static int body(struct socket *s, uint64_t size, char text[65]) {
	uint64_t state = 0x2545f4914f6cdd1dULL ^ size;
	uint8_t message[MESSAGE];
	struct sha256 sum;

	sha256_init(&sum);
	while (size > 0) {
		size_t part = size < MESSAGE ? (size_t)size : MESSAGE;
		fill(&state, message, part);
		sha256_update(&sum, message, part);
		if (s != NULL && send_all(s, message, part) < 0)
			return -1;
		size -= part;
	}
	hex(&sum, text);
	return 0;
}

/* More bytes into the buffer, which is empty; 0 at the end. */
static int more(struct reader *r) {
	struct sctp_rcvinfo info;
	struct sockaddr_storage from;
	socklen_t from_size = sizeof(from), info_size = sizeof(info);
	unsigned kind = 0;
	int flags = 0;
	ssize_t got = usrsctp_recvv(r->socket, r->buffer, sizeof(r->buffer), (struct sockaddr *)&from, &from_size, &info,
				    &info_size, &kind, &flags);

	r->first = 0;
	r->end = got > 0 ? (size_t)got : 0;
	return got > 0;
}

/* Reads a head up to and with its empty line, as text; 0 at the end or when it is too long. */
static int head(struct reader *r, char text[HEAD]) {
	size_t length = 0;

	while (length < HEAD - 1) {
		if (r->first == r->end && !more(r))
			return 0;
		text[length++] = (char)r->buffer[r->first++];
		text[length] = 0;
		if (length >= 4 && strcmp(text + length - 4, "\r\n\r\n") == 0)
			return 1;
	}
	return 0;
}

static uint64_t content_length(const char *text, uint64_t otherwise) {
	const char *found = strcasestr(text, "\r\nContent-Length:");

	return found == NULL ? otherwise : strtoull(found + 17, NULL, 10);
}

/* Reads up to so many bytes of a body; how many there were. `copy` gets the first of them as text. */
static uint64_t read_body(struct reader *r, uint64_t size, char text[65], char copy[128]) {
	uint64_t seen = 0;
	struct sha256 sum;

	sha256_init(&sum);
	while (seen < size && (r->first < r->end || more(r))) {
		size_t part = r->end - r->first;
		if (part > size - seen)
			part = (size_t)(size - seen);
		sha256_update(&sum, r->buffer + r->first, part);
		for (size_t i = 0; copy != NULL && i < part && seen + i < 127; i++) {
			copy[seen + i] = (char)r->buffer[r->first + i];
			copy[seen + i + 1] = 0;
		}
		r->first += part;
		seen += part;
	}
	hex(&sum, text);
	return seen;
}

static void answer(struct reader *r, const char *request) {
	char sum[65], reply[256];
	uint64_t size;

	if (strncmp(request, "GET /", 5) == 0) {
		size = strtoull(request + 5, NULL, 10);
		body(NULL, size, sum);
		snprintf(reply, sizeof(reply), "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\nX-Sha256: %s\r\nConnection: close\r\n\r\n",
			 (unsigned long long)size, sum);
		if (send_all(r->socket, reply, strlen(reply)) == 0)
			body(r->socket, size, sum);
		return;
	}
	if (strcasestr(request, "\r\nExpect: 100-continue") != NULL)
		send_all(r->socket, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	read_body(r, content_length(request, 0), sum, NULL);
	snprintf(reply, sizeof(reply), "HTTP/1.1 200 OK\r\nContent-Length: 64\r\nConnection: close\r\n\r\n%s", sum);
	send_all(r->socket, reply, strlen(reply));
}

/* One connection: a request and its answer. SHUTDOWN tells that this was all. */
static void *serve_one(void *socket) {
	struct reader *r = calloc(1, sizeof(*r));
	char request[HEAD];

	r->socket = socket;
	if (head(r, request)) {
		answer(r, request);
		usrsctp_shutdown(r->socket, SHUT_WR);
		while (more(r))
			;
	}
	usrsctp_close(r->socket);
	free(r);
	return NULL;
}

static void serve(const char *own, unsigned port) {
	struct sockaddr_in local = address(own, port);
	struct socket *s = open_socket();

	if (usrsctp_bind(s, (struct sockaddr *)&local, sizeof(local)) < 0 || usrsctp_listen(s, 64) < 0)
		fail("listen");
	fprintf(stderr, "ready\n");
	for (;;) {
		struct socket *one = usrsctp_accept(s, NULL, NULL);
		pthread_t thread;
		if (one == NULL)
			fail("accept");
		if (pthread_create(&thread, NULL, serve_one, one) != 0)
			fail("thread");
		pthread_detach(thread);
	}
}

static void request(char **words, int put) {
	struct sockaddr_in local = address(words[0], 0), peer = address(words[1], (unsigned)atoi(words[2]));
	struct reader *r = calloc(1, sizeof(*r));
	char text[HEAD], sent[65] = "", got[65], copy[128] = "";
	uint64_t size = put ? strtoull(words[4], NULL, 10) : 0, seen;

	r->socket = open_socket();
	if (usrsctp_bind(r->socket, (struct sockaddr *)&local, sizeof(local)) < 0 ||
	    usrsctp_connect(r->socket, (struct sockaddr *)&peer, sizeof(peer)) < 0)
		fail("connect");
	snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %llu\r\n\r\n",
		 put ? "PUT" : "GET", words[3], words[1], (unsigned long long)size);
	if (send_all(r->socket, text, strlen(text)) < 0 || body(r->socket, size, sent) < 0)
		fail("send");
	if (!head(r, text))
		fail("no answer");
	seen = read_body(r, content_length(text, UINT64_MAX), got, copy);
	printf("{\"status\":%d,\"bytes\":%llu,\"sha256\":\"%s\",\"sent_sha256\":\"%s\",\"text\":\"%s\"}\n", atoi(text + 9),
	       (unsigned long long)seen, got, sent, put ? copy : "");
	fflush(stdout);
	usrsctp_shutdown(r->socket, SHUT_WR);
	while (more(r))
		;
	usrsctp_close(r->socket);
}

int main(int count, char **words) {
	struct timespec pause = {.tv_nsec = 20000000};
	const char *udp = getenv("UDP");

	native = getenv("NATIVE") != NULL;
	usrsctp_init(native ? 0 : (uint16_t)(udp != NULL ? atoi(udp) : UDP_PORT), NULL, NULL);
	usrsctp_sysctl_set_sctp_auto_asconf(0);
	usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
	if (count == 4 && strcmp(words[1], "serve") == 0)
		serve(words[2], (unsigned)atoi(words[3]));
	alarm(SECONDS);
	if (count == 6 && strcmp(words[1], "get") == 0)
		request(words + 2, 0);
	else if (count == 7 && strcmp(words[1], "put") == 0)
		request(words + 2, 1);
	else
		fail("serve, get or put");
	/* Once in some hundred runs usrsctp keeps a closed socket for ever whose association both sides have shut down. */
	for (int turn = 0; turn < LAST_TURNS && usrsctp_finish() != 0; turn++)
		nanosleep(&pause, NULL);
	return 0;
}
