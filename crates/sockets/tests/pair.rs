//! Sockets of two hosts, packets between them by hand.

use crate::common;

use bytes::Bytes;
use common::{PORT, Pair, address, option, set};
use manypath_engine::Duration;
use manypath_sockets::address::storage;
use manypath_sockets::constants::*;
use manypath_sockets::layout::Structure;
use manypath_sockets::structures::{
    sctp_assocparams, sctp_paddrparams, sctp_paddrthlds, sctp_sndinfo, sctp_status,
};
use manypath_sockets::{Errno, Outbound, SendInfo, Style};
use std::net::{SocketAddr, SocketAddrV6};

#[test]
fn a_message_begins_the_association_and_its_news_come_in_order() {
    let mut pair = Pair::new();
    let (client, server) = pair.sockets(Style::OneToMany);
    let kinds = [SCTP_ASSOC_CHANGE, SCTP_SHUTDOWN_EVENT];
    pair.subscribe(1, server, &kinds);
    pair.subscribe(0, client, &[SCTP_SENDER_DRY_EVENT]);
    assert_eq!(pair.send(0, client, &[address(1, 1)], "one"), Ok(3));
    assert_eq!(pair.send(0, client, &[address(1, 1)], "two"), Ok(3));
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.next(0, client), Ok("dry".into()));
    let eof = SendInfo {
        info: sctp_sndinfo { snd_flags: SCTP_EOF as u16, ..Default::default() },
        ..SendInfo::default()
    };
    let end = Outbound { to: vec![address(1, 1)], info: eof, data: Bytes::new() };
    assert_eq!(pair.with(0, |sockets, host| sockets.send(host, client, end)), Ok(0));
    pair.pass(Duration::from_secs(1));
    let all: Vec<_> = std::iter::from_fn(|| pair.next(1, server).ok()).collect();
    assert_eq!(all, ["change to 0", "one", "two", "shutdown", "change to 3"]);
    // What is over and read is gone.
    let count = (libc::IPPROTO_SCTP, SCTP_GET_ASSOC_NUMBER);
    let left = pair.with(1, |sockets, host| sockets.option(host, server, count, &[0; 4]));
    assert_eq!(left, Ok(vec![0; 4]));
}

/// The kernel's SCTP makes a second association of an original that comes when that of a copy is over.
#[test]
fn the_cookie_echo_leaves_over_one_path() {
    const COOKIE_ECHO: u8 = 10;
    let mut pair = Pair::new();
    let (client, _) = pair.sockets(Style::OneToOne);
    pair.with(0, |sockets, host| sockets.connect(host, client, &[address(1, 1)])).unwrap();
    let mut echoes = 0;
    for host in [0, 1, 0, 1] {
        for (to, path, bytes) in pair.drain(host) {
            echoes += usize::from(bytes[12] == COOKIE_ECHO);
            pair.sides[to].endpoint.handle_packet(pair.now, path, &bytes);
        }
    }
    assert_eq!(echoes, 1);
}

#[test]
fn a_message_comes_in_parts_and_stays_when_it_is_only_looked_at() {
    let mut pair = Pair::new();
    let (client, server) = pair.sockets(Style::OneToOne);
    pair.with(0, |sockets, host| sockets.connect(host, client, &[address(1, 1)])).unwrap();
    pair.settle();
    let server = pair.with(1, |sockets, _| sockets.accept(server)).unwrap();
    pair.send(0, client, &[], "abcdef").unwrap();
    pair.settle();
    let mut part = |room, peek| {
        let got = pair.with(1, |sockets, host| sockets.receive(host, server, room, peek)).unwrap();
        (got.data, got.flags)
    };
    assert_eq!(part(4, true), (Bytes::from("abcd"), 0));
    assert_eq!(part(4, false), (Bytes::from("abcd"), 0));
    assert_eq!(part(4, true), (Bytes::from("ef"), libc::MSG_EOR));
    assert_eq!(part(4, false), (Bytes::from("ef"), libc::MSG_EOR));
    assert_eq!(pair.next(1, server), Err(Errno::AGAIN));
}

