// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// What the kernel does for programs in a cgroup. Connects are sent to the SYN gate, and names and
// errors are told as if they had not been; crates/cgroup/src/lib.rs has the whole picture.
//
// `make -C crates/cgroup/bpf` makes manypath.bpf.o, which is checked in: users need no compiler. Both
// carry the digest of these texts, and a test holds them together.

#include "common.h"
#include "datagrams.h"
#include "way.h"

enum { PAGE_ = 4096 };

// Where kernels before 5.19 cannot tell a subflow of a multipath TCP socket, only sockets are carried that a program
// has made itself while manypath was there: sock_create_older has marked those, and never sees a subflow's.
enum age { CURRENT, OLDER };

INLINE __u32 not_made_here(struct bpf_sock *sk, enum age age)
{
	if (age == OLDER)
		return storage_get(&connections, sk, 0, 0) ? CARRIED : OLDER_SOCKET;
	return mptcp_of(sk) ? MPTCP : CARRIED; // What is seen is a subflow.
}

// What becomes of a connect of a TCP socket. `bound` is the address that the socket is bound to.
INLINE __u32 decide(struct bpf_sock_addr *ctx, struct bpf_sock *sk, const struct settings *said,
		    struct service *to, const __u32 *bound, struct connection *made, enum age age)
{
	const struct route *route;
	__u32 reason = unsuitable(to->address, to->port);
	if (reason)
		return reason;
	reason = not_made_here(sk, age);
	if (reason)
		return reason;
	if (sk->bound_dev_if)
		return BOUND_TO_DEVICE;
	if (sk->mark) // Routes and filters may go by it, and the stack has none.
		return MARKED;
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
	if (is_plain(to))
		return REMEMBERED;
	read_actor(&made->actor);
	return is_denied(&made->actor, to) ? EGRESS_POLICY : CARRIED;
}

// Whether no rule has a say in it: these connects are never carried.
INLINE int is_for_the_kernel(__u32 reason)
{
	return reason == LOOPBACK || reason == NOT_UNICAST || reason == PORT_ZERO || reason == RULE ||
	       reason == OWN_ADDRESS;
}

enum { LEFT_ALONE, REDIRECTED, REFUSED };

// What becomes of the connect: left to the kernel, sent to the gate at `port`, or refused as it would be plain
// TCP.
INLINE int redirect(struct bpf_sock_addr *ctx, struct service *to, const __u32 *bound, __u32 *port, enum age age)
{
	__u32 zero = 0, reason;
	struct bpf_sock *sk = ctx->sk;
	struct connection made = {}, *known;
	const struct settings *said = map_lookup(&settings, &zero);
	if (!sk || !said || storage_get(&exempt, sk, 0, 0))
		return LEFT_ALONE;
	if (is_anothers(said, netns_cookie(ctx)))
		return LEFT_ALONE;
	reason = decide(ctx, sk, said, to, bound, &made, age);
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
			return REDIRECTED;
		}
		reason = NO_MEMORY;
	}
	known = storage_get(&connections, sk, 0, 0);
	if (known)
		known->gate_port = 0;
	if (!is_for_the_kernel(reason) && is_sctp_only(said, to)) {
		count(SCTP_ONLY);
		return REFUSED;
	}
	count(reason);
	return LEFT_ALONE;
}

INLINE int on_connect4(struct bpf_sock_addr *ctx, enum age age)
{
	struct service to = { .address = { 0, 0, MAPPED, ctx->user_ip4 }, .port = swap_port(ctx->user_port) };
	struct bpf_sock *sk = ctx->sk;
	__u32 bound[4] = { 0, 0, MAPPED, 0 }, port;
	int way;
	if (sk && ctx->protocol == UDP_ && sink(ctx, sk, &to, &port)) {
		ctx->user_ip4 = LOCALHOST;
		ctx->user_port = swap_port(port);
	}
	if (ctx->protocol != TCP_ || ctx->type != STREAM_ || !sk)
		return 1;
	bound[3] = sk->src_ip4;
	way = redirect(ctx, &to, bound, &port, age);
	if (way == REDIRECTED) {
		ctx->user_ip4 = LOCALHOST;
		ctx->user_port = swap_port(port);
	}
	return way != REFUSED;
}

