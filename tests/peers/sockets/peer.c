/*
 * One end of a transfer for SCTP stacks that have the sockets API of RFC 6458 (stack.h): sends and receives a number of
 * bytes over one association, both at the same time, and prints what it saw as one line of JSON.
 *
 *     peer listen  OWN[,OWN...]               [OPTION...]
 *     peer connect OWN[,OWN...] PEER[,PEER...] [OPTION...]
 *
 *     port=5001 own-port=0               ports of SCTP
 *     send=0 receive=0                   bytes
 *     buffer=4194304                     of the socket, each way
 *     message=16384 streams=1 unordered=0
 *     pr=none|ttl|rtx value=0            partial reliability of what is sent
 *     sealed=0                           messages begin with a checksum of the rest, which the receiver verifies
 *     idata=0                            I-DATA
 *     reset=0 add=2                      at the end reset all outgoing streams and add some; 2: and send a message on each
 *     list=0                             list the streams in the request instead of asking for all of them
 *     wait=0                             leave the end to the peer
 *     abort=0                            end with an ABORT
 *     linger=MS                          stay so long afterwards: SHUTDOWN COMPLETE may be lost
 *     hang=0                             send everything, say "sent" and the checksum, and wait to be killed
 *     mark=BYTES                         say "mark" when so many have been received
 *     stamp=0                            messages begin with the time at which they are handed over; see delay_ms
 *     by-message=0                       checksum of single messages, as with unordered=1
 *     rto-min=MS rto-max=MS path-max-retrans=N heartbeat=MS
 *     seed=99                            of the bytes that are sent
 *     digest=1                           0: neither make up bytes nor sum them up, to measure the transport alone
 *     seconds=60                         give up after this time
 *
 * With usrsctp also udp=9899 (0: directly over IP), peer-udp=9899 and sysctl.NAME=VALUE, such as
 * sysctl.nrsack_enable. since_mark is the time from the mark to the last byte, delay_ms the mean age of the stamped messages
 * that arrive then, which needs a common clock. Message i goes to stream i modulo the number of streams; "ready", "sent" and "mark" go to the
 * standard error. The checksum of what goes in one direction: checksum.h.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "checksum.h"
#include "stack.h"

#define ENABLE_ALL_REQUESTS (SCTP_ENABLE_RESET_STREAM_REQ | SCTP_ENABLE_RESET_ASSOC_REQ | SCTP_ENABLE_CHANGE_ASSOC_REQ)
/* Bytes of a message that is sent on a stream after its reset. */
#define AFTER_RESET 1000
#define MAX_ADDRESSES 8
#define NUMBER(name) {#name, &options.name}

static struct {
	const char *role, *own, *peer, *pr;
	unsigned udp, peer_udp, port, own_port, streams, unordered, value, idata, reset, wait, seconds, buffer, digest;
	unsigned sealed, stamp, abort, hang, add, list, linger, by_message, rto_min, rto_max, path_max_retrans, heartbeat, seed;
	uint64_t send, receive, message, mark;
} options = {.pr = "none", .udp = 9899, .peer_udp = 9899, .port = 5001, .streams = 1, .message = 16384,
	     .seconds = 60, .buffer = 4 << 20, .digest = 1, .add = 2, .seed = 99};

static struct checksum sent, received;
static stack_socket association = NO_SOCKET;
/* Of what arrives after the mark: times of CLOCK_REALTIME in seconds, sum of ages. */
static struct {
	double mark, last, age;
	uint64_t messages;
} arrivals;
/* What notifications and calls have told. */
static struct {
	char supports[256];
	const char *end;
	volatile unsigned aborted, restarts, send_failed, outbound_streams, damaged;
	/* What has come of requests: streams reset, answers with more streams, refusals. */
	volatile unsigned resets, added, refused;
} seen = {.end = "none"};

