//! The behavior of Linux where RFC 6458 leaves it open or specifies another.

use crate::common;

use bytes::Bytes;
use common::{Pair, address, set_raw};
use manypath_engine::{Duration, Reliability};
use manypath_sockets::constants::*;
use manypath_sockets::layout::Structure;
use manypath_sockets::structures::{sctp_assoc_change, sctp_send_failed, sctp_sndinfo};
use manypath_sockets::{Errno, Outbound, SendInfo, SocketId, Style};
use std::net::SocketAddr;

#[test]
fn who_has_shut_an_association_down_is_not_connected_when_it_is_over() {
    for (mut pair, own) in
        [(Pair::new(), Ok(String::new())), (Pair::following_linux(), Err(Errno::NOT_CONNECTED))]
    {
        let (client, server) = pair.connected();
        pair.send(1, server, &[], "last").unwrap();
        pair.with(0, |sockets, host| sockets.shut_down(host, client, (false, true))).unwrap();
        pair.pass(Duration::from_secs(1));
        assert_eq!(pair.next(1, server), Ok(String::new()), "the peer gets an end");
        assert_eq!(pair.next(0, client), Ok("last".into()));
        assert_eq!(pair.next(0, client), own);
    }
}

#[test]
fn a_socket_without_associations_waits_for_some_only_if_it_listens() {
    let mut pair = Pair::following_linux();
    let (client, server) = pair.sockets(Style::OneToMany);
    let vain = |pair: &mut Pair| {
        [(0, client), (1, server)]
            .map(|(host, id)| pair.with(host, |sockets, _| sockets.waits_in_vain(id)))
    };
    assert_eq!(vain(&mut pair), [true, false]);
    pair.send(0, client, &[address(1, 1)], "one").unwrap();
    assert_eq!(vain(&mut pair), [false, false]);
    assert!(!pair_of_rfc_waits_in_vain());
}

fn pair_of_rfc_waits_in_vain() -> bool {
    let mut pair = Pair::new();
    let (client, _) = pair.sockets(Style::OneToMany);
    pair.with(0, |sockets, _| sockets.waits_in_vain(client))
}

fn send(
    pair: &mut Pair,
    id: SocketId,
    flags: i32,
    (reliability, data): (Option<Reliability>, Vec<u8>),
) -> Result<usize, Errno> {
    let info = sctp_sndinfo { snd_flags: flags as u16, ..Default::default() };
    let info = SendInfo { info, reliability, ..SendInfo::default() };
    let message = Outbound { to: vec![address(1, 1)], info, data: data.into() };
    pair.with(0, |sockets, host| sockets.send(host, id, message))
}

#[test]
fn flags_that_end_an_association_are_for_one_to_many_sockets() {
    for (style, flags, result) in [
        (Style::OneToOne, SCTP_EOF, Err(Errno::INVALID)),
        (Style::OneToOne, SCTP_ABORT, Err(Errno::INVALID)),
        (Style::OneToMany, SCTP_EOF, Ok(0)),
        (Style::OneToMany, SCTP_ABORT, Ok(0)),
    ] {
        let mut pair = Pair::following_linux();
        let (client, _) = pair.sockets(style);
        pair.connect(client, address(1, 1)).unwrap();
        assert_eq!(send(&mut pair, client, flags, (None, Vec::new())), result, "{style:?} {flags}");
    }
}

/// The peer reads nothing, and its window is full.
#[test]
fn a_message_that_was_given_up_comes_back_in_its_fragments() {
    let mut pair = Pair::following_linux();
    let client = pair.with(0, |sockets, _| sockets.open(Style::OneToOne, false));
    set_raw(&mut pair, client, SCTP_MAXSEG, &500i32.to_ne_bytes()).unwrap();
    pair.subscribe(0, client, &[SCTP_SEND_FAILED]);
    pair.connected_with_small_window(client);
    let text: Vec<u8> = (0..1200).map(|at| (at % 251) as u8).collect();
    send(&mut pair, client, 0, (None, vec![0; 3100])).unwrap();
    let briefly = Some(Reliability::Lifetime(Duration::from_secs(2)));
    send(&mut pair, client, 0, (briefly, text.clone())).unwrap();
    pair.pass(Duration::from_secs(3));
    let mut next = || {
        let got = pair.with(0, |sockets, host| sockets.receive(host, client, 4096, false))?;
        let head = sctp_send_failed::DESCRIPTION.size;
        let told = sctp_send_failed::decode(&got.data).unwrap();
        Ok::<_, Errno>((told.ssf_info.sinfo_flags, Bytes::copy_from_slice(&got.data[head..])))
    };
    for (place, range) in [(2, 0..500), (0, 500..1000), (1, 1000..1200)] {
        assert_eq!(next(), Ok((place, Bytes::copy_from_slice(&text[range]))));
    }
    assert_eq!(next(), Err(Errno::AGAIN));
}

/// RFC 6458 section 6.1.1 has the complete chunk, Linux what follows its header.
#[test]
fn the_abort_of_a_peer_comes_with_the_news_of_it() {
    let cause = [&[0, 12, 0, 7][..], b"why"].concat();
    let chunk = [&[6, 0, 0, 11][..], &cause].concat();
    for (mut pair, told) in [(Pair::new(), chunk), (Pair::following_linux(), cause)] {
        let (client, server) = pair.sockets(Style::OneToMany);
        pair.connect(client, address(1, 1)).unwrap();
        pair.subscribe(1, server, &[SCTP_ASSOC_CHANGE]);
        assert_eq!(send(&mut pair, client, SCTP_ABORT, (None, b"why".to_vec())), Ok(3));
        pair.settle();
        let got = pair.with(1, |sockets, host| sockets.receive(host, server, 4096, false)).unwrap();
        let head = sctp_assoc_change::DESCRIPTION.size;
        assert_eq!(sctp_assoc_change::decode(&got.data).unwrap().sac_state, SCTP_COMM_LOST as u16);
        assert_eq!(got.data[head..], told);
    }
}

#[test]
fn a_connected_socket_sends_to_no_other_peer() {
    let refused = Err(Errno::ADDRESS_NOT_AVAILABLE);
    for (mut pair, result) in [(Pair::new(), Ok(5)), (Pair::following_linux(), refused)] {
        let (client, server) = pair.connected();
        for (host, socket) in [(0, client), (1, server)] {
            let known = pair.with(host, |sockets, host| sockets.peer_addresses(host, socket, 0));
            let known = known.unwrap();
            assert_eq!(known.len(), 2, "{known:?}");
            for to in &known {
                assert_eq!(pair.send(host, socket, &[*to], "known"), Ok(5), "{to}");
            }
            let other = SocketAddr::new(address(3, 1 - host).ip(), known[0].port());
            assert_eq!(pair.send(host, socket, &[other], "other"), result);
        }
    }
}

#[test]
fn a_socket_that_was_peeled_off_sends_to_its_peer_whatever_the_address() {
    let mut pair = Pair::following_linux();
    let (client, _server) = pair.sockets(Style::OneToMany);
    let number = pair.with(0, |sockets, host| sockets.connect(host, client, &[address(1, 1)]));
    pair.settle();
    let peeled = pair.with(0, |sockets, _| sockets.peel_off(client, number.unwrap())).unwrap();
    assert_eq!(pair.send(0, peeled, &[address(3, 1)], "other"), Ok(5));
}
