// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// What the kernel does for programs in a cgroup. Connects are sent to the SYN gate, and names and
// errors are told as if they had not been; crates/cgroup/src/lib.rs has the whole picture.
//
// `make -C crates/cgroup/bpf` makes manypath.bpf.o, which is checked in: users need no compiler. Both
// carry the digest of this text, and a test holds them together.
//
// Addresses are four words in network order, IPv4 in its mapped form. Ports are in host order.

#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
// Keeps the compiler from joining two reads of the context into one at a computed place.
#define BARRIER asm volatile("" ::: "memory")

enum { NOTSENT_LOWAT = 25, MOST_UNSENT = 128 << 10, SOL_SOCKET_ = 1, SO_ERROR_ = 4, TCP_ = 6, STREAM_ = 1, SYN_SENT = 2 };

#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST ""
#endif
char license_text[] SEC("license") = "Dual MIT/GPL";
char source_digest[] SEC("digest") = SOURCE_DIGEST;

static void *(*map_lookup)(void *, const void *) = (void *)BPF_FUNC_map_lookup_elem;
static long (*map_delete)(void *, const void *) = (void *)BPF_FUNC_map_delete_elem;
static __u64 (*ktime_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static __u64 (*socket_cookie)(void *) = (void *)BPF_FUNC_get_socket_cookie;
static __u64 (*netns_cookie)(void *) = (void *)BPF_FUNC_get_netns_cookie;
static void *(*storage_get)(void *, void *, void *, __u64) = (void *)BPF_FUNC_sk_storage_get;
static void *(*mptcp_of)(void *) = (void *)BPF_FUNC_skc_to_mptcp_sock;
static long (*set_option)(void *, int, int, void *, int) = (void *)BPF_FUNC_setsockopt;
static long (*get_option)(void *, int, int, void *, int) = (void *)BPF_FUNC_getsockopt;
static long (*ring_output)(void *, void *, __u64, __u64) = (void *)BPF_FUNC_ringbuf_output;

struct map {
	__u32 type, key_size, value_size, max_entries, flags;
};

// What the daemon has said.
struct settings {
	__u64 netns;        // where the gates are
	__u32 gate_port[2]; // IPv4, IPv6; 0: no gate
	__u32 rules;        // how many there are
	__u32 carried;      // what becomes of a destination that no rule matches
};

struct rule {
	__u32 address[4], mask[4];
	__u32 first, last;
};

struct prefix {
	__u32 length;
	__u32 address[4];
};

enum { FORWARD, OWN, REJECT };

struct route {
	__u32 source[4];
	__u32 kind;
};

struct service {
	__u32 address[4];
	__u32 port;
};

// A connect that was sent to the gate; lives as long as its socket.
struct connection {
	__u64 cookie;
	__u32 peer[4], local[4];
	__u32 peer_port;
	__u32 gate_port; // 0: its last connect was left alone
};

// The stack's end of a connection to a program that listens.
struct end {
	__u32 address[4];
	__u32 port, to_port;
};

enum { CONNECTING, LISTENING };

struct event {
	__u64 cookie;
	__u32 peer[4], own[4], source[4];
	__u32 peer_port, own_port, gate_port;
	__u32 isn;
	__u32 kind, bound;
};

enum reason {
	CARRIED, BOUND_TO_DEVICE, OTHER_NAMESPACE, LOOPBACK, NOT_UNICAST, PORT_ZERO, LINK_LOCAL,
	FOREIGN_SOURCE, MPTCP, RULE, NO_ROUTE, OWN_ADDRESS, REMEMBERED, NO_GATE, NO_MEMORY, EVENTS_LOST, REASONS
};

#define MAX_RULES 64

struct map settings SEC("maps") = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct settings), 1, 0 };
struct map rules SEC("maps") = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rule), MAX_RULES, 0 };
struct map routes SEC("maps") = { BPF_MAP_TYPE_LPM_TRIE, sizeof(struct prefix), sizeof(struct route), 16384, BPF_F_NO_PREALLOC };
struct map plain SEC("maps") = { BPF_MAP_TYPE_LRU_HASH, sizeof(struct service), 8, 8192, 0 };
struct map connections SEC("maps") = { BPF_MAP_TYPE_SK_STORAGE, 4, sizeof(struct connection), 0, BPF_F_NO_PREALLOC };
struct map clients SEC("maps") = { BPF_MAP_TYPE_LRU_HASH, sizeof(struct end), sizeof(struct service), 65536, 0 };
struct map errors SEC("maps") = { BPF_MAP_TYPE_LRU_HASH, 8, 4, 4096, 0 };
struct map counts SEC("maps") = { BPF_MAP_TYPE_ARRAY, 4, 8, REASONS, 0 };
struct map events SEC("maps") = { BPF_MAP_TYPE_RINGBUF, 0, 0, 1 << 20, 0 };