static void fail(const char *what) {
	fprintf(stderr, "peer: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void give_up(int unused) {
	(void)unused;
	fprintf(stderr, "peer: gave up: sent %llu, received %llu bytes, aborted %u, resets %u, added %u, refused %u\n",
		(unsigned long long)sent.bytes, (unsigned long long)received.bytes, seen.aborted, seen.resets, seen.added,
		seen.refused);
	_exit(1);
}

static socklen_t parse_address(const char *text, unsigned port, void *to) {
	struct sockaddr_in *v4 = to;
	struct sockaddr_in6 *v6 = to;

	memset(to, 0, sizeof(*v6));
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

/* A list of addresses as sctp_bindx takes it: one after the other without gaps. Returns how many there are. */
static int parse_addresses(const char *list, unsigned port, void *to) {
	char copy[512], *rest = NULL;
	uint8_t *at = to;
	int count = 0;

	snprintf(copy, sizeof(copy), "%s", list);
	for (char *one = strtok_r(copy, ",", &rest); one != NULL && count < MAX_ADDRESSES; one = strtok_r(NULL, ",", &rest)) {
		at += parse_address(one, port, at);
		count++;
	}
	return count;
}

static void set_option(stack_socket s, int name, const void *value, socklen_t size, const char *what) {
	if (stack_option(s, IPPROTO_SCTP, name, value, size) < 0)
		fail(what);
}

/* What only some of the stacks have, or need. */
static void set_own_options(stack_socket s, int family) {
#if defined(USRSCTP)
	struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)options.peer_udp)};

	encapsulation.sue_address.ss_family = (sa_family_t)family;
	if (options.udp != 0)
		set_option(s, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation, sizeof(encapsulation), "SCTP_REMOTE_UDP_ENCAPS_PORT");
#else
	struct sctp_assoc_value on = {.assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = 1};

	(void)family;
	set_option(s, SCTP_PR_SUPPORTED, &on, sizeof(on), "SCTP_PR_SUPPORTED");
	set_option(s, SCTP_RECONFIG_SUPPORTED, &on, sizeof(on), "SCTP_RECONFIG_SUPPORTED");
#endif
}

static void set_timers(stack_socket s, int family) {
	struct sctp_rtoinfo rto = {.srto_min = options.rto_min, .srto_max = options.rto_max, .srto_initial = options.rto_max};
	struct sctp_paddrparams path = {.spp_pathmaxrxt = (uint16_t)options.path_max_retrans};

	path.spp_address.ss_family = (sa_family_t)family;
	if (options.rto_max != 0)
		set_option(s, SCTP_RTOINFO, &rto, sizeof(rto), "SCTP_RTOINFO");
	if (options.heartbeat != 0) {
		path.spp_flags = SPP_HB_ENABLE;
		path.spp_hbinterval = options.heartbeat;
	}
	if (options.heartbeat != 0 || options.path_max_retrans != 0)
		set_option(s, SCTP_PEER_ADDR_PARAMS, &path, sizeof(path), "SCTP_PEER_ADDR_PARAMS");
}

static stack_socket open_socket(int family) {
	static const uint16_t events[] = {SCTP_ASSOC_CHANGE, SCTP_STREAM_RESET_EVENT, SCTP_STREAM_CHANGE_EVENT,
					  SCTP_SEND_FAILED_EVENT};
	stack_socket s = stack_open(family);
	struct sctp_initmsg init = {.sinit_num_ostreams = (uint16_t)options.streams, .sinit_max_instreams = MAX_STREAMS};
	struct sctp_assoc_value resets = {.assoc_id = SCTP_ALL_ASSOC, .assoc_value = ENABLE_ALL_REQUESTS};
	struct sctp_assoc_value idata = {.assoc_id = SCTP_ALL_ASSOC, .assoc_value = 1};
	int on = 1, buffer = (int)options.buffer, level = 2;

	if (s == NO_SOCKET)
		fail("socket");
	set_own_options(s, family);
	set_option(s, SCTP_INITMSG, &init, sizeof(init), "SCTP_INITMSG");
	set_option(s, SCTP_NODELAY, &on, sizeof(on), "SCTP_NODELAY");
	set_option(s, SCTP_RECVRCVINFO, &on, sizeof(on), "SCTP_RECVRCVINFO");
	set_option(s, SCTP_ENABLE_STREAM_RESET, &resets, sizeof(resets), "SCTP_ENABLE_STREAM_RESET");
	set_timers(s, family);
	if (options.idata) {
		set_option(s, SCTP_FRAGMENT_INTERLEAVE, &level, sizeof(level), "SCTP_FRAGMENT_INTERLEAVE");
		set_option(s, SCTP_INTERLEAVING_SUPPORTED, &idata, sizeof(idata), "SCTP_INTERLEAVING_SUPPORTED");
	}
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		struct sctp_event event = {.se_assoc_id = SCTP_ALL_ASSOC, .se_type = events[i], .se_on = 1};
		set_option(s, SCTP_EVENT, &event, sizeof(event), "SCTP_EVENT");
	}
	if (stack_option(s, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) < 0 ||
	    stack_option(s, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)) < 0)
		fail("buffers");
	return s;
}