INLINE int on_connect6(struct bpf_sock_addr *ctx, enum age age)
{
	struct service to = { .port = swap_port(ctx->user_port) };
	struct bpf_sock *sk = ctx->sk;
	__u32 bound[4], port;
	int way;
	if (!sk)
		return 1;
	to.address[0] = ctx->user_ip6[0];
	to.address[1] = ctx->user_ip6[1];
	to.address[2] = ctx->user_ip6[2];
	to.address[3] = ctx->user_ip6[3];
	if (ctx->protocol == UDP_ && !is_v4(to.address) && sink(ctx, sk, &to, &port)) {
		ctx->user_ip6[0] = 0;
		ctx->user_ip6[1] = 0;
		ctx->user_ip6[2] = 0;
		ctx->user_ip6[3] = ONE;
		ctx->user_port = swap_port(port);
	}
	if (ctx->protocol != TCP_ || ctx->type != STREAM_)
		return 1;
	bound[0] = sk->src_ip6[0];
	bound[1] = sk->src_ip6[1];
	bound[2] = sk->src_ip6[2];
	bound[3] = sk->src_ip6[3];
	way = redirect(ctx, &to, bound, &port, age);
	if (way == REDIRECTED) {
		int v4 = is_v4(to.address);
		ctx->user_ip6[0] = 0;
		ctx->user_ip6[1] = 0;
		ctx->user_ip6[2] = v4 ? MAPPED : 0;
		ctx->user_ip6[3] = v4 ? LOCALHOST : ONE;
		ctx->user_port = swap_port(port);
	}
	return way != REFUSED;
}

SEC("cgroup/connect4")
int connect4(struct bpf_sock_addr *ctx) { return on_connect4(ctx, CURRENT); }

SEC("cgroup/connect4/older")
int connect4_older(struct bpf_sock_addr *ctx) { return on_connect4(ctx, OLDER); }

SEC("cgroup/connect6")
int connect6(struct bpf_sock_addr *ctx) { return on_connect6(ctx, CURRENT); }

SEC("cgroup/connect6/older")
int connect6_older(struct bpf_sock_addr *ctx) { return on_connect6(ctx, OLDER); }

