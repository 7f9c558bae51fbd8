// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Datagrams of UDP sockets. What is carried is taken out of their way at the last moment before it would leave
// as a packet, so that the socket is as the program has made it, connected or not, and plain UDP again as soon
// as these programs are gone.
//
// A socket whose program asks for errors would be told one for each datagram that is taken. If it is connected it
// is connected to a sink on loopback instead, from its own address: what reaches that is thrown away there.
//
// What becomes of the datagrams of a socket to a destination is decided with the first one and stays so: its
// service must not see another source in the middle.

// A socket that was made after this program was put to work.
struct udp_socket {
	__u32 where; // its network
	__u32 hears; // whether its program asks for errors (IP_RECVERR)
	__u32 used;  // whether any datagram was taken
};

struct flow {
	__u64 cookie;
	__u32 address[4];
	__u32 port;
	__u32 gap;
};

// The network that nobody serves, that of the stack, one that another manypath serves.
enum { NOWHERE, HERE, ANOTHERS };
enum { LEFT = 1, TAKEN };
enum { DATAGRAM, GONE };

// What goes before the payload of a datagram that was taken.
struct datagram {
	__u64 cookie;
	__u32 source[4], peer[4];
	__u32 source_port, peer_port;
	__u32 length;  // of the payload
	__u32 segment; // it is several, each as long as this and the last one perhaps shorter; 0: one
	__u32 kind;
	__u32 bound; // whether the program has chosen the source
	__u32 traffic_class;
	__u32 sink; // the port that the socket is connected to in place of its peer; 0: to none
	__u32 cgroup[2]; // of the socket: low word, high word
	__u32 user;	 // whose the socket is
	__u32 gap;
};

struct map sockets SEC("maps") = { BPF_MAP_TYPE_SK_STORAGE, 4, sizeof(struct udp_socket), 0, BPF_F_NO_PREALLOC };
struct map flows SEC("maps") = { BPF_MAP_TYPE_LRU_HASH, sizeof(struct flow), 4, 16384, 0 };
struct map datagram_rules SEC("maps") = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rule), MAX_RULES, 0 };
struct map plain_datagrams SEC("maps") = { BPF_MAP_TYPE_LRU_HASH, sizeof(struct service), 8, 8192, 0 };
struct map datagram_counts SEC("maps") = { BPF_MAP_TYPE_ARRAY, 4, 8, REASONS, 0 };
struct map datagrams SEC("maps") = { BPF_MAP_TYPE_RINGBUF, 0, 0, 1 << 22, 0 };

enum { UDP_ = 17, DGRAM_ = 2, INET6_ = 10, RECVERR_ = 11, RECVERR6_ = 25 };
enum { PASS = 1, SWALLOW = 2 }; // the latter without an error for the program

static struct bpf_sock *(*full_socket)(struct bpf_sock *) = (void *)BPF_FUNC_sk_fullsock;
static __u64 (*cgroup_of)(struct __sk_buff *) = (void *)BPF_FUNC_skb_cgroup_id;
static __u32 (*user_of)(struct __sk_buff *) = (void *)BPF_FUNC_get_socket_uid;
static long (*bind_to)(struct bpf_sock_addr *, void *, int) = (void *)BPF_FUNC_bind;
static long (*load_bytes)(const void *, __u32, void *, __u32) = (void *)BPF_FUNC_skb_load_bytes;
static void *(*ring_reserve)(void *, __u64, __u64) = (void *)BPF_FUNC_ringbuf_reserve;
static void (*ring_submit)(void *, __u64) = (void *)BPF_FUNC_ringbuf_submit;
static void (*ring_discard)(void *, __u64) = (void *)BPF_FUNC_ringbuf_discard;

INLINE void count_datagrams(__u32 reason) { count_in(&datagram_counts, reason); }

// What becomes of them as far as the socket and the destination tell; with where `to` is reached from.
INLINE __u32 decide_destination(struct bpf_sock *sk, const struct udp_socket *known, const struct settings *said,
				const struct service *to, __u32 *from)
{
	const struct route *route;
	const __u64 *until;
	__u32 reason = unsuitable(to->address, to->port);
	if (reason)
		return reason;
	if (!any_matches(&datagram_rules, said->datagram_rules, to))
		return RULE;
	if (!known)
		return OLDER_SOCKET;
	if (known->where != HERE)
		return OTHER_NAMESPACE;
	if (sk->bound_dev_if)
		return BOUND_TO_DEVICE;
	if (sk->mark)
		return MARKED;
	route = route_to(to->address);
	if (!route || route->kind == REJECT)
		return NO_ROUTE;
	if (route->kind == OWN)
		return OWN_ADDRESS;
	copy(from, route->source);
	until = map_lookup(&plain_datagrams, to);
	return until && *until > ktime_ns() ? REMEMBERED : CARRIED;
}