#if defined(USRSCTP)
static void note_extensions(const struct sctp_assoc_change *change) {
	static const char *names[] = {[SCTP_ASSOC_SUPPORTS_PR] = "pr", [SCTP_ASSOC_SUPPORTS_AUTH] = "auth",
				      [SCTP_ASSOC_SUPPORTS_ASCONF] = "asconf", [SCTP_ASSOC_SUPPORTS_MULTIBUF] = "multibuf",
				      [SCTP_ASSOC_SUPPORTS_RE_CONFIG] = "re-config",
				      [SCTP_ASSOC_SUPPORTS_INTERLEAVING] = "interleaving"};
	size_t features = change->sac_length - sizeof(*change);

	seen.supports[0] = 0;
	for (size_t i = 0; i < features; i++)
		if (change->sac_info[i] >= 1 && change->sac_info[i] <= SCTP_ASSOC_SUPPORTS_MAX) {
			strcat(seen.supports, seen.supports[0] ? " " : "");
			strcat(seen.supports, names[change->sac_info[i]]);
		}
}
#else
static void note_extensions(const struct sctp_assoc_change *change) {
	(void)change;
}
#endif

static void on_association_change(const struct sctp_assoc_change *change) {
	seen.restarts += change->sac_state == SCTP_RESTART;
	seen.aborted += change->sac_state == SCTP_COMM_LOST;
	if (change->sac_state != SCTP_COMM_UP)
		return;
	seen.outbound_streams = change->sac_outbound_streams;
	note_extensions(change);
}

/* usrsctp asks for streams as they become empty; a list of none stands for all. */
static void on_streams_reset(const struct sctp_stream_reset_event *reset) {
	unsigned listed = (unsigned)((reset->strreset_length - sizeof(*reset)) / sizeof(reset->strreset_stream_list[0]));

	seen.resets += listed > 0 ? listed : options.streams;
}

static void on_notification(const void *what) {
	const union sctp_notification *n = what;
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
		/* The peer adds streams too. */
		seen.added += n->sn_strchange_event.strchange_outstrms > (STREAM_CHANGE_HAS_ALL ? seen.outbound_streams : 0);
		seen.outbound_streams = n->sn_strchange_event.strchange_outstrms;
		break;
	case SCTP_SEND_FAILED_EVENT:
		seen.send_failed++;
		break;
	}
}

/* FNV-1a. */
static uint32_t seal(const uint8_t *data, size_t size) {
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ data[i]) * 16777619u;
	return sum;
}

