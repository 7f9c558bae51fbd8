/*
 * usrsctp as the far end of a transfer: sends and receives a number of bytes over one association in
 * UDP (RFC 6951), both at the same time, and prints what it saw as one line of JSON.
 *
 *     peer listen  OWN-ADDRESS              [OPTION...]
 *     peer connect OWN-ADDRESS PEER-ADDRESS [OPTION...]
 *
 *     udp=9899 peer-udp=9899 port=5001   ports
 *     send=0 receive=0                   bytes
 *     buffer=4194304                     of the socket, each way
 *     message=16384 streams=1 unordered=0
 *     pr=none|ttl|rtx value=0            partial reliability of what is sent
 *     idata=0 reset=0                    I-DATA; reset all outgoing streams and add two at the end
 *     wait=0                             leave the end to the peer
 *     digest=1                           0: neither make up bytes nor sum them up, to measure the transport alone
 *     sysctl.NAME=VALUE                  a sysctl of usrsctp, such as sysctl.nrsack_enable
 *     seconds=60                         give up after this time
 *
 * The checksum of what goes in one direction: SHA-256 of the bytes of each stream, the digests of all
 * streams used XORed; with unordered=1 SHA-256 of each message, all of them XORed. Message i goes to
 * stream i modulo the number of streams.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

#include "sha256.h"

#define MAX_STREAMS 64
/* netinet/sctp.h of usrsctp has it, usrsctp.h does not. */
#define SCTP_INTERLEAVING_SUPPORTED 0x00001206
#define ADDED_STREAMS 2

static struct {
	const char *role, *own, *peer, *pr;
	unsigned udp, peer_udp, port, streams, unordered, value, idata, reset, wait, seconds, buffer, digest;
	uint64_t send, receive, message;
} options = {.pr = "none", .udp = 9899, .peer_udp = 9899, .port = 5001, .streams = 1, .message = 16384, .seconds = 60, .buffer = 4 << 20, .digest = 1};

/* The checksum of one direction. */
struct checksum {
	struct sha256 streams[MAX_STREAMS];
	uint8_t sum[32];
	uint64_t bytes, messages;
};

static struct checksum sent, received;
static struct socket *association;
/* What notifications have told. */
static struct {
	char supports[256];
	volatile unsigned aborted, restarts, send_failed, outbound_streams;
	/* What has come of requests: streams reset, answers with more streams, refusals. */
	volatile unsigned resets, added, refused;
} seen;

static void fail(const char *what) {
	fprintf(stderr, "peer: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void checksum_start(struct checksum *c) {
	for (int i = 0; i < MAX_STREAMS; i++)
		sha256_init(&c->streams[i]);
}

static void checksum_fold(struct checksum *c, unsigned stream) {
	uint8_t digest[32];

	sha256_finish(&c->streams[stream], digest);
	for (int i = 0; i < 32; i++)
		c->sum[i] ^= digest[i];
	sha256_init(&c->streams[stream]);
}

static void checksum_add(struct checksum *c, unsigned stream, const void *data, size_t size, int end_of_message) {
	if (options.digest)
		sha256_update(&c->streams[stream], data, size);
	c->bytes += size;
	if (!end_of_message)
		return;
	c->messages++;
	if (options.unordered)
		checksum_fold(c, stream);
}

static const char *checksum_text(struct checksum *c, char text[65]) {
	if (!options.unordered)
		for (unsigned i = 0; i < MAX_STREAMS; i++)
			if (c->streams[i].length > 0)
				checksum_fold(c, i);
	for (int i = 0; i < 32; i++)
		sprintf(text + 2 * i, "%02x", c->sum[i]);
	return text;
}

/* Bytes that never repeat: xorshift64*. */
static void fill(uint8_t *buffer, size_t size) {
	static uint64_t state = 0x2545f4914f6cdd1dULL ^ 99;

	for (size_t i = 0; i < size; i++) {
		if (i % 8 == 0) {
			state ^= state >> 12;
			state ^= state << 25;
			state ^= state >> 27;
		}
		buffer[i] = (uint8_t)(state * 0x2545f4914f6cdd1dULL >> (56 - 8 * (i % 8)));
	}
}

static socklen_t parse_address(const char *text, unsigned port, struct sockaddr_storage *address) {
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
		fail(text);
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)port);
	return sizeof(*v6);
}

