// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// What all programs share: helpers of the kernel, maps, and what is known of a destination.
//
// Addresses are four words in network order, IPv4 in its mapped form. Ports are in host order.

#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
// Keeps the compiler from joining two reads of the context into one at a computed place.
#define BARRIER asm volatile("" ::: "memory")

enum { NOTSENT_LOWAT = 25, USER_TIMEOUT_ = 18, MOST_UNSENT = 128 << 10, SOL_SOCKET_ = 1, SO_ERROR_ = 4 };
enum { TCP_ = 6, STREAM_ = 1, SYN_SENT = 2, INET_ = 2, IP_ = 0, IP_TOS_ = 1, IPV6_ = 41, TCLASS_ = 67 };

#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST ""
#endif
char license_text[] SEC("license") = "Dual MIT/GPL";
char source_digest[] SEC("digest") = SOURCE_DIGEST;

static void *(*map_lookup)(void *, const void *) = (void *)BPF_FUNC_map_lookup_elem;
static long (*map_update)(void *, const void *, const void *, __u64) = (void *)BPF_FUNC_map_update_elem;
static long (*map_delete)(void *, const void *) = (void *)BPF_FUNC_map_delete_elem;
static __u64 (*ktime_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static __u64 (*socket_cookie)(void *) = (void *)BPF_FUNC_get_socket_cookie;
static __u64 (*netns_cookie)(void *) = (void *)BPF_FUNC_get_netns_cookie;
static void *(*storage_get)(void *, void *, void *, __u64) = (void *)BPF_FUNC_sk_storage_get;
static __u64 (*current_cgroup)(void) = (void *)BPF_FUNC_get_current_cgroup_id;
static __u64 (*current_ids)(void) = (void *)BPF_FUNC_get_current_uid_gid;
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
	__u32 datagram_rules;
	__u32 sink_port[2]; // as the gates; 0: no sink
	__u32 options;      // how many there are
	__u32 inner;        // whether another manypath serves all other networks
	__u32 gap;
};

struct rule {
	__u32 address[4], mask[4];
	__u32 first, last;
};

// A rule that enables connects, and whether it forbids plain TCP.
struct option {
	struct rule rule;
	__u32 only;
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

// Who connects.
struct actor {
	__u32 cgroup[2]; // low word, high word
	__u32 user, group;
};

// A destination that the host's egress policy keeps from somebody; loopback, port 0: the gate, and so all of them.
struct denial {
	struct actor actor;
	struct service to;
};

// A connect that was sent to the gate; lives as long as its socket.
struct connection {
	__u64 cookie;
	__u32 peer[4], local[4];
	__u32 peer_port;
	__u32 gate_port; // 0: its last connect was left alone
	struct actor actor;
};

// The stack's end of a connection to a program that listens.
struct end {
	__u32 address[4];
	__u32 port, to_port;
};

enum { CONNECTING, LISTENING, TRAFFIC_CLASS, USER_TIMEOUT, ASKED };

struct event {
	__u64 cookie;
	__u32 peer[4], own[4], source[4];
	__u32 peer_port, own_port, gate_port;
	__u32 isn;
	__u32 kind, bound;
	__u32 traffic_class, user_timeout;
	struct actor actor;
};

enum reason {
	CARRIED, BOUND_TO_DEVICE, OTHER_NAMESPACE, LOOPBACK, NOT_UNICAST, PORT_ZERO, LINK_LOCAL,
	FOREIGN_SOURCE, MPTCP, RULE, NO_ROUTE, OWN_ADDRESS, REMEMBERED, NO_GATE, NO_MEMORY, EVENTS_LOST,
	HEARS_ERRORS, OLDER_SOCKET, SCTP_ONLY, MARKED, EGRESS_POLICY, REASONS
};

#define MAX_RULES 64

struct map settings SEC("maps") = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct settings), 1, 0 };
struct map rules SEC("maps") = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct rule), MAX_RULES, 0 };
struct map options SEC("maps") = { BPF_MAP_TYPE_ARRAY, 4, sizeof(struct option), MAX_RULES, 0 };
struct map routes SEC("maps") = { BPF_MAP_TYPE_LPM_TRIE, sizeof(struct prefix), sizeof(struct route), 16384, BPF_F_NO_PREALLOC };
struct map plain SEC("maps") = { BPF_MAP_TYPE_LRU_HASH, sizeof(struct service), 8, 8192, 0 };
struct map denied SEC("maps") = { BPF_MAP_TYPE_LRU_HASH, sizeof(struct denial), 8, 4096, 0 };
// Sockets of the daemon itself that belong to a program's cgroup.
struct map exempt SEC("maps") = { BPF_MAP_TYPE_SK_STORAGE, 4, 4, 0, BPF_F_NO_PREALLOC };
struct map connections SEC("maps") = { BPF_MAP_TYPE_SK_STORAGE, 4, sizeof(struct connection), 0, BPF_F_NO_PREALLOC };
// Whom connections stand for that the stack is about to make to listening programs, and those that it has made, by
// the socket that the program gets.
struct map clients SEC("maps") = { BPF_MAP_TYPE_LRU_HASH, sizeof(struct end), sizeof(struct service), 65536, 0 };
struct map accepted SEC("maps") = { BPF_MAP_TYPE_SK_STORAGE, 4, sizeof(struct service), 0, BPF_F_NO_PREALLOC };
struct map errors SEC("maps") = { BPF_MAP_TYPE_LRU_HASH, 8, 4, 4096, 0 };
struct map arrivals SEC("maps") = { BPF_MAP_TYPE_LRU_HASH, 4, 8, 1024, 0 };
// Other networks that a manypath of their own serves.
struct map networks SEC("maps") = { BPF_MAP_TYPE_HASH, 8, 4, 1024, 0 };
struct map counts SEC("maps") = { BPF_MAP_TYPE_ARRAY, 4, 8, REASONS, 0 };
struct map events SEC("maps") = { BPF_MAP_TYPE_RINGBUF, 0, 0, 1 << 20, 0 };