#[test]
fn the_second_address_begins_an_association_if_the_first_is_not_reached() {
    let mut pair = Pair::new();
    let (client, _) = pair.sockets(Style::OneToOne);
    pair.dead = Some(address(1, 1).ip());
    let all = [address(1, 1), address(2, 1)];
    let number = pair.with(0, |sockets, host| sockets.connect(host, client, &all)).unwrap();
    pair.pass(Duration::from_secs(1));
    let state = pair.with(0, |sockets, _| sockets.connection(client, number));
    assert_eq!(state, Err(Errno::IN_PROGRESS));
    pair.pass(Duration::from_secs(600));
    assert_eq!(pair.with(0, |sockets, _| sockets.connection(client, number)), Ok(()));
    let status = sctp_status::default().encode();
    let option = (libc::IPPROTO_SCTP, SCTP_STATUS);
    let found = pair.with(0, |sockets, host| sockets.option(host, client, option, &status));
    assert_eq!(sctp_status::decode(&found.unwrap()).unwrap().sstat_state, SCTP_ESTABLISHED);
}

#[test]
fn what_waits_for_an_association_goes_to_the_address_at_which_it_comes_about() {
    let mut pair = Pair::new();
    let (client, server) = pair.sockets(Style::OneToMany);
    pair.subscribe(0, client, &[SCTP_SEND_FAILED_EVENT]);
    let start = |pair: &mut Pair, all: &[SocketAddr]| {
        pair.with(0, |sockets, host| sockets.connect(host, client, all)).unwrap();
        assert_eq!(pair.send(0, client, &all[..1], "first"), Ok(5));
        assert_eq!(pair.send(0, client, &all[..1], "second"), Ok(6));
        pair.pass(Duration::from_secs(600));
    };
    pair.dead = Some(address(1, 1).ip());
    start(&mut pair, &[address(1, 1), address(2, 1)]);
    assert_eq!(pair.next(0, client), Err(Errno::AGAIN), "nothing has failed");
    for text in ["first", "second"] {
        assert_eq!(pair.next(1, server), Ok(text.into()));
    }
    assert_eq!(pair.next(1, server), Err(Errno::AGAIN));
    // Where the first address refuses it, the second one is not asked: each comes back once.
    pair.dead = None;
    let closed = |net| SocketAddr::new(address(net, 1).ip(), PORT + 1);
    start(&mut pair, &[closed(1), closed(2)]);
    for _ in 0..2 {
        assert_eq!(pair.next(0, client), Ok(format!("{SCTP_SEND_FAILED_EVENT:#x}")));
    }
    assert_eq!(pair.next(0, client), Err(Errno::AGAIN));
}

#[test]
fn how_paths_are_supervised_changes_for_the_association_that_is_named() {
    let mut pair = Pair::new();
    let (client, _) = pair.sockets(Style::OneToOne);
    pair.connect(client, address(1, 1)).unwrap();
    pair.pass(Duration::from_secs(1));
    let to =
        |address| sctp_paddrparams { spp_address: storage(address, false), ..Default::default() };
    let often = sctp_paddrparams {
        spp_hbinterval: 700,
        spp_pathmaxrxt: 3,
        spp_flags: (SPP_HB_ENABLE as u32).into(),
        ..to(address(2, 1))
    };
    assert_eq!(set(&mut pair, client, SCTP_PEER_ADDR_PARAMS, &often), Ok(()));
    let found = option(&mut pair, client, SCTP_PEER_ADDR_PARAMS, &to(address(2, 1))).unwrap();
    assert_eq!((found.spp_hbinterval, found.spp_pathmaxrxt), (700, 3));
    let other = option(&mut pair, client, SCTP_PEER_ADDR_PARAMS, &to(address(1, 1))).unwrap();
    assert_eq!((other.spp_hbinterval, other.spp_pathmaxrxt), (30_000, 5));
    let off = (SPP_HB_DISABLE as u32).into();
    let off = sctp_paddrparams { spp_flags: off, ..Default::default() };
    assert_eq!(set(&mut pair, client, SCTP_PEER_ADDR_PARAMS, &off), Ok(()));
    let found = option(&mut pair, client, SCTP_PEER_ADDR_PARAMS, &to(address(2, 1))).unwrap();
    assert_ne!(found.spp_flags.get() & SPP_HB_DISABLE as u32, 0);
    let stranger = to(SocketAddr::from(([203, 0, 113, 9], PORT)));
    assert_eq!(set(&mut pair, client, SCTP_PEER_ADDR_PARAMS, &stranger), Err(Errno::INVALID));
}