SEC("cgroup/sock_create/older")
int sock_create_older(struct bpf_sock *ctx)
{
	if (ctx->type == STREAM_ && (!ctx->protocol || ctx->protocol == TCP_))
		storage_get(&connections, ctx, 0, BPF_SK_STORAGE_GET_F_CREATE);
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

// What the program has asked for that means something to the stack.
INLINE void read_options(struct bpf_sock_ops *ctx, struct event *event)
{
	int class = 0, timeout = 0;
	if (ctx->family == INET_)
		get_option(ctx, IP_, IP_TOS_, &class, sizeof(class));
	else
		get_option(ctx, IPV6_, TCLASS_, &class, sizeof(class));
	get_option(ctx, TCP_, USER_TIMEOUT_, &timeout, sizeof(timeout));
	event->traffic_class = class;
	event->user_timeout = timeout;
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
	read_options(ctx, &event);
	event.cookie = known->cookie;
	copy(event.peer, known->peer);
	copy(event.source, known->local);
	event.peer_port = known->peer_port;
	event.gate_port = known->gate_port;
	event.own_port = ctx->local_port;
	event.isn = ctx->snd_nxt;
	event.actor = known->actor;
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

// Whom a connection stands for that the stack has made to a listening program.
INLINE const struct service *client_of(struct bpf_sock *sk, const __u32 *address, __u32 port)
{
	const struct service *known = storage_get(&accepted, sk, 0, 0);
	struct end end = { .port = port, .to_port = sk->src_port };
	if (known)
		return known;
	copy(end.address, address); // There was no memory for the above.
	return map_lookup(&clients, &end);
}

// Gives the name that was announced for a connection to its socket, and to no other: whoever comes from the same
// address and port later is somebody else. False when none was announced.
INLINE int adopt(struct bpf_sock *sk, const struct end *end)
{
	const struct service *client = map_lookup(&clients, end);
	struct service *known;
	if (!client)
		return 0;
	known = storage_get(&accepted, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (known) {
		*known = *client;
		map_delete(&clients, end);
	}
	return 1;
}

// A client has come to a listening program; those that the stack leads there it counts itself.
INLINE void on_arrival(struct bpf_sock_ops *ctx, struct bpf_sock *sk)
{
	struct end end = { .address = { 0, 0, MAPPED, ctx->remote_ip4 }, .to_port = ctx->local_port };
	__u32 port = end.to_port, zero = 0;
	__u64 one = 1, *known;
	const struct settings *said = map_lookup(&settings, &zero);
	if (ctx->family != INET_) {
		BARRIER;
		end.address[0] = ctx->remote_ip6[0];
		end.address[1] = ctx->remote_ip6[1];
		end.address[2] = ctx->remote_ip6[2];
		end.address[3] = ctx->remote_ip6[3];
	}
	end.port = swap_port(ctx->remote_port >> 16);
	if (said && is_anothers(said, netns_cookie(ctx)))
		return;
	// A container may have sockets of the same addresses.
	if (said && netns_cookie(ctx) == said->netns && adopt(sk, &end))
		return;
	known = map_lookup(&arrivals, &port);
	if (known)
		__sync_fetch_and_add(known, 1);
	else
		map_update(&arrivals, &port, &one, BPF_ANY);
}

INLINE int on_socket(struct bpf_sock_ops *ctx, enum age age)
{
	struct bpf_sock *sk = ctx->sk;
	struct event event = { .kind = LISTENING };
	if (!sk || !ctx->is_fullsock)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_TIMEOUT_INIT)
		on_syn(ctx, sk);
	else if (age == CURRENT && ctx->op == BPF_SOCK_OPS_TCP_LISTEN_CB)
		tell(&event);
	else if (age == CURRENT && ctx->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		on_arrival(ctx, sk);
	ctx->reply = -1;
	return 1;
}

SEC("sockops")
int sock_ops(struct bpf_sock_ops *ctx) { return on_socket(ctx, CURRENT); }

// Kernels before 5.15 do not tell here in which network a socket is: no servers there.
SEC("sockops/older")
int sock_ops_older(struct bpf_sock_ops *ctx) { return on_socket(ctx, OLDER); }

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

// What a program asks of a socket that was taken, the stack must hear as well. The kernel takes the option as
// always, and finds what is wrong with it.
SEC("cgroup/setsockopt")
int setsockopt(struct bpf_sockopt *ctx)
{
	const int *value = ctx->optval;
	const __u8 *byte = ctx->optval;
	struct bpf_sock *sk = ctx->sk;
	int class = (ctx->level == IP_ && ctx->optname == IP_TOS_) || (ctx->level == IPV6_ && ctx->optname == TCLASS_);
	__u32 said = 0;
	if ((void *)(value + 1) <= ctx->optval_end)
		said = *value;
	else if ((void *)(byte + 1) <= ctx->optval_end)
		said = *byte;
	if (sk && (class || (ctx->level == TCP_ && ctx->optname == USER_TIMEOUT_))) {
		const struct connection *known = taken(sk);
		struct event event = { .kind = class ? TRAFFIC_CLASS : USER_TIMEOUT };
		if (known) {
			event.cookie = known->cookie;
			event.traffic_class = event.user_timeout = said;
			tell(&event);
		}
	}
	if (sk) {
		on_option(ctx, sk, said);
		on_buffer(ctx, sk, said);
	}
	ctx->optlen = 0; // What the program has given stays.
	return 1;
}

// A socket at the gate can fail in few ways; whether the true error was told.
INLINE int tell_error(struct bpf_sockopt *ctx)
{
	int *value = ctx->optval;
	struct bpf_sock *sk = ctx->sk;
	const struct connection *known;
	const __u32 *error;
	__u64 cookie;
	if (ctx->level != SOL_SOCKET_ || ctx->optname != SO_ERROR_ || !sk || (void *)(value + 1) > ctx->optval_end)
		return 0;
	known = taken(sk);
	if (!known || !*value)
		return 0;
	cookie = known->cookie;
	error = map_lookup(&errors, &cookie);
	if (!error)
		return 0;
	*value = *error;
	map_delete(&errors, &cookie);
	return 1;
}

// Programs before and after this one may have an answer of their own: zero would take it back. Without it the kernel takes
// no more than a page.
INLINE void leave(struct bpf_sockopt *ctx)
{
	if (ctx->optlen > PAGE_)
		ctx->optlen = 0;
}

SEC("cgroup/getsockopt")
int getsockopt(struct bpf_sockopt *ctx)
{
	if (!tell_error(ctx) && !tell_way(ctx))
		leave(ctx);
	return 1;
}

// For kernels that refuse the one above.
SEC("cgroup/getsockopt/errors")
int getsockopt_errors(struct bpf_sockopt *ctx)
{
	if (!tell_error(ctx))
		leave(ctx);
	return 1;
}