/* Sysctls by the names that usrsctp has for them, without "sctp_". */
static void set_sysctl(const char *name, uint32_t value) {
	static const struct {
		const char *name;
		int (*set)(uint32_t);
	} table[] = {
		{"ecn_enable", usrsctp_sysctl_set_sctp_ecn_enable},
		{"pr_enable", usrsctp_sysctl_set_sctp_pr_enable},
		{"auth_enable", usrsctp_sysctl_set_sctp_auth_enable},
		{"asconf_enable", usrsctp_sysctl_set_sctp_asconf_enable},
		{"reconfig_enable", usrsctp_sysctl_set_sctp_reconfig_enable},
		{"nrsack_enable", usrsctp_sysctl_set_sctp_nrsack_enable},
		{"pktdrop_enable", usrsctp_sysctl_set_sctp_pktdrop_enable},
		{"cmt_on_off", usrsctp_sysctl_set_sctp_cmt_on_off},
		{"max_burst_default", usrsctp_sysctl_set_sctp_max_burst_default},
		{"rto_min_default", usrsctp_sysctl_set_sctp_rto_min_default},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strcmp(table[i].name, name) == 0) {
			if (table[i].set(value) != 0)
				fail(name);
			return;
		}
	errno = EINVAL;
	fail(name);
}

static void set_option(struct socket *s, int name, const void *value, socklen_t size, const char *what) {
	if (usrsctp_setsockopt(s, IPPROTO_SCTP, name, value, size) < 0)
		fail(what);
}

static struct socket *open_socket(int family) {
	static const uint16_t events[] = {SCTP_ASSOC_CHANGE, SCTP_STREAM_RESET_EVENT, SCTP_STREAM_CHANGE_EVENT,
					  SCTP_SEND_FAILED_EVENT};
	struct socket *s = usrsctp_socket(family, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	struct sctp_initmsg init = {.sinit_num_ostreams = (uint16_t)options.streams, .sinit_max_instreams = MAX_STREAMS};
	struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)options.peer_udp)};
	struct sctp_assoc_value resets = {.assoc_id = SCTP_ALL_ASSOC, .assoc_value = SCTP_ENABLE_VALUE_MASK};
	struct sctp_assoc_value idata = {.assoc_id = SCTP_ALL_ASSOC, .assoc_value = 1};
	int on = 1, buffer = (int)options.buffer, level = 2;

	if (s == NULL)
		fail("socket");
	encapsulation.sue_address.ss_family = (sa_family_t)family;
	set_option(s, SCTP_INITMSG, &init, sizeof(init), "SCTP_INITMSG");
	set_option(s, SCTP_NODELAY, &on, sizeof(on), "SCTP_NODELAY");
	set_option(s, SCTP_RECVRCVINFO, &on, sizeof(on), "SCTP_RECVRCVINFO");
	set_option(s, SCTP_ENABLE_STREAM_RESET, &resets, sizeof(resets), "SCTP_ENABLE_STREAM_RESET");
	if (strcmp(options.role, "connect") == 0)
		set_option(s, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation, sizeof(encapsulation), "SCTP_REMOTE_UDP_ENCAPS_PORT");
	if (options.idata) {
		set_option(s, SCTP_FRAGMENT_INTERLEAVE, &level, sizeof(level), "SCTP_FRAGMENT_INTERLEAVE");
		set_option(s, SCTP_INTERLEAVING_SUPPORTED, &idata, sizeof(idata), "SCTP_INTERLEAVING_SUPPORTED");
	}
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		struct sctp_event event = {.se_assoc_id = SCTP_ALL_ASSOC, .se_type = events[i], .se_on = 1};
		set_option(s, SCTP_EVENT, &event, sizeof(event), "SCTP_EVENT");
	}
	if (usrsctp_setsockopt(s, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) < 0 ||
	    usrsctp_setsockopt(s, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)) < 0)
		fail("buffers");
	return s;
}