#[test]
fn limits_of_failures_change_for_the_association_that_is_named() {
    let mut pair = Pair::new();
    let (client, _) = pair.sockets(Style::OneToOne);
    pair.connect(client, address(1, 1)).unwrap();
    pair.pass(Duration::from_secs(1));
    let limits = sctp_paddrthlds { spt_pathmaxrxt: 1, spt_pathpfthld: 1, ..Default::default() };
    assert_eq!(set(&mut pair, client, SCTP_PEER_ADDR_THLDS, &limits), Ok(()));
    let found =
        option(&mut pair, client, SCTP_PEER_ADDR_THLDS, &sctp_paddrthlds::default()).unwrap();
    assert_eq!(found, limits);
    let limit = sctp_assocparams { sasoc_asocmaxrxt: 1, ..Default::default() };
    assert_eq!(set(&mut pair, client, SCTP_ASSOCINFO, &limit), Ok(()));
    let found = option(&mut pair, client, SCTP_ASSOCINFO, &sctp_assocparams::default()).unwrap();
    assert_eq!(found.sasoc_asocmaxrxt, 1);
}

#[test]
fn more_associations_than_the_backlog_are_refused() {
    let mut pair = Pair::new();
    let (first, server) = pair.sockets(Style::OneToOne);
    let others = [0; 4].map(|_| pair.with(0, |sockets, _| sockets.open(Style::OneToOne, false)));
    for client in std::iter::once(first).chain(others) {
        pair.with(0, |sockets, host| sockets.connect(host, client, &[address(1, 1)])).unwrap();
        pair.settle();
    }
    let accepted = std::iter::from_fn(|| pair.with(1, |sockets, _| sockets.accept(server)).ok());
    // As with Linux: one more than was said.
    assert_eq!(accepted.count(), 3);
}

#[test]
fn an_end_that_is_no_end_is_told_as_an_error_once() {
    let mut pair = Pair::new();
    let (client, server) = pair.sockets(Style::OneToOne);
    let connect =
        |pair: &mut Pair, to| pair.with(0, |sockets, host| sockets.connect(host, client, &[to]));
    let nobody = SocketAddr::new(address(1, 1).ip(), 1);
    let number = connect(&mut pair, nobody).unwrap();
    pair.settle();
    let refused = pair.with(0, |sockets, _| sockets.connection(client, number));
    assert_eq!(refused, Err(Errno::CONNECTION_REFUSED));
    connect(&mut pair, address(1, 1)).unwrap();
    pair.settle();
    let server = pair.with(1, |sockets, _| sockets.accept(server)).unwrap();
    let linger = [1i32, 0].map(i32::to_ne_bytes).concat();
    pair.with(1, |sockets, host| {
        let option = (libc::SOL_SOCKET, libc::SO_LINGER);
        sockets.set_option(host, server, option, &linger).unwrap();
        sockets.close(host, server).unwrap();
    });
    pair.settle();
    assert_eq!(pair.next(0, client), Err(Errno::CONNECTION_RESET));
    assert_eq!(pair.next(0, client), Ok(String::new()));
    assert_eq!(pair.send(0, client, &[], "late"), Err(Errno::PIPE));
}

#[test]
fn messages_that_cannot_be_sent_are_refused_with_the_right_error() {
    let mut pair = Pair::new();
    let (client, _) = pair.sockets(Style::OneToOne);
    assert_eq!(pair.send(0, client, &[], "early"), Err(Errno::NOT_CONNECTED));
    pair.with(0, |sockets, host| sockets.connect(host, client, &[address(1, 1)])).unwrap();
    pair.settle();
    assert_eq!(pair.send(0, client, &[], ""), Err(Errno::INVALID));
    assert_eq!(pair.send(0, client, &[], &"x".repeat(2 << 20)), Err(Errno::MESSAGE_SIZE));
    let again = pair.with(0, |sockets, host| sockets.connect(host, client, &[address(1, 1)]));
    assert_eq!(again, Err(Errno::IS_CONNECTED));
    let short = pair.with(0, |sockets, host| {
        sockets.set_option(host, client, (libc::IPPROTO_SCTP, SCTP_RTOINFO), &[0; 8])
    });
    assert_eq!(short, Err(Errno::INVALID));
    let foreign = pair
        .with(0, |sockets, host| sockets.set_option(host, client, (libc::IPPROTO_TCP, 1), &[0; 4]));
    assert_eq!(foreign, Err(Errno::NO_PROTOCOL_OPTION));
}