INLINE __u32 decide_datagrams(struct bpf_sock *sk, const struct udp_socket *known, const struct settings *said,
			      const struct service *to, const __u32 *source)
{
	const struct route *route;
	__u32 from[4], reason = decide_destination(sk, known, said, to, from);
	if (reason)
		return reason;
	if (known && known->hears)
		return HEARS_ERRORS;
	route = route_to(source);
	return route && route->kind == OWN ? CARRIED : FOREIGN_SOURCE;
}

// Where the payload begins, and what the packet says; 0 when it is no whole datagram.
INLINE __u32 read_packet(struct __sk_buff *ctx, struct datagram *about)
{
	__u8 head[40], ports[8];
	__u32 at = 20, words[8];
	if (load_bytes(ctx, 0, head, 20))
		return 0;
	if (head[0] >> 4 == 4) {
		if (head[9] != UDP_ || (head[6] & 0x3f) || head[7])
			return 0;
		at = (head[0] & 15) * 4;
		about->traffic_class = head[1];
		if (load_bytes(ctx, 12, words, 8))
			return 0;
		about->source[2] = about->peer[2] = MAPPED;
		about->source[3] = words[0];
		about->peer[3] = words[1];
	} else {
		if (load_bytes(ctx, 8, words, 32) || head[6] != UDP_)
			return 0;
		at = 40;
		about->traffic_class = (head[0] & 15) << 4 | head[1] >> 4;
		copy(about->source, words);
		copy(about->peer, words + 4);
	}
	if (load_bytes(ctx, at, ports, 8))
		return 0;
	about->source_port = ports[0] << 8 | ports[1];
	about->peer_port = ports[2] << 8 | ports[3];
	at += 8;
	about->length = ctx->len - at;
	return at;
}

// Records of a few sizes, as the verifier wants to know them beforehand.
#define KEEP(most)                                                                                  \
	do {                                                                                        \
		struct { struct datagram about; __u8 payload[most]; } *room;                        \
		__u32 length = about->length;                                                       \
		if (length > (most))                                                                \
			break;                                                                      \
		room = ring_reserve(&datagrams, sizeof(*room), 0);                                  \
		if (!room)                                                                          \
			return 0;                                                                   \
		room->about = *about;                                                               \
		/* Less one: the verifier of Linux 6.1 forgets that a size was tested not to be zero. */ \
		length -= 1;                                                                        \
		asm volatile("" : "+r"(length));                                                    \
		if (length < (most) && load_bytes(ctx, at, room->payload, length + 1)) {            \
			ring_discard(room, 0);                                                      \
			return 0;                                                                   \
		}                                                                                   \
		ring_submit(room, 0);                                                               \
		return 1;                                                                           \
	} while (0)

// Hands a datagram over; false when there is no room.
INLINE int keep(struct __sk_buff *ctx, __u32 at, const struct datagram *about)
{
	KEEP(416);
	KEEP(1952);
	KEEP(16288);
	KEEP(65536);
	return 0;
}

INLINE int take(struct __sk_buff *ctx, __u32 at, struct datagram *about)
{
	__u64 cgroup = cgroup_of(ctx);
	about->segment = ctx->gso_size;
	about->cgroup[0] = (__u32)cgroup;
	about->cgroup[1] = cgroup >> 32;
	about->user = user_of(ctx);
	if (!keep(ctx, at, about))
		count_datagrams(EVENTS_LOST);
	return SWALLOW;
}

SEC("cgroup_skb/egress")
int egress(struct __sk_buff *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct datagram about = { .kind = DATAGRAM };
	struct flow flow = {};
	struct service to = {};
	const struct settings *said;
	const struct connection *sunk;
	struct udp_socket *known;
	__u32 zero = 0, reason, at, course = LEFT, *decided;
	if (sk)
		sk = full_socket(sk);
	if (!sk || sk->protocol != UDP_ || sk->type != DGRAM_)
		return PASS;
	known = storage_get(&sockets, sk, 0, 0);
	if (known && known->where == ANOTHERS)
		return PASS;
	at = read_packet(ctx, &about);
	said = map_lookup(&settings, &zero);
	if (!at || !said)
		return PASS;
	about.cookie = flow.cookie = socket_cookie(ctx);
	sunk = known ? taken(sk) : 0;
	if (sunk && about.peer_port == sunk->gate_port && is_loopback(about.peer)) {
		about.sink = sunk->gate_port;
		about.peer_port = sunk->peer_port;
		copy(about.peer, sunk->peer);
		take(ctx, at, &about);
		return PASS;
	}
	copy(flow.address, about.peer);
	flow.port = about.peer_port;
	about.bound = sk->dst_port == 0 && sk->src_ip4 != 0;
	decided = map_lookup(&flows, &flow);
	if (decided)
		return *decided == TAKEN && known && !known->hears ? take(ctx, at, &about) : PASS;
	copy(to.address, about.peer);
	to.port = about.peer_port;
	reason = decide_datagrams(sk, known, said, &to, about.source);
	count_datagrams(reason);
	if (!reason && known) {
		course = TAKEN;
		known->used = 1;
	}
	map_update(&flows, &flow, &course, BPF_ANY);
	return course == TAKEN ? take(ctx, at, &about) : PASS;
}