static void on_association_change(const struct sctp_assoc_change *change) {
	static const char *names[] = {[SCTP_ASSOC_SUPPORTS_PR] = "pr", [SCTP_ASSOC_SUPPORTS_AUTH] = "auth",
				      [SCTP_ASSOC_SUPPORTS_ASCONF] = "asconf", [SCTP_ASSOC_SUPPORTS_MULTIBUF] = "multibuf",
				      [SCTP_ASSOC_SUPPORTS_RE_CONFIG] = "re-config",
				      [SCTP_ASSOC_SUPPORTS_INTERLEAVING] = "interleaving"};
	size_t features = change->sac_length - sizeof(*change);

	seen.restarts += change->sac_state == SCTP_RESTART;
	seen.aborted += change->sac_state == SCTP_COMM_LOST;
	if (change->sac_state != SCTP_COMM_UP)
		return;
	seen.outbound_streams = change->sac_outbound_streams;
	seen.supports[0] = 0;
	for (size_t i = 0; i < features; i++)
		if (change->sac_info[i] >= 1 && change->sac_info[i] <= SCTP_ASSOC_SUPPORTS_MAX) {
			strcat(seen.supports, seen.supports[0] ? " " : "");
			strcat(seen.supports, names[change->sac_info[i]]);
		}
}

/* usrsctp asks for streams as they become empty; a list of none stands for all. */
static void on_streams_reset(const struct sctp_stream_reset_event *reset) {
	unsigned listed = (unsigned)((reset->strreset_length - sizeof(*reset)) / sizeof(reset->strreset_stream_list[0]));

	seen.resets += listed > 0 ? listed : options.streams;
}

static void on_notification(const union sctp_notification *n) {
	uint16_t flags = n->sn_header.sn_flags;

	switch (n->sn_header.sn_type) {
	case SCTP_ASSOC_CHANGE:
		on_association_change(&n->sn_assoc_change);
		break;
	case SCTP_STREAM_RESET_EVENT:
		seen.refused += (flags & (SCTP_STREAM_RESET_DENIED | SCTP_STREAM_RESET_FAILED)) != 0;
		if (flags & SCTP_STREAM_RESET_OUTGOING_SSN)
			on_streams_reset(&n->sn_strreset_event);
		break;
	case SCTP_STREAM_CHANGE_EVENT:
		seen.refused += flags != 0;
		/* The peer adds streams too; the event has the numbers of all. */
		seen.added += n->sn_strchange_event.strchange_outstrms > seen.outbound_streams;
		seen.outbound_streams = n->sn_strchange_event.strchange_outstrms;
		break;
	case SCTP_SEND_FAILED_EVENT:
		seen.send_failed++;
		break;
	}
}

/*
 * Asks for new numbers of all outgoing streams and, when they have got them, for more streams. Asked for in the
 * middle of a message, more streams make usrsctp 0.9.5 forget it: it begins others before the rest of it.
 */
static void reconfigure(void) {
	struct sctp_reset_streams reset = {.srs_flags = SCTP_STREAM_RESET_OUTGOING};
	struct sctp_add_streams add = {.sas_outstrms = ADDED_STREAMS};
	struct timespec pause = {.tv_nsec = 10000000};

	while (usrsctp_setsockopt(association, IPPROTO_SCTP, SCTP_RESET_STREAMS, &reset, sizeof(reset)) < 0) {
		if (errno != EALREADY && errno != EAGAIN && errno != EBUSY)
			fail("SCTP_RESET_STREAMS");
		nanosleep(&pause, NULL);
	}
	while (seen.resets < options.streams && !seen.refused && !seen.aborted)
		nanosleep(&pause, NULL);
	while (usrsctp_setsockopt(association, IPPROTO_SCTP, SCTP_ADD_STREAMS, &add, sizeof(add)) < 0) {
		if (errno != EALREADY && errno != EAGAIN && errno != EBUSY)
			fail("SCTP_ADD_STREAMS");
		nanosleep(&pause, NULL);
	}
}