#[test]
fn a_socket_is_reached_and_known_only_at_the_addresses_that_it_is_bound_to() {
    let mut pair = Pair::new();
    pair.listen_at(1, address(1, 1)).unwrap();
    let client = pair.with(0, |sockets, _| sockets.open(Style::OneToOne, false));
    assert_eq!(pair.connect(client, address(2, 1)), Err(Errno::CONNECTION_REFUSED));
    pair.connect(client, address(1, 1)).unwrap();
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.peer_addresses(client), [address(1, 1)]);
    let own = pair.with(0, |sockets, host| sockets.local_addresses(host, client, 0)).unwrap();
    // Two ways to one address, as RFC 9260 allows: this socket was not bound.
    assert_eq!(own.len(), 2);
}

#[test]
fn packets_leave_only_from_addresses_that_the_socket_is_bound_to() {
    let mut pair = Pair::new();
    let (client, _) = pair.sockets(Style::OneToOne);
    let at = SocketAddr::new(address(2, 0).ip(), 0);
    pair.with(0, |sockets, _| sockets.bind(client, at)).unwrap();
    pair.dead = Some(address(1, 0).ip());
    pair.connect(client, address(2, 1)).unwrap();
    pair.pass(Duration::from_secs(1));
    let own = pair.with(0, |sockets, host| sockets.local_addresses(host, client, 0)).unwrap();
    let ips: std::collections::BTreeSet<_> = own.iter().map(SocketAddr::ip).collect();
    assert_eq!(ips, [at.ip()].into());
}

#[test]
fn a_port_can_be_had_once_at_each_address() {
    let mut pair = Pair::new();
    let (first, second) = (address(1, 1), address(2, 1));
    let servers = [first, second].map(|at| pair.listen_at(1, at).unwrap());
    assert_eq!(pair.listen_at(1, first), Err(Errno::ADDRESS_IN_USE));
    let any = SocketAddr::from(([0; 4], PORT));
    assert_eq!(pair.listen_at(1, any), Err(Errno::ADDRESS_IN_USE));
    let client = pair.with(0, |sockets, _| sockets.open(Style::OneToOne, false));
    pair.connect(client, second).unwrap();
    let count = (libc::IPPROTO_SCTP, SCTP_GET_ASSOC_NUMBER);
    let counts = servers.map(|id| {
        pair.with(1, |sockets, host| sockets.option(host, id, count, &[0; 4])).unwrap()[0]
    });
    assert_eq!(counts, [0, 1]);
}

#[test]
fn a_port_is_free_for_a_new_listener_while_accepted_sockets_have_it_if_both_reuse_it() {
    let mut pair = Pair::new();
    let reuse = |pair: &mut Pair, id| {
        let option = (libc::SOL_SOCKET, libc::SO_REUSEADDR);
        let on = 1i32.to_ne_bytes();
        pair.with(1, |sockets, host| sockets.set_option(host, id, option, &on)).unwrap();
    };
    let (client, listener) = pair.sockets(Style::OneToOne);
    reuse(&mut pair, listener);
    pair.connect(client, address(1, 1)).unwrap();
    pair.with(1, |sockets, host| {
        sockets.accept(listener).unwrap();
        sockets.close(host, listener).unwrap();
    });
    let new = pair.with(1, |sockets, _| sockets.open(Style::OneToOne, false));
    let at = SocketAddr::from(([0; 4], PORT));
    let bind = |pair: &mut Pair| pair.with(1, |sockets, _| sockets.bind(new, at));
    assert_eq!(bind(&mut pair), Err(Errno::ADDRESS_IN_USE));
    reuse(&mut pair, new);
    assert_eq!(bind(&mut pair), Ok(()));
}