#define MAPPED __builtin_bswap32(0x0000ffff)
#define LOCALHOST __builtin_bswap32(0x7f000001)
#define ONE __builtin_bswap32(1)

INLINE __u32 to_host(__u32 word) { return __builtin_bswap32(word); }
INLINE __u32 swap_port(__u32 port) { return __builtin_bswap16((__u16)port); }

INLINE void count_in(void *counters, __u32 reason)
{
	__u64 *counter = map_lookup(counters, &reason);
	if (counter)
		__sync_fetch_and_add(counter, 1);
}

INLINE void count(__u32 reason) { count_in(&counts, reason); }

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

// Whether one of the first `known` rules of a table matches.
INLINE int any_matches(void *table, __u32 known, const struct service *to)
{
	for (__u32 i = 0; i < MAX_RULES; i++) {
		__u32 number = i;
		const struct rule *rule;
		if (i >= known)
			break;
		rule = map_lookup(table, &number);
		if (!rule)
			break;
		if (matches(rule, to))
			return 1;
	}
	return 0;
}

// The rules are those that contradict the default.
INLINE int is_carried(const struct settings *said, const struct service *to)
{
	return any_matches(&rules, said->rules, to) ? !said->carried : said->carried != 0;
}

// Whether the first rule that enables connects to a destination forbids plain TCP.
INLINE int is_sctp_only(const struct settings *said, const struct service *to)
{
	for (__u32 i = 0; i < MAX_RULES; i++) {
		__u32 number = i;
		const struct option *option;
		if (i >= said->options)
			break;
		option = map_lookup(&options, &number);
		if (!option)
			break;
		if (matches(&option->rule, to))
			return option->only != 0;
	}
	return 0;
}

// Whether a socket of a network is the business of another manypath.
INLINE int is_anothers(const struct settings *said, __u64 netns)
{
	return netns != said->netns && (said->inner || map_lookup(&networks, &netns));
}

// Whether plain TCP is known to be all that the service has.
INLINE int is_plain(const struct service *to)
{
	const __u64 *until = map_lookup(&plain, to);
	return until && *until > ktime_ns();
}

INLINE void read_actor(struct actor *actor)
{
	__u64 cgroup = current_cgroup(), ids = current_ids();
	actor->cgroup[0] = (__u32)cgroup;
	actor->cgroup[1] = cgroup >> 32;
	actor->user = (__u32)ids;
	actor->group = ids >> 32;
}

// Whether the host's egress policy is known to keep somebody from a destination, or from the gate.
INLINE int is_denied(const struct actor *actor, const struct service *to)
{
	struct denial key = { .actor = *actor, .to = *to };
	const __u64 *until = map_lookup(&denied, &key);
	if (until && *until > ktime_ns())
		return 1;
	key.to.port = 0;
	key.to.address[0] = key.to.address[1] = 0;
	key.to.address[2] = is_v4(to->address) ? MAPPED : 0;
	key.to.address[3] = is_v4(to->address) ? LOCALHOST : ONE;
	until = map_lookup(&denied, &key);
	return until && *until > ktime_ns();
}

INLINE const struct route *route_to(const __u32 *address)
{
	struct prefix key = { .length = 128 };
	copy(key.address, address);
	return map_lookup(&routes, &key);
}

// A socket that a connect has taken to the gate, or to the sink of datagrams.
INLINE struct connection *taken(struct bpf_sock *sk)
{
	struct connection *known = storage_get(&connections, sk, 0, 0);
	return known && known->gate_port ? known : 0;
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