static double clock_seconds(clockid_t clock) {
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void send_message(uint8_t *message, size_t size, unsigned stream, int reliable) {
	struct sctp_sendv_spa info = {.sendv_flags = SCTP_SEND_SNDINFO_VALID};
	double at = clock_seconds(CLOCK_REALTIME);

	if (options.digest || sent.messages == 0)
		fill(message, size, options.seed);
	if (options.sealed && size > 4) {
		uint32_t sum = seal(message + 4, size - 4);
		memcpy(message, &sum, 4);
	}
	if (options.stamp && size >= sizeof(at))
		memcpy(message, &at, sizeof(at));
	info.sendv_sndinfo.snd_sid = (uint16_t)stream;
	info.sendv_sndinfo.snd_flags = options.unordered ? SCTP_UNORDERED : 0;
	if (!reliable) {
		info.sendv_flags |= SCTP_SEND_PRINFO_VALID;
		info.sendv_prinfo.pr_policy = strcmp(options.pr, "ttl") == 0 ? SCTP_PR_SCTP_TTL : SCTP_PR_SCTP_RTX;
		info.sendv_prinfo.pr_value = options.value;
	}
	if (stack_send(association, message, size, &info) < 0)
		fail("send");
	checksum_add(&sent, stream, message, size, 1);
}

static int try_again_later(void) {
	struct timespec pause = {.tv_nsec = 10000000};

	nanosleep(&pause, NULL);
	return errno == EALREADY || errno == EAGAIN || errno == EBUSY || errno == EINPROGRESS;
}

/*
 * Asks for new numbers of all outgoing streams and, when they have got them, for more streams, then uses all of them.
 * Asked for in the middle of a message, more streams make usrsctp 0.9.5 forget it: it begins others before the rest of it.
 */
static void reconfigure(uint8_t *message) {
	size_t listed = options.list ? options.streams : 0, size = sizeof(struct sctp_reset_streams) + listed * sizeof(uint16_t);
	struct sctp_reset_streams *reset = calloc(1, size);
	struct sctp_add_streams add = {.sas_outstrms = (uint16_t)options.add};

	reset->srs_flags = SCTP_STREAM_RESET_OUTGOING;
	reset->srs_number_streams = (uint16_t)listed;
	for (size_t stream = 0; stream < listed; stream++)
		reset->srs_stream_list[stream] = (uint16_t)stream;
	while (stack_option(association, IPPROTO_SCTP, SCTP_RESET_STREAMS, reset, (socklen_t)size) < 0)
		if (!try_again_later())
			fail("SCTP_RESET_STREAMS");
	free(reset);
	while (seen.resets < options.streams && !seen.refused && !seen.aborted)
		try_again_later();
	while (options.add && stack_option(association, IPPROTO_SCTP, SCTP_ADD_STREAMS, &add, sizeof(add)) < 0)
		if (!try_again_later())
			fail("SCTP_ADD_STREAMS");
	while (options.add && seen.added == 0 && !seen.refused && !seen.aborted)
		try_again_later();
	for (unsigned stream = 0; stream < options.streams + options.add && options.reset > 1; stream++)
		send_message(message, AFTER_RESET, stream, 1);
}

static void *send_all(void *unused) {
	uint8_t *message = malloc(options.message > AFTER_RESET ? options.message : AFTER_RESET);
	int reliable = strcmp(options.pr, "none") == 0;

	(void)unused;
	while (sent.bytes < options.send) {
		uint64_t left = options.send - sent.bytes;
		size_t size = left < options.message ? left : options.message;
		send_message(message, size, (unsigned)(sent.messages % options.streams), reliable);
	}
	if (options.reset)
		reconfigure(message);
	free(message);
	return NULL;
}

/* Whether something is still to come: bytes, or answers to requests. */
static int unfinished(void) {
	int answered = seen.refused || (options.add ? seen.added > 0 : seen.resets >= options.streams);

	return options.wait || received.bytes < options.receive || (options.reset && !answered);
}

static void note_arrival(const uint8_t *data, size_t size) {
	double at;

	arrivals.last = clock_seconds(CLOCK_REALTIME);
	if (arrivals.mark == 0)
		arrivals.mark = arrivals.last;
	if (options.stamp && size >= sizeof(at)) {
		memcpy(&at, data, sizeof(at));
		arrivals.age += arrivals.last - at;
		arrivals.messages++;
	}
}

static void on_data(const uint8_t *data, size_t size, unsigned stream, int flags) {
	uint64_t before = received.bytes;
	uint32_t sum;

	checksum_add(&received, stream % MAX_STREAMS, data, size, flags & MSG_EOR);
	if (options.mark > 0 && before < options.mark && received.bytes >= options.mark)
		fputs("mark\n", stderr);
	if (received.bytes >= options.mark)
		note_arrival(data, size);
	if (!options.sealed)
		return;
	memcpy(&sum, data, sizeof(sum));
	seen.damaged += size <= 4 || !(flags & MSG_EOR) || sum != seal(data + 4, size - 4);
}

/* Reads something; 0 when the peer has ended the association. */
static int receive_some(uint8_t *buffer, size_t size) {
	struct sctp_rcvinfo info = {0};
	int flags = 0;
	ssize_t got = stack_receive(association, buffer, size, &info, &flags);

	if (got < 0 && errno == EINTR)
		return 1;
	if (got < 0 && errno != ECONNRESET && errno != ENOTCONN && errno != ECONNABORTED)
		fail("receive");
	if (got <= 0) {
		/* Linux says ENOTCONN at the end of an association that it has shut down itself. */
		seen.end = got == 0 || errno == ENOTCONN ? "shutdown" : "reset";
		return 0;
	}
	if (flags & MSG_NOTIFICATION)
		on_notification(buffer);
	else
		on_data(buffer, (size_t)got, info.rcv_sid, flags);
	return 1;
}

static void set_number(const char *name, const char *text) {
	static const struct {
		const char *name;
		unsigned *value;
	} numbers[] = {
		NUMBER(udp), {"peer-udp", &options.peer_udp}, NUMBER(port), {"own-port", &options.own_port},
		NUMBER(streams), NUMBER(unordered), NUMBER(value), NUMBER(idata), NUMBER(reset), NUMBER(wait),
		NUMBER(seconds), NUMBER(buffer), NUMBER(digest), NUMBER(sealed), NUMBER(stamp), NUMBER(abort), NUMBER(hang), NUMBER(add), NUMBER(list), NUMBER(linger),
		{"by-message", &options.by_message}, {"rto-min", &options.rto_min}, {"rto-max", &options.rto_max},
		{"path-max-retrans", &options.path_max_retrans}, NUMBER(heartbeat), NUMBER(seed),
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strcmp(name, numbers[i].name) == 0) {
			*numbers[i].value = (unsigned)strtoul(text, NULL, 0);
			return;
		}
	errno = EINVAL;
	fail(name);
}

#if defined(USRSCTP)
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
		{"cmt_use_dac", usrsctp_sysctl_set_sctp_cmt_use_dac},
		{"buffer_splitting", usrsctp_sysctl_set_sctp_buffer_splitting},
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

#else
static void set_sysctl(const char *name, uint32_t value) {
	(void)value;
	errno = EINVAL;
	fail(name);
}
#endif

static void option(char *text) {
	char *value = strchr(text, '=');

	if (value == NULL)
		fail(text);
	*value++ = 0;
	if (strncmp(text, "sysctl.", 7) == 0)
		set_sysctl(text + 7, (uint32_t)strtoul(value, NULL, 0));
	else if (strcmp(text, "send") == 0)
		options.send = strtoull(value, NULL, 0);
	else if (strcmp(text, "receive") == 0)
		options.receive = strtoull(value, NULL, 0);
	else if (strcmp(text, "message") == 0)
		options.message = strtoull(value, NULL, 0);
	else if (strcmp(text, "mark") == 0)
		options.mark = strtoull(value, NULL, 0);
	else if (strcmp(text, "pr") == 0)
		options.pr = value;
	else
		set_number(text, value);
}

/* usrsctp takes its UDP port when it starts, the sysctls after that. */
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
	stack_begin(options.udp);
	for (int i = first; i < count; i++)
		option(words[i]);
	if (options.streams < 1 || options.streams > MAX_STREAMS || options.message < 1)
		fail("streams or message");
}