/// Sockets bound to one port with an option on each; the second one's answer to bind, and then to listen beside the first.
fn bound_twice(style: Style, option: (i32, i32)) -> [Result<(), Errno>; 2] {
    let mut pair = Pair::new();
    let at = SocketAddr::from(([0; 4], 77));
    let [first, second] = [0, 1].map(|_| pair.with(1, |sockets, _| sockets.open(style, false)));
    let bind = |pair: &mut Pair, id| {
        pair.with(1, |sockets, host| {
            sockets.set_option(host, id, option, &1i32.to_ne_bytes())?;
            sockets.bind(id, at)
        })
    };
    bind(&mut pair, first).unwrap_or_default();
    let bound = bind(&mut pair, second);
    let mut listen = |id| pair.with(1, |sockets, host| sockets.listen(host, id, 5));
    listen(first).unwrap();
    [bound, listen(second)]
}

#[test]
fn sockets_that_reuse_a_port_share_it_but_one_of_them_listens() {
    let reuse = (libc::IPPROTO_SCTP, SCTP_REUSE_PORT);
    assert_eq!(bound_twice(Style::OneToOne, reuse), [Ok(()), Err(Errno::ADDRESS_IN_USE)]);
    assert_eq!(bound_twice(Style::OneToMany, reuse)[0], Err(Errno::NOT_SUPPORTED));
    let idle = (libc::SOL_SOCKET, libc::SO_REUSEADDR);
    assert_eq!(bound_twice(Style::OneToOne, idle), [Ok(()), Err(Errno::ADDRESS_IN_USE)]);
}

#[test]
fn a_bound_socket_is_not_told_to_reuse_its_port() {
    let mut pair = Pair::new();
    let listener = pair.listen_at(1, address(1, 1)).unwrap();
    let option = (libc::IPPROTO_SCTP, SCTP_REUSE_PORT);
    let told = pair.with(1, |sockets, host| sockets.set_option(host, listener, option, &[1; 4]));
    assert!(told == Err(Errno::FAULT) || told == Err(Errno::NOT_SUPPORTED), "{told:?}");
    let found = pair.with(1, |sockets, host| sockets.option(host, listener, option, &[0; 4]));
    assert_eq!(found, Ok(vec![0; 4]));
}

#[test]
fn an_ipv6_socket_takes_ipv4_addresses_unless_it_was_told_not_to() {
    let mut pair = Pair::new();
    pair.listen_at(1, address(1, 1)).unwrap();
    let open = |pair: &mut Pair| pair.with(0, |sockets, _| sockets.open(Style::OneToOne, true));
    let (both, only) = (open(&mut pair), open(&mut pair));
    let option = (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);
    let on = 1i32.to_ne_bytes();
    pair.with(0, |sockets, host| sockets.set_option(host, only, option, &on)).unwrap();
    pair.connect(both, address(1, 1)).unwrap();
    assert_eq!(pair.connect(only, address(1, 1)), Err(Errno::NETWORK_UNREACHABLE));
    let told = pair.with(0, |sockets, host| sockets.option(host, only, option, &on));
    assert_eq!(told, Ok(on.to_vec()));
}

#[test]
fn what_happens_to_one_association_is_no_work_for_the_others() {
    let mut pair = Pair::new();
    let (_, server) = pair.sockets(Style::OneToMany);
    let clients = [0; 50].map(|_| pair.with(0, |sockets, _| sockets.open(Style::OneToMany, false)));
    for client in clients {
        pair.subscribe(0, client, &[SCTP_SENDER_DRY_EVENT]);
        pair.send(0, client, &[address(1, 1)], "hello").unwrap();
        pair.settle();
        assert_eq!(pair.next(0, client), Ok("dry".into()));
    }
    while pair.next(1, server).is_ok() {}
    let take = |pair: &mut Pair| pair.with(0, |sockets, _| sockets.take_changed());
    take(&mut pair);
    pair.send(0, clients[7], &[address(1, 1)], "again").unwrap();
    pair.settle();
    // None but this one is looked at: it is not asked for what the network has brought.
    assert_eq!(take(&mut pair), [(clients[7], true)].into());
    assert_eq!(pair.next(0, clients[7]), Ok("dry".into()));
}