#define MAPPED __builtin_bswap32(0x0000ffff)
#define LOCALHOST __builtin_bswap32(0x7f000001)
#define ONE __builtin_bswap32(1)

INLINE __u32 to_host(__u32 word) { return __builtin_bswap32(word); }
INLINE __u32 swap_port(__u32 port) { return __builtin_bswap16((__u16)port); }

INLINE void count(__u32 reason)
{
	__u64 *counter = map_lookup(&counts, &reason);
	if (counter)
		__sync_fetch_and_add(counter, 1);
}

INLINE void copy(__u32 *to, const __u32 *from)
{
	to[0] = from[0];
	to[1] = from[1];
	to[2] = from[2];
	to[3] = from[3];
}

INLINE int is_v4(const __u32 *a) { return a[0] == 0 && a[1] == 0 && a[2] == MAPPED; }

INLINE int is_loopback(const __u32 *a)
{
	__u32 last = to_host(a[3]);
	if (is_v4(a)) // The kernel takes the unspecified address as this host.
		return last >> 24 == 127 || last == 0;
	return a[0] == 0 && a[1] == 0 && a[2] == 0 && last <= 1;
}

// Whether no association can lead to a destination, and why.
INLINE __u32 unsuitable(const __u32 *a, __u32 port)
{
	__u32 first = to_host(a[0]), last = to_host(a[3]);
	if (is_loopback(a))
		return LOOPBACK;
	if (is_v4(a) ? last >> 28 == 14 || last == 0xffffffff : first >> 24 == 0xff)
		return NOT_UNICAST;
	if (!is_v4(a) && (first & 0xffc00000) == 0xfe800000)
		return LINK_LOCAL;
	return port == 0 ? PORT_ZERO : CARRIED;
}

INLINE int matches(const struct rule *rule, const struct service *to)
{
	return to->port >= rule->first && to->port <= rule->last &&
	       (to->address[0] & rule->mask[0]) == rule->address[0] &&
	       (to->address[1] & rule->mask[1]) == rule->address[1] &&
	       (to->address[2] & rule->mask[2]) == rule->address[2] &&
	       (to->address[3] & rule->mask[3]) == rule->address[3];
}

// The rules that contradict the default: any that matches decides.
INLINE int is_carried(const struct settings *said, const struct service *to)
{
	for (__u32 i = 0; i < MAX_RULES; i++) {
		__u32 number = i;
		const struct rule *rule;
		if (i >= said->rules)
			break;
		rule = map_lookup(&rules, &number);
		if (!rule)
			break;
		if (matches(rule, to))
			return !said->carried;
	}
	return said->carried != 0;
}

// Whether plain TCP is known to be all that the service has.
INLINE int is_plain(const struct service *to)
{
	const __u64 *until = map_lookup(&plain, to);
	return until && *until > ktime_ns();
}

INLINE const struct route *route_to(const __u32 *address)
{
	struct prefix key = { .length = 128 };
	copy(key.address, address);
	return map_lookup(&routes, &key);
}

// What becomes of a connect of a TCP socket. `bound` is the address that the socket is bound to.
INLINE __u32 decide(struct bpf_sock_addr *ctx, struct bpf_sock *sk, const struct settings *said,
		    struct service *to, const __u32 *bound, struct connection *made)
{
	const struct route *route;
	__u32 reason = unsuitable(to->address, to->port);
	if (reason)
		return reason;
	if (mptcp_of(sk)) // What is seen is a subflow.
		return MPTCP;
	if (sk->bound_dev_if)
		return BOUND_TO_DEVICE;
	if (netns_cookie(ctx) != said->netns)
		return OTHER_NAMESPACE;
	if (!said->gate_port[!is_v4(to->address)])
		return NO_GATE;
	if (!is_carried(said, to))
		return RULE;
	route = route_to(to->address);
	if (!route || route->kind == REJECT)
		return NO_ROUTE;
	if (route->kind == OWN)
		return OWN_ADDRESS;
	copy(made->local, route->source);
	if (bound[3] || bound[0] || bound[1] || (bound[2] && bound[2] != MAPPED)) {
		route = route_to(bound);
		if (!route || route->kind != OWN || is_loopback(bound))
			return FOREIGN_SOURCE;
		copy(made->local, bound);
	}
	return is_plain(to) ? REMEMBERED : CARRIED;
}