SEC("cgroup/sock_create")
int sock_create(struct bpf_sock *ctx)
{
	__u32 zero = 0;
	const struct settings *said = map_lookup(&settings, &zero);
	struct udp_socket *made;
	if (ctx->type != DGRAM_ || (ctx->protocol && ctx->protocol != UDP_) || !said)
		return 1;
	made = storage_get(&sockets, ctx, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!made)
		return 1;
	made->where = netns_cookie(ctx) == said->netns ? HERE : NOWHERE;
	if (is_anothers(said, netns_cookie(ctx)))
		made->where = ANOTHERS;
	return 1;
}

SEC("cgroup/sock_release")
int sock_release(struct bpf_sock *ctx)
{
	struct udp_socket *known = storage_get(&sockets, ctx, 0, 0);
	struct datagram about = { .kind = GONE };
	if (known && known->used) {
		about.cookie = socket_cookie(ctx);
		if (ring_output(&datagrams, &about, sizeof(about), 0))
			count_datagrams(EVENTS_LOST);
	}
	return 1;
}

// Gives the socket the source that it would have had, before it is connected to something else.
INLINE long bind_source(struct bpf_sock_addr *ctx, const __u32 *source)
{
	struct { __u16 family, port; __u32 words[6]; } own = {};
	if (is_v4(source)) {
		own.family = INET_;
		own.words[0] = source[3];
		return bind_to(ctx, &own, 16);
	}
	own.family = INET6_;
	copy(own.words + 1, source);
	return bind_to(ctx, &own, 28);
}

// Whether the connect of a socket that asks for errors goes to the sink; `port` is the sink's.
INLINE int sink(struct bpf_sock_addr *ctx, struct bpf_sock *sk, const struct service *to, __u32 *port)
{
	__u32 zero = 0;
	const struct settings *said = map_lookup(&settings, &zero);
	struct udp_socket *known = storage_get(&sockets, sk, 0, 0);
	struct connection made = {}, *kept = storage_get(&connections, sk, 0, 0);
	if (kept)
		kept->gate_port = 0;
	if (!said || !known || !known->hears || sk->src_port)
		return 0;
	*port = said->sink_port[!is_v4(to->address)];
	if (!*port || decide_destination(sk, known, said, to, made.local))
		return 0;
	kept = storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!kept || bind_source(ctx, made.local))
		return 0;
	copy(made.peer, to->address);
	made.peer_port = to->port;
	made.gate_port = *port;
	made.cookie = socket_cookie(ctx);
	*kept = made;
	known->used = 1;
	count_datagrams(CARRIED);
	return 1;
}

SEC("cgroup/recvmsg4")
int recvmsg4(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	const struct connection *known = sk ? taken(sk) : 0;
	if (known && ctx->user_ip4 == LOCALHOST && swap_port(ctx->user_port) == known->gate_port) {
		ctx->user_ip4 = known->peer[3];
		ctx->user_port = swap_port(known->peer_port);
	}
	return 1;
}

SEC("cgroup/recvmsg6")
int recvmsg6(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	const struct connection *known = sk ? taken(sk) : 0;
	__u32 told[4];
	told6(ctx, told);
	if (known && is_loopback(told) && swap_port(ctx->user_port) == known->gate_port) {
		tell6(ctx, known->peer);
		ctx->user_port = swap_port(known->peer_port);
	}
	return 1;
}

INLINE void on_option(const struct bpf_sockopt *ctx, struct bpf_sock *sk, __u32 said)
{
	struct udp_socket *known;
	if (!(ctx->level == IP_ && ctx->optname == RECVERR_) && !(ctx->level == IPV6_ && ctx->optname == RECVERR6_))
		return;
	known = storage_get(&sockets, sk, 0, 0);
	if (known)
		known->hears = said != 0;
}