static void associate(void) {
	uint8_t own[MAX_ADDRESSES * sizeof(struct sockaddr_in6)], peer[sizeof(own)];
	int listens = strcmp(options.role, "listen") == 0, peers;
	int owns = parse_addresses(options.own, listens ? options.port : options.own_port, own);
	stack_socket s = open_socket(((struct sockaddr *)own)->sa_family);
	sctp_assoc_t id = 0;

	if (stack_bindx(s, (struct sockaddr *)own, owns) < 0)
		fail("bind");
	if (listens) {
		if (stack_listen(s, 1) < 0)
			fail("listen");
		fprintf(stderr, "ready\n");
		association = stack_accept(s);
		if (association == NO_SOCKET)
			fail("accept");
		(void)stack_close(s);
		return;
	}
	peers = parse_addresses(options.peer, options.port, peer);
	if (stack_connectx(s, (struct sockaddr *)peer, peers, &id) < 0)
		fail("connect");
	association = s;
}

/* An ABORT, with a reason (User-Initiated Abort) where that can be given; else when the socket is closed. */
static void abort_association(void) {
	struct sctp_sendv_spa info = {.sendv_flags = SCTP_SEND_SNDINFO_VALID};
	struct linger at_once = {.l_onoff = 1};

	info.sendv_sndinfo.snd_flags = SCTP_ABORT;
	if (ABORT_IS_A_FLAG ? stack_send(association, "enough", 6, &info) < 0
			    : stack_option(association, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) < 0)
		fail("abort");
}