// Whether the connect goes to the gate; then `port` is the gate's.
INLINE int redirect(struct bpf_sock_addr *ctx, struct service *to, const __u32 *bound, __u32 *port)
{
	__u32 zero = 0, reason;
	struct bpf_sock *sk = ctx->sk;
	struct connection made = {}, *known;
	const struct settings *said = map_lookup(&settings, &zero);
	if (!sk || !said)
		return 0;
	reason = decide(ctx, sk, said, to, bound, &made);
	if (!reason) {
		known = storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (known) {
			*port = said->gate_port[!is_v4(to->address)];
			copy(made.peer, to->address);
			made.cookie = socket_cookie(ctx);
			made.peer_port = to->port;
			made.gate_port = *port;
			*known = made;
			count(CARRIED);
			return 1;
		}
		reason = NO_MEMORY;
	}
	known = storage_get(&connections, sk, 0, 0);
	if (known)
		known->gate_port = 0;
	count(reason);
	return 0;
}

SEC("cgroup/connect4")
int connect4(struct bpf_sock_addr *ctx)
{
	struct service to = { .address = { 0, 0, MAPPED, ctx->user_ip4 }, .port = swap_port(ctx->user_port) };
	struct bpf_sock *sk = ctx->sk;
	__u32 bound[4] = { 0, 0, MAPPED, 0 }, port;
	if (ctx->protocol != TCP_ || ctx->type != STREAM_ || !sk)
		return 1;
	bound[3] = sk->src_ip4;
	if (redirect(ctx, &to, bound, &port)) {
		ctx->user_ip4 = LOCALHOST;
		ctx->user_port = swap_port(port);
	}
	return 1;
}

SEC("cgroup/connect6")
int connect6(struct bpf_sock_addr *ctx)
{
	struct service to = { .port = swap_port(ctx->user_port) };
	struct bpf_sock *sk = ctx->sk;
	__u32 bound[4], port;
	if (ctx->protocol != TCP_ || ctx->type != STREAM_ || !sk)
		return 1;
	to.address[0] = ctx->user_ip6[0];
	to.address[1] = ctx->user_ip6[1];
	to.address[2] = ctx->user_ip6[2];
	to.address[3] = ctx->user_ip6[3];
	bound[0] = sk->src_ip6[0];
	bound[1] = sk->src_ip6[1];
	bound[2] = sk->src_ip6[2];
	bound[3] = sk->src_ip6[3];
	if (redirect(ctx, &to, bound, &port)) {
		int v4 = is_v4(to.address);
		ctx->user_ip6[0] = 0;
		ctx->user_ip6[1] = 0;
		ctx->user_ip6[2] = v4 ? MAPPED : 0;
		ctx->user_ip6[3] = v4 ? LOCALHOST : ONE;
		ctx->user_port = swap_port(port);
	}
	return 1;
}

INLINE void tell(struct event *event)
{
	if (ring_output(&events, event, sizeof(*event), 0))
		count(EVENTS_LOST);
}

// Lets a socket take little that the stack cannot take yet, unless its program has said how much.
INLINE void keep_little_unsent(struct bpf_sock_ops *ctx)
{
	int own = 0, most = MOST_UNSENT;
	if (!get_option(ctx, TCP_, NOTSENT_LOWAT, &own, sizeof(own)) && !own)
		set_option(ctx, TCP_, NOTSENT_LOWAT, &most, sizeof(most));
}

// TCP_CONNECT_CB would be the obvious one; by the time of this one, still before the SYN leaves,
// snd_nxt is its sequence number, which a refusal must acknowledge.
INLINE void on_syn(struct bpf_sock_ops *ctx, struct bpf_sock *sk)
{
	struct connection *known = storage_get(&connections, sk, 0, 0);
	struct event event = { .kind = CONNECTING };
	if (!known || !known->gate_port || ctx->state != SYN_SENT)
		return;
	keep_little_unsent(ctx);
	event.cookie = known->cookie;
	copy(event.peer, known->peer);
	copy(event.source, known->local);
	event.peer_port = known->peer_port;
	event.gate_port = known->gate_port;
	event.own_port = ctx->local_port;
	event.isn = ctx->snd_nxt;
	if (is_v4(known->peer)) {
		__u32 own = ctx->local_ip4;
		event.own[2] = MAPPED;
		event.own[3] = own;
	} else {
		BARRIER;
		event.own[0] = ctx->local_ip6[0];
		event.own[1] = ctx->local_ip6[1];
		event.own[2] = ctx->local_ip6[2];
		event.own[3] = ctx->local_ip6[3];
	}
	event.bound = !is_loopback(event.own);
	tell(&event);
}