#[test]
fn an_association_over_which_nothing_is_said_ends_where_that_is_wanted() {
    let mut pair = Pair::new();
    let (client, server) = pair.sockets(Style::OneToMany);
    let option = (libc::IPPROTO_SCTP, SCTP_AUTOCLOSE);
    let seconds = 10i32.to_ne_bytes();
    pair.with(1, |sockets, host| sockets.set_option(host, server, option, &seconds)).unwrap();
    let told = pair.with(1, |sockets, host| sockets.option(host, server, option, &[0; 4]));
    assert_eq!(told, Ok(seconds.to_vec()));
    pair.subscribe(1, server, &[SCTP_ASSOC_CHANGE]);
    for text in ["one", "two"] {
        pair.send(0, client, &[address(1, 1)], text).unwrap();
        pair.pass(Duration::from_secs(8));
    }
    // Less than ten seconds have passed since the second.
    let heard =
        |pair: &mut Pair| -> Vec<_> { std::iter::from_fn(|| pair.next(1, server).ok()).collect() };
    assert_eq!(heard(&mut pair), ["change to 0", "one", "two"]);
    pair.pass(Duration::from_secs(3));
    assert_eq!(heard(&mut pair), ["change to 3"]);
    let single = pair.with(1, |sockets, _| sockets.open(Style::OneToOne, false));
    let refused = pair.with(1, |sockets, host| sockets.set_option(host, single, option, &seconds));
    assert_eq!(refused, Err(Errno::NOT_SUPPORTED));
}

/// RFC 6458 section 6.1.8: the peer does not authenticate chunks, or we do not.
#[test]
fn who_is_told_of_keys_is_told_that_there_are_none() {
    let mut pair = Pair::new();
    let (client, server) = pair.sockets(Style::OneToMany);
    pair.subscribe(1, server, &[SCTP_ASSOC_CHANGE, SCTP_AUTHENTICATION_EVENT]);
    pair.send(0, client, &[address(1, 1)], "one").unwrap();
    pair.pass(Duration::from_secs(1));
    let all: Vec<_> = std::iter::from_fn(|| pair.next(1, server).ok()).collect();
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!((&*all[0], &*all[2]), ("change to 0", "one"), "{all:?}");
}

/// RFC 6458 section 8.1.6: SO_RCVBUF controls the window. An unread message fills it, even if `poll` has asked for one.
#[test]
fn a_message_fills_the_window_until_it_is_read() {
    let mut pair = Pair::new();
    let client = pair.with(0, |sockets, _| sockets.open(Style::OneToOne, false));
    let server = pair.connected_with_small_window(client);
    pair.send(0, client, &[], &"x".repeat(2900)).unwrap();
    pair.pass(Duration::from_secs(1));
    let window = |pair: &mut Pair| {
        assert!(pair.with(1, |sockets, host| sockets.readiness(host, server)).readable);
        pair.pass(Duration::from_secs(1));
        self::option(pair, client, SCTP_STATUS, &sctp_status::default()).unwrap().sstat_rwnd
    };
    assert_eq!(window(&mut pair), 0);
    pair.next(1, server).unwrap();
    // Nothing is sent that the peer would acknowledge: it is the read that announces the window.
    assert!(window(&mut pair) > 2800);
}

/// The engine has memory for a number of messages, which those of sockets that are gone must not fill.
#[test]
fn a_closed_socket_leaves_nothing_unread_in_the_engine() {
    let mut pair = Pair::new();
    let (client, server) = pair.connected();
    let engine = pair.with(1, |_, host| host.endpoint.associations())[0];
    pair.send(0, client, &[], "one").unwrap();
    pair.send(0, client, &[], "two").unwrap();
    pair.with(0, |sockets, host| sockets.close(host, client)).unwrap();
    pair.pass(Duration::from_secs(1));
    let unread = |pair: &mut Pair| pair.with(1, |_, host| host.endpoint.is_readable(engine));
    assert!(unread(&mut pair), "it can be read after the end");
    assert_eq!(pair.next(1, server), Ok("one".into()));
    pair.with(1, |sockets, host| sockets.close(host, server)).unwrap();
    assert!(!unread(&mut pair));
}

