//! Messages that a program gives in parts (`SCTP_EXPLICIT_EOR`, RFC 6458 section 8.1.26).

use crate::common;

use bytes::Bytes;
use common::{Pair, address, set_raw};
use manypath_engine::{Duration, Reliability};
use manypath_sockets::constants::*;
use manypath_sockets::structures::sctp_sndinfo;
use manypath_sockets::{Errno, Outbound, SendInfo, SocketId, Style};

fn part(pair: &mut Pair, id: SocketId, data: &[u8], flags: i32) -> Result<usize, Errno> {
    let info = sctp_sndinfo { snd_flags: flags as u16, ..Default::default() };
    let info = SendInfo { info, ..SendInfo::default() };
    let message = Outbound { to: Vec::new(), info, data: Bytes::copy_from_slice(data) };
    pair.with(0, |sockets, host| sockets.send(host, id, message))
}

/// Two connected sockets, of which the client's one ends messages itself.
fn explicit(pair: &mut Pair) -> (SocketId, SocketId) {
    let (client, server) = pair.connected();
    set_raw(pair, client, SCTP_EXPLICIT_EOR, &1i32.to_ne_bytes()).unwrap();
    (client, server)
}

/// The next whole message of host 1's socket.
fn message(pair: &mut Pair, id: SocketId) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let got = pair.with(1, |sockets, host| sockets.receive(host, id, 1 << 20, false)).unwrap();
        all.extend_from_slice(&got.data);
        if got.flags & libc::MSG_EOR != 0 {
            return all;
        }
    }
}

#[test]
fn parts_are_one_message_until_its_end_is_given() {
    let mut pair = Pair::new();
    let (client, server) = explicit(&mut pair);
    assert_eq!(part(&mut pair, client, b"one ", 0), Ok(4));
    assert_eq!(part(&mut pair, client, b"two ", 0), Ok(4));
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.next(1, server), Err(Errno::AGAIN));
    assert_eq!(part(&mut pair, client, b"end", SCTP_EOR), Ok(3));
    assert_eq!(part(&mut pair, client, b"alone", SCTP_EOR), Ok(5));
    pair.pass(Duration::from_secs(1));
    assert_eq!(message(&mut pair, server), b"one two end");
    assert_eq!(message(&mut pair, server), b"alone");
}

#[test]
fn without_the_option_each_call_is_a_message_whatever_its_flags_say() {
    let mut pair = Pair::new();
    let (client, server) = pair.connected();
    for flags in [0, SCTP_EOR] {
        assert_eq!(part(&mut pair, client, b"whole", flags), Ok(5));
        pair.pass(Duration::from_secs(1));
        assert_eq!(message(&mut pair, server), b"whole");
    }
    // Switched off again, the next call ends what was begun.
    set_raw(&mut pair, client, SCTP_EXPLICIT_EOR, &1i32.to_ne_bytes()).unwrap();
    part(&mut pair, client, b"begun", 0).unwrap();
    set_raw(&mut pair, client, SCTP_EXPLICIT_EOR, &0i32.to_ne_bytes()).unwrap();
    part(&mut pair, client, b", ended", 0).unwrap();
    pair.pass(Duration::from_secs(1));
    assert_eq!(message(&mut pair, server), b"begun, ended");
}

#[test]
fn a_message_may_be_larger_than_the_send_buffer_and_calls_take_what_there_is_room_for() {
    let mut pair = Pair::new();
    let (client, listener) = pair.sockets(Style::OneToOne);
    let small = 20_000i32.to_ne_bytes();
    let option = (libc::SOL_SOCKET, libc::SO_SNDBUF);
    pair.with(0, |sockets, host| sockets.set_option(host, client, option, &small)).unwrap();
    pair.connect(client, address(1, 1)).unwrap();
    let server = pair.with(1, |sockets, _| sockets.accept(listener)).unwrap();
    let text: Vec<u8> = (0..100_000).map(|at| (at % 251) as u8).collect();
    assert_eq!(part(&mut pair, client, &text, SCTP_EOR), Err(Errno::MESSAGE_SIZE));
    set_raw(&mut pair, client, SCTP_EXPLICIT_EOR, &1i32.to_ne_bytes()).unwrap();
    let (mut taken, mut waits) = (0, 0);
    while taken < text.len() {
        match part(&mut pair, client, &text[taken..], SCTP_EOR) {
            Ok(bytes) => {
                assert!((1..=20_000).contains(&bytes), "{bytes}");
                taken += bytes;
            }
            Err(error) => {
                assert_eq!(error, Errno::AGAIN);
                let ready = pair.with(0, |sockets, host| sockets.readiness(host, client));
                assert!(!ready.writable);
                waits += 1;
                pair.pass(Duration::from_millis(100));
                let ready = pair.with(0, |sockets, host| sockets.readiness(host, client));
                assert!(ready.writable, "it is told when there is room");
            }
        }
    }
    assert!(waits > 0);
    pair.pass(Duration::from_secs(1));
    assert!(message(&mut pair, server) == text);
}

#[test]
fn an_end_of_the_association_before_that_of_a_message_is_an_abort() {
    let mut pair = Pair::new();
    let (client, server) = explicit(&mut pair);
    part(&mut pair, client, b"begun", 0).unwrap();
    pair.pass(Duration::from_secs(1));
    pair.with(0, |sockets, host| sockets.close(host, client)).unwrap();
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.next(1, server), Err(Errno::CONNECTION_RESET));
    // With its end it is delivered before the association ends.
    let mut pair = Pair::new();
    let (client, server) = explicit(&mut pair);
    part(&mut pair, client, b"begun", 0).unwrap();
    assert_eq!(part(&mut pair, client, b", ended", SCTP_EOF), Ok(7));
    pair.pass(Duration::from_secs(1));
    assert_eq!(message(&mut pair, server), b"begun, ended");
    assert_eq!(pair.next(1, server), Ok(String::new()));
}

#[test]
fn a_message_in_parts_is_reliable_and_fragmented() {
    let mut pair = Pair::new();
    let (client, _server) = explicit(&mut pair);
    let info =
        SendInfo { reliability: Some(Reliability::Retransmissions(0)), ..SendInfo::default() };
    let data = Bytes::from_static(b"part");
    let message = Outbound { to: Vec::new(), info, data };
    let refused = pair.with(0, |sockets, host| sockets.send(host, client, message));
    assert_eq!(refused, Err(Errno::INVALID));
    set_raw(&mut pair, client, SCTP_DISABLE_FRAGMENTS, &1i32.to_ne_bytes()).unwrap();
    assert_eq!(part(&mut pair, client, b"part", 0), Err(Errno::MESSAGE_SIZE));
    assert_eq!(part(&mut pair, client, b"whole", SCTP_EOR), Ok(5));
}