SEC("sockops")
int sock_ops(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct event event = { .kind = LISTENING };
	if (!sk || !ctx->is_fullsock)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_TIMEOUT_INIT)
		on_syn(ctx, sk);
	else if (ctx->op == BPF_SOCK_OPS_TCP_LISTEN_CB)
		tell(&event);
	ctx->reply = -1;
	return 1;
}

// A socket that this program's connect has taken to the gate.
INLINE struct connection *taken(struct bpf_sock *sk)
{
	struct connection *known = storage_get(&connections, sk, 0, 0);
	return known && known->gate_port ? known : 0;
}

// Whom a connection stands for that the stack has made to a listening program.
INLINE const struct service *client_of(struct bpf_sock *sk, const __u32 *address, __u32 port)
{
	struct end end = { .port = port, .to_port = sk->src_port };
	copy(end.address, address);
	return map_lookup(&clients, &end);
}

SEC("cgroup/getpeername4")
int getpeername4(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	__u32 told[4] = { 0, 0, MAPPED, ctx->user_ip4 };
	const struct connection *known;
	const struct service *client;
	if (!sk)
		return 1;
	known = taken(sk);
	if (known && is_loopback(told)) {
		ctx->user_ip4 = known->peer[3];
		ctx->user_port = swap_port(known->peer_port);
		return 1;
	}
	client = client_of(sk, told, swap_port(ctx->user_port));
	if (client) {
		ctx->user_ip4 = client->address[3];
		ctx->user_port = swap_port(client->port);
	}
	return 1;
}

INLINE void tell6(struct bpf_sock_addr *ctx, const __u32 *address)
{
	ctx->user_ip6[0] = address[0];
	ctx->user_ip6[1] = address[1];
	ctx->user_ip6[2] = address[2];
	ctx->user_ip6[3] = address[3];
}

INLINE void told6(struct bpf_sock_addr *ctx, __u32 *address)
{
	address[0] = ctx->user_ip6[0];
	address[1] = ctx->user_ip6[1];
	address[2] = ctx->user_ip6[2];
	address[3] = ctx->user_ip6[3];
}

SEC("cgroup/getpeername6")
int getpeername6(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	__u32 told[4];
	const struct connection *known;
	const struct service *client;
	if (!sk)
		return 1;
	told6(ctx, told);
	known = taken(sk);
	if (known && is_loopback(told)) {
		tell6(ctx, known->peer);
		ctx->user_port = swap_port(known->peer_port);
		return 1;
	}
	client = client_of(sk, told, swap_port(ctx->user_port));
	if (client) {
		tell6(ctx, client->address);
		ctx->user_port = swap_port(client->port);
	}
	return 1;
}

SEC("cgroup/getsockname4")
int getsockname4(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	const struct connection *known;
	if (!sk)
		return 1;
	known = taken(sk);
	if (known && ctx->user_ip4 == LOCALHOST)
		ctx->user_ip4 = known->local[3];
	return 1;
}

SEC("cgroup/getsockname6")
int getsockname6(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	__u32 told[4];
	const struct connection *known;
	if (!sk)
		return 1;
	told6(ctx, told);
	known = taken(sk);
	// The unspecified address, which counts as loopback elsewhere, is that of a socket at rest.
	if (known && is_loopback(told) && told[3])
		tell6(ctx, known->local);
	return 1;
}

// A socket at the gate can fail in few ways; the true error is told here.
SEC("cgroup/getsockopt")
int getsockopt(struct bpf_sockopt *ctx)
{
	int *value = ctx->optval;
	struct bpf_sock *sk = ctx->sk;
	if (ctx->level == SOL_SOCKET_ && ctx->optname == SO_ERROR_ && sk && (void *)(value + 1) <= ctx->optval_end) {
		const struct connection *known = taken(sk);
		if (known && *value) {
			__u64 cookie = known->cookie;
			const __u32 *error = map_lookup(&errors, &cookie);
			if (error) {
				*value = *error;
				map_delete(&errors, &cookie);
				return 1;
			}
		}
	}
	ctx->optlen = 0; // What the kernel has written stays.
	return 1;
}
