//! The gate, over this host's own loopback.

use super::{FULL, GateId, Gates, MAX_GATES};
use crate::socket::{self, connect, local, ready, take_error};
use crate::test_forks::no_forks;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const ALL: i16 = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;

/// A host may have no IPv6.
fn families() -> Vec<bool> {
    let v6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    if v6 { vec![false, true] } else { vec![false] }
}

fn waiting(gates: &mut Gates, v6: bool) -> (Socket, GateId, SocketAddr) {
    let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::STREAM, None).expect("socket");
    let gate = gates.enter(v6, false, |to| connect(socket.as_fd(), to, v6)).expect("gate");
    let own = local(socket.as_fd()).expect("address");
    (socket, gate, own)
}

/// Waits until the socket has any of the events, for a while; loopback needs microseconds.
fn events(socket: &Socket) -> i16 {
    let begun = Instant::now();
    while ready(socket.as_fd(), ALL) == 0 && begun.elapsed() < Duration::from_secs(5) {
        std::thread::yield_now();
    }
    ready(socket.as_fd(), ALL)
}

#[test]
fn a_waiting_socket_shows_nothing_and_then_is_connected() {
    let _no_forks = no_forks();
    for v6 in families() {
        let mut gates = Gates::default();
        let (socket, gate, own) = waiting(&mut gates, v6);
        assert_eq!(ready(socket.as_fd(), ALL), 0);
        assert!(!socket.nonblocking().expect("flags"), "the mode is the program's again");
        let far = gates.open(gate, own).expect("far end");
        assert_eq!(events(&socket), libc::POLLOUT);
        assert_eq!(take_error(far.as_fd()), 0);
        far.set_nonblocking(false).expect("blocking");
        let (mut near, mut far) = (TcpStream::from(socket), TcpStream::from(far));
        near.write_all(b"there").expect("written");
        far.write_all(b"back").expect("written");
        drop(near.shutdown(std::net::Shutdown::Write));
        let mut text = String::new();
        far.read_to_string(&mut text).expect("read");
        assert_eq!(text, "there");
        let mut back = [0; 4];
        near.read_exact(&mut back).expect("read");
        assert_eq!(&back, b"back");
    }
}

#[test]
fn a_far_end_that_was_prepared_is_used_once() {
    let _no_forks = no_forks();
    for v6 in families() {
        let mut gates = Gates::default();
        gates.prepare(v6).expect("prepared");
        gates.prepare(v6).expect("nothing to do");
        let spare = gates.family(v6)[0].spare.as_ref().map(|spare| socket::cookie(spare.as_fd()));
        for was_prepared in [true, false] {
            let (socket, gate, own) = waiting(&mut gates, v6);
            let far = gates.open(gate, own).expect("far end");
            assert_eq!(events(&socket), libc::POLLOUT);
            assert!(
                far.linger().is_ok_and(|time| time.is_some())
                    && gates.family(v6)[0].spare.is_none()
            );
            let is_spare = spare.as_ref().and_then(|it| it.as_ref().ok()).copied()
                == socket::cookie(far.as_fd()).ok();
            assert_eq!(is_spare, was_prepared);
        }
    }
}

#[test]
fn a_reset_socket_never_looks_connected() {
    let _no_forks = no_forks();
    let failed = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP | libc::POLLERR | libc::POLLHUP;
    for v6 in families() {
        let mut gates = Gates::default();
        for _ in 0..50 {
            let (socket, gate, own) = waiting(&mut gates, v6);
            gates.reset(gate, own).expect("reset");
            assert_eq!(events(&socket), failed);
            assert_eq!(take_error(socket.as_fd()), libc::ECONNRESET);
            gates.leave(gate);
        }
    }
}

#[test]
fn a_dropped_far_end_is_a_reset() {
    let _no_forks = no_forks();
    let mut gates = Gates::default();
    let (socket, gate, own) = waiting(&mut gates, false);
    let far = gates.open(gate, own).expect("far end");
    assert_eq!(events(&socket), libc::POLLOUT);
    drop(far);
    let begun = Instant::now();
    while take_error(socket.as_fd()) != libc::ECONNRESET {
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn a_socket_that_has_gone_refuses_its_far_end() {
    let _no_forks = no_forks();
    let mut gates = Gates::default();
    let (socket, gate, own) = waiting(&mut gates, false);
    drop(socket);
    let error = match gates.open(gate, own) {
        Ok(far) => {
            assert_ne!(events(&far) & libc::POLLERR, 0);
            take_error(far.as_fd())
        }
        Err(e) => e.raw_os_error().expect("number"),
    };
    assert_eq!(error, libc::ECONNREFUSED);
}

#[test]
fn strangers_are_not_let_in() {
    let _no_forks = no_forks();
    let mut gates = Gates::default();
    let (_socket, gate, _) = waiting(&mut gates, false);
    let port = gates.v4[gate.index].address;
    let stranger = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
    let outcome = stranger.connect_timeout(&port.into(), Duration::from_millis(100));
    assert!(outcome.is_err());
}

#[test]
fn one_port_goes_through_several_gates() {
    let _no_forks = no_forks();
    let mut gates = Gates::default();
    let bound = |port: u16| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        socket.set_reuse_address(true).expect("option");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into()).expect("bound");
        socket
    };
    let first = bound(0);
    gates.enter(false, false, |to| connect(first.as_fd(), to, false)).expect("gate");
    let second = bound(local(first.as_fd()).expect("address").port());
    let again = gates.enter(false, false, |to| connect(second.as_fd(), to, false));
    let error = again.expect_err("these ports are taken").raw_os_error();
    assert_eq!(error, Some(libc::EADDRNOTAVAIL));
    gates.enter(false, true, |to| connect(second.as_fd(), to, false)).expect("another gate");
    assert_eq!(gates.v4.len(), 2);
}

#[test]
fn a_full_gate_gets_a_neighbour_until_there_are_too_many() {
    let _no_forks = no_forks();
    let mut gates = Gates::default();
    for wanted in 1..=MAX_GATES {
        let gate = gates.enter(false, false, |_| Ok(())).expect("gate");
        assert_eq!((gate.index, gates.v4.len()), (wanted - 1, wanted));
        gates.v4[gate.index].users = FULL;
    }
    let gate = gates.enter(false, false, |_| Ok(())).expect("an even load on all");
    assert_eq!(gates.v4[gate.index].users, FULL + 1);
    assert!(gates.enter(false, true, |_| Ok(())).is_err(), "no more gates");
    gates.leave(gate);
    assert_eq!(gates.v4[gate.index].users, FULL);
}