static void send_message(const uint8_t *message, size_t size, unsigned stream) {
	struct sctp_sendv_spa info = {.sendv_flags = SCTP_SEND_SNDINFO_VALID};

	info.sendv_sndinfo.snd_sid = (uint16_t)stream;
	info.sendv_sndinfo.snd_flags = options.unordered ? SCTP_UNORDERED : 0;
	if (strcmp(options.pr, "none") != 0) {
		info.sendv_flags |= SCTP_SEND_PRINFO_VALID;
		info.sendv_prinfo.pr_policy = strcmp(options.pr, "ttl") == 0 ? SCTP_PR_SCTP_TTL : SCTP_PR_SCTP_RTX;
		info.sendv_prinfo.pr_value = options.value;
	}
	if (usrsctp_sendv(association, message, size, NULL, 0, &info, sizeof(info), SCTP_SENDV_SPA, 0) < 0)
		fail("send");
}

static void *send_all(void *unused) {
	uint8_t *message = malloc(options.message);

	(void)unused;
	while (sent.bytes < options.send) {
		uint64_t left = options.send - sent.bytes;
		size_t size = left < options.message ? left : options.message;
		unsigned stream = (unsigned)(sent.messages % options.streams);
		if (options.digest || sent.messages == 0)
			fill(message, size);
		send_message(message, size, stream);
		checksum_add(&sent, stream, message, size, 1);
	}
	if (options.reset)
		reconfigure();
	free(message);
	return NULL;
}

/* Whether something is still to come: bytes, or answers to requests. */
static int unfinished(void) {
	return options.wait || received.bytes < options.receive || (options.reset && seen.added + seen.refused == 0);
}

/* Reads something; 0 when the peer has ended the association. */
static int receive_some(uint8_t *buffer, size_t size) {
	struct sctp_rcvinfo info = {0};
	struct sockaddr_storage from;
	socklen_t from_size = sizeof(from), info_size = sizeof(info);
	unsigned kind = 0;
	int flags = 0;
	ssize_t got = usrsctp_recvv(association, buffer, size, (struct sockaddr *)&from, &from_size, &info, &info_size, &kind, &flags);

	if (got < 0 && errno != ECONNRESET)
		fail("receive");
	if (got <= 0)
		return 0;
	if (flags & MSG_NOTIFICATION)
		on_notification((union sctp_notification *)buffer);
	else
		checksum_add(&received, info.rcv_sid % MAX_STREAMS, buffer, (size_t)got, flags & MSG_EOR);
	return 1;
}

static void option(char *text) {
	static const struct {
		const char *name;
		unsigned *value;
	} numbers[] = {
		{"udp", &options.udp}, {"peer-udp", &options.peer_udp}, {"port", &options.port},
		{"streams", &options.streams}, {"unordered", &options.unordered}, {"value", &options.value},
		{"idata", &options.idata}, {"reset", &options.reset}, {"wait", &options.wait}, {"seconds", &options.seconds},
		{"buffer", &options.buffer}, {"digest", &options.digest},
	};
	char *value = strchr(text, '=');

	if (value == NULL)
		fail(text);
	*value++ = 0;
	if (strncmp(text, "sysctl.", 7) == 0)
		return set_sysctl(text + 7, (uint32_t)strtoul(value, NULL, 0));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strcmp(text, numbers[i].name) == 0) {
			*numbers[i].value = (unsigned)strtoul(value, NULL, 0);
			return;
		}
	if (strcmp(text, "send") == 0)
		options.send = strtoull(value, NULL, 0);
	else if (strcmp(text, "receive") == 0)
		options.receive = strtoull(value, NULL, 0);
	else if (strcmp(text, "message") == 0)
		options.message = strtoull(value, NULL, 0);
	else if (strcmp(text, "pr") == 0)
		options.pr = value;
	else
		fail(text);
}