/// As with Linux: who is told of an association gets its first message next, and others have their turn then.
#[test]
fn a_message_comes_next_to_the_news_before_it() {
    let mut pair = Pair::new();
    let (first, server) = pair.sockets(Style::OneToMany);
    let second = pair.with(0, |sockets, _| sockets.open(Style::OneToMany, false));
    pair.subscribe(1, server, &[SCTP_ASSOC_CHANGE]);
    for client in [first, second] {
        for text in ["one", "two"] {
            pair.send(0, client, &[address(1, 1)], text).unwrap();
        }
    }
    pair.pass(Duration::from_secs(1));
    let all: Vec<_> = std::iter::from_fn(|| pair.next(1, server).ok()).collect();
    assert_eq!(all, ["change to 0", "one", "change to 0", "one", "two", "two"]);
}

/// RFC 6458 section 6.1.10: notifications may be dropped where there is no room for them.
#[test]
fn notifications_that_nobody_reads_do_not_fill_the_memory() {
    let mut pair = Pair::new();
    let (client, server) = pair.connected();
    pair.subscribe(0, client, &[SCTP_SENDER_DRY_EVENT]);
    for _ in 0..1100 {
        pair.send(0, client, &[], "x").unwrap();
        pair.pass(Duration::from_millis(300));
        assert_eq!(pair.next(1, server), Ok("x".into()));
    }
    let told = std::iter::from_fn(|| pair.next(0, client).ok()).count();
    assert_eq!(told, 1000);
}

/// RFC 6458 section 6.1.4.
#[test]
fn a_message_to_a_peer_that_refuses_the_association_comes_back() {
    let mut pair = Pair::new();
    let client = pair.with(0, |sockets, _| sockets.open(Style::OneToMany, false));
    pair.subscribe(0, client, &[SCTP_ASSOC_CHANGE, SCTP_SEND_FAILED]);
    pair.send(0, client, &[address(1, 1)], "lost").unwrap();
    pair.settle();
    let refused = format!("change to {SCTP_CANT_STR_ASSOC}");
    assert_eq!(pair.next(0, client), Ok(format!("{SCTP_SEND_FAILED:#x}")));
    assert_eq!(pair.next(0, client), Ok(refused));
}

#[test]
fn undelivered_messages_come_before_the_end_and_only_to_a_program_that_wants_them() {
    let (failed, lost) = (format!("{SCTP_SEND_FAILED:#x}"), format!("change to {SCTP_COMM_LOST}"));
    for (kinds, told) in [
        (vec![SCTP_ASSOC_CHANGE, SCTP_SEND_FAILED], vec![failed, lost.clone()]),
        (vec![SCTP_ASSOC_CHANGE], vec![lost]),
    ] {
        let mut pair = Pair::new();
        let (client, _) = pair.sockets(Style::OneToMany);
        pair.connect(client, address(1, 1)).unwrap();
        pair.subscribe(0, client, &kinds);
        pair.send(0, client, &[address(1, 1)], "lost").unwrap();
        let info = sctp_sndinfo { snd_flags: SCTP_ABORT as u16, ..Default::default() };
        let info = SendInfo { info, ..SendInfo::default() };
        let end = Outbound { to: vec![address(1, 1)], info, data: Bytes::new() };
        pair.with(0, |sockets, host| sockets.send(host, client, end)).unwrap();
        pair.settle();
        let all: Vec<_> = std::iter::from_fn(|| pair.next(0, client).ok()).collect();
        assert_eq!(all, told);
    }
}

#[test]
fn a_link_local_address_takes_its_scope() {
    let at = |scope| {
        let ip = "fe80::1".parse().unwrap();
        SocketAddr::from(SocketAddrV6::new(ip, PORT, 0, scope))
    };
    Pair::new().with(0, |sockets, host| {
        sockets.on_address_added(host, at(7));
        let id = sockets.open(Style::OneToOne, true);
        for wrong in [0, 8] {
            assert_eq!(sockets.bind(id, at(wrong)), Err(Errno::ADDRESS_NOT_AVAILABLE));
        }
        assert_eq!(sockets.bind(id, at(7)), Ok(()));
        assert_eq!(sockets.local_name(host, id), Ok(at(7)));
        assert_eq!(sockets.local_addresses(host, id, 0), Ok(vec![at(7)]));
        assert_eq!(sockets.connect(host, id, &[at(0)]), Err(Errno::INVALID));
        sockets.on_address_removed(host, at(7).ip());
        let later = sockets.open(Style::OneToOne, true);
        assert_eq!(sockets.bind(later, at(7)), Err(Errno::ADDRESS_NOT_AVAILABLE));
    });
}
