// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// What programs are told of the way to the destination where the kernel knows the way to the stack only: the
// receive buffer, TCP_INFO, TCP_MAXSEG. No call can wait for the stack here, so that the answer lies ready in
// a map from before the connection is there, and is renewed when somebody has asked.

#include <linux/tcp.h>

enum { RCVBUF_ = 8, RCVBUFFORCE_ = 33, BUF_LOCK_ = 72, RCVBUF_LOCK_ = 2, LEAST_BUFFER = 4608 };

// As src/layout.rs writes it: windows in flight in packets, the others in bytes and microseconds.
struct way {
	__u32 asked; // whether it was told that somebody has asked since
	__u32 window, mss, mtu, rto, unacked, rtt, rtt_variation, least_rtt, cwnd, ssthresh, peer_window;
};

// By the two ends of a connection that was led to a listening program; by the cookie, in the first two words, of
// a socket that a connect has taken to the gate.
struct map ways SEC("maps") = { BPF_MAP_TYPE_HASH, sizeof(struct end), sizeof(struct way), 65536, BPF_F_NO_PREALLOC };
// Whether a program has chosen the receive buffer of its socket; those that it accepts have it from the one that listens.
struct choice {
	__u32 chosen;
	__u32 forced; // what SO_RCVBUFFORCE has asked for, which the kernel may have denied; 0: nothing
};
struct map choices SEC("maps") = { BPF_MAP_TYPE_SK_STORAGE, 4, sizeof(struct choice), 0, BPF_F_NO_PREALLOC | BPF_F_CLONE };

INLINE int is_tcp(const struct bpf_sock *sk) { return sk->protocol == TCP_ && sk->type == STREAM_; }

INLINE struct way *way_of(struct bpf_sock *sk, struct end *key)
{
	const struct connection *known = taken(sk);
	__u32 v4;
	if (known) {
		key->address[0] = (__u32)known->cookie;
		key->address[1] = known->cookie >> 32;
		return map_lookup(&ways, key);
	}
	key->port = swap_port(sk->dst_port);
	key->to_port = sk->src_port;
	v4 = sk->dst_ip4;
	BARRIER;
	if (sk->family == INET_) {
		key->address[2] = MAPPED;
		key->address[3] = v4;
	} else {
		BARRIER;
		key->address[0] = sk->dst_ip6[0];
		key->address[1] = sk->dst_ip6[1];
		key->address[2] = sk->dst_ip6[2];
		key->address[3] = sk->dst_ip6[3];
	}
	return map_lookup(&ways, key);
}

// Lets the way be renewed that somebody asks for.
INLINE void renew(struct way *way, const struct end *key)
{
	struct event event = { .kind = ASKED };
	if (way->asked)
		return;
	copy(event.peer, key->address);
	event.peer_port = key->port;
	event.own_port = key->to_port;
	way->asked = !ring_output(&events, &event, sizeof(event), 0);
}

// A number of what the program gets, as far as it has room for it.
INLINE void put(struct bpf_sockopt *ctx, __u32 at, __u32 number)
{
	__u8 *to = ctx->optval, *end = ctx->optval_end;
	to += at;
	if (to + 4 <= end) {
		*(__u32 *)to = number;
		return;
	}
	if (to + 1 <= end)
		to[0] = number;
	if (to + 2 <= end)
		to[1] = number >> 8;
	if (to + 3 <= end)
		to[2] = number >> 16;
}

#define PUT(field, number) put(ctx, __builtin_offsetof(struct tcp_info, tcpi_##field), number)
// The one after tcpi_snd_wnd, from Linux 6.2 on.
enum { RCV_WND = __builtin_offsetof(struct tcp_info, tcpi_snd_wnd) + 4 };

INLINE void put_info(struct bpf_sockopt *ctx, const struct way *way)
{
	PUT(rto, way->rto);
	PUT(snd_mss, way->mss);
	PUT(rcv_mss, way->mss);
	PUT(unacked, way->unacked);
	PUT(pmtu, way->mtu);
	PUT(rcv_ssthresh, way->window);
	PUT(rtt, way->rtt);
	PUT(rttvar, way->rtt_variation);
	PUT(snd_ssthresh, way->ssthresh);
	PUT(snd_cwnd, way->cwnd);
	PUT(advmss, way->mss);
	PUT(rcv_rtt, way->rtt);
	PUT(rcv_space, way->window);
	PUT(min_rtt, way->least_rtt);
	PUT(snd_wnd, way->peer_window);
	put(ctx, RCV_WND, way->window);
}

// Whether the buffer is what the program has asked for. What becomes of SO_RCVBUFFORCE is not known when it is asked
// for: the buffer tells it, which is then twice as much, but never smaller than the kernel's least.
INLINE int has_chosen(const struct choice *choice, __u32 own)
{
	__u32 forced;
	if (!choice || choice->chosen)
		return choice != 0;
	forced = choice->forced;
	return forced && (own == 2 * forced || (forced < LEAST_BUFFER / 2 && own < LEAST_BUFFER));
}

// Whether the kernel's answer was replaced by one that tells of the way.
INLINE int tell_way(struct bpf_sockopt *ctx)
{
	int buffer = ctx->level == SOL_SOCKET_ && ctx->optname == RCVBUF_;
	int info = ctx->level == TCP_ && ctx->optname == TCP_INFO;
	struct bpf_sock *sk = ctx->sk;
	const int *own = ctx->optval;
	const struct choice *choice;
	struct end key = {};
	struct way *way;
	if (!(buffer || info || (ctx->level == TCP_ && ctx->optname == TCP_MAXSEG)))
		return 0;
	if (!sk || ctx->retval || !is_tcp(sk))
		return 0;
	way = way_of(sk, &key);
	if (!way)
		return 0;
	renew(way, &key);
	if (info) {
		put_info(ctx, way);
		return 1;
	}
	if (!buffer) {
		put(ctx, 0, way->mss);
		return 1;
	}
	choice = storage_get(&choices, sk, 0, 0);
	if ((void *)(own + 1) <= ctx->optval_end) {
		if (has_chosen(choice, *own) || *own >= (int)way->window)
			return 0;
	} else if (choice && choice->chosen) {
		return 0;
	}
	put(ctx, 0, way->window);
	return 1;
}

// A program chooses the receive buffer of a socket, or leaves it to the kernel again.
INLINE void on_buffer(const struct bpf_sockopt *ctx, struct bpf_sock *sk, __u32 said)
{
	int size = ctx->optname == RCVBUF_, force = ctx->optname == RCVBUFFORCE_;
	struct choice *choice;
	if (ctx->level != SOL_SOCKET_ || !(size || force || ctx->optname == BUF_LOCK_) || !is_tcp(sk))
		return;
	if (ctx->optlen < (int)sizeof(said)) // The kernel refuses it.
		return;
	choice = storage_get(&choices, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!choice)
		return;
	if (force) {
		choice->forced = (int)said > 0 ? said & 0x3fffffff : 1;
		return;
	}
	choice->chosen = size || (said & RCVBUF_LOCK_);
	choice->forced = 0;
}