/* The SCTP stack takes its UDP port when it starts, the sysctls after that. */
static void parse(int count, char **words) {
	int first, listens = count > 1 && strcmp(words[1], "listen") == 0;

	if (count < 3 || (!listens && (count < 4 || strcmp(words[1], "connect") != 0))) {
		fprintf(stderr, "usage: peer listen OWN | connect OWN PEER [OPTION=VALUE...]\n");
		exit(2);
	}
	options.role = words[1];
	options.own = words[2];
	options.peer = listens ? NULL : words[3];
	first = listens ? 3 : 4;
	for (int i = first; i < count; i++)
		if (strncmp(words[i], "udp=", 4) == 0)
			options.udp = (unsigned)atoi(words[i] + 4);
	usrsctp_init((uint16_t)options.udp, NULL, NULL);
	/* No second path that nobody asked for, and data to addresses of this machine is checked too. */
	usrsctp_sysctl_set_sctp_auto_asconf(0);
	usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
	for (int i = first; i < count; i++)
		option(words[i]);
	if (options.streams < 1 || options.streams > MAX_STREAMS || options.message < 1)
		fail("streams or message");
}

static void associate(void) {
	struct sockaddr_storage own, peer;
	int listens = strcmp(options.role, "listen") == 0;
	socklen_t own_size = parse_address(options.own, listens ? options.port : 0, &own), peer_size;
	struct socket *s = open_socket(own.ss_family);

	if (usrsctp_bind(s, (struct sockaddr *)&own, own_size) < 0)
		fail("bind");
	if (listens) {
		if (usrsctp_listen(s, 1) < 0)
			fail("listen");
		fprintf(stderr, "ready\n");
		association = usrsctp_accept(s, NULL, NULL);
		if (association == NULL)
			fail("accept");
		return usrsctp_close(s);
	}
	peer_size = parse_address(options.peer, options.port, &peer);
	if (usrsctp_connect(s, (struct sockaddr *)&peer, peer_size) < 0)
		fail("connect");
	association = s;
}

static double seconds(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void print_result(double took) {
	char sum[2][65];

	printf("{\"sent\":%llu,\"sent_digest\":\"%s\",\"received\":%llu,\"received_digest\":\"%s\",\"received_messages\":%llu,"
	       "\"seconds\":%.3f,\"supports\":\"%s\",\"aborted\":%u,\"restarts\":%u,\"resets\":%u,\"added\":%u,"
	       "\"refused\":%u,\"send_failed\":%u}\n",
	       (unsigned long long)sent.bytes, checksum_text(&sent, sum[0]), (unsigned long long)received.bytes,
	       checksum_text(&received, sum[1]), (unsigned long long)received.messages, took, seen.supports, seen.aborted,
	       seen.restarts, seen.resets, seen.added, seen.refused, seen.send_failed);
	fflush(stdout);
}

int main(int count, char **words) {
	static uint8_t buffer[1 << 16];
	struct timespec pause = {.tv_nsec = 20000000};
	pthread_t sender;
	double start;

	parse(count, words);
	alarm(options.seconds);
	checksum_start(&sent);
	checksum_start(&received);
	associate();
	start = seconds();
	if (pthread_create(&sender, NULL, send_all, NULL) != 0)
		fail("thread");
	while (unfinished() && receive_some(buffer, sizeof(buffer)))
		;
	pthread_join(sender, NULL);
	usrsctp_shutdown(association, SHUT_WR);
	while (receive_some(buffer, sizeof(buffer)))
		;
	print_result(seconds() - start);
	usrsctp_close(association);
	while (usrsctp_finish() != 0)
		nanosleep(&pause, NULL);
	return 0;
}