static void print_result(double took) {
	char sum[2][65];

	printf("{\"sent\":%llu,\"sent_digest\":\"%s\",\"sent_messages\":%llu,\"received\":%llu,\"received_digest\":\"%s\","
	       "\"received_messages\":%llu,\"damaged\":%u,\"seconds\":%.3f,\"supports\":\"%s\",\"aborted\":%u,\"restarts\":%u,"
	       "\"resets\":%u,\"added\":%u,\"refused\":%u,\"send_failed\":%u,\"end\":\"%s\",\"since_mark\":%.4f,\"delay_ms\":%.3f}\n",
	       (unsigned long long)sent.bytes, checksum_text(&sent, sum[0]), (unsigned long long)sent.messages,
	       (unsigned long long)received.bytes, checksum_text(&received, sum[1]), (unsigned long long)received.messages,
	       seen.damaged, took, seen.supports, seen.aborted, seen.restarts, seen.resets, seen.added, seen.refused,
	       seen.send_failed, seen.end, arrivals.last - arrivals.mark,
	       arrivals.messages ? 1e3 * arrivals.age / (double)arrivals.messages : 0.0);
	fflush(stdout);
}

int main(int count, char **words) {
	static uint8_t buffer[1 << 16];
	pthread_t sender;
	double start;

	parse(count, words);
	signal(SIGALRM, give_up);
	alarm(options.seconds);
	sent.off = received.off = !options.digest;
	checksum_start(&sent, options.unordered || options.by_message);
	checksum_start(&received, options.unordered || options.by_message);
	associate();
	start = clock_seconds(CLOCK_MONOTONIC);
	if (pthread_create(&sender, NULL, send_all, NULL) != 0)
		fail("thread");
	while (unfinished() && receive_some(buffer, sizeof(buffer)))
		;
	pthread_join(sender, NULL);
	if (options.hang) {
		char sum[65];
		fprintf(stderr, "sent %s\n", checksum_text(&sent, sum));
		for (;;)
			pause();
	}
	if (options.abort)
		abort_association();
	else
		stack_shutdown(association);
	while ((!options.abort || ABORT_IS_A_FLAG) && receive_some(buffer, sizeof(buffer)))
		;
	print_result(clock_seconds(CLOCK_MONOTONIC) - start);
	/* Where no kernel has SCTP only this process answers another SHUTDOWN ACK (RFC 9260 section 8.4). */
	usleep(options.linger * 1000);
	(void)stack_close(association);
	stack_end();
	return 0;
}
