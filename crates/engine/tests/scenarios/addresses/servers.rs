//! A behind NATs is called by Z, which knows one of the addresses that the NATs give A. What A lists in its INIT ACK
//! means nothing to Z.

use super::{ip, local, willing};
use crate::craft::packet;
use crate::pair::{PORT_A, Pair, Side, address, endpoint, millis};
use manypath_engine::{AssociationId, Config, PathAddr, PathState, PathStatus};
use manypath_wire::cause::Causes;
use manypath_wire::chunk::{Abort, Chunk, ShutdownComplete};
use std::net::{IpAddr, SocketAddr};

const ONE: (u8, &str) = (1, "192.0.2.1:9899");
const TWO: (u8, &str) = (2, "192.0.2.2:9899");
const THREE: (u8, &str) = (3, "192.0.2.3:9899");
/// Longer than any address is tried in vain that nobody has answered at.
const PATIENCE: u64 = 120_000;

struct Call {
    pair: Pair,
    a: AssociationId,
    z: AssociationId,
}

/// Z calls A at ONE.
fn call(of_a: u8, of_z: u8, nat: &[(u8, &str)]) -> Call {
    let called = Config { accept: true, ..willing(Side::A) };
    let mut pair = Pair::with(3, called.clone(), willing(Side::Z));
    pair.a.endpoint = endpoint(Side::A, of_a, called, 1);
    pair.z.endpoint = endpoint(Side::Z, of_z, willing(Side::Z), 2);
    let outside = |(path, text): &(u8, &str)| (address(Side::A, *path), text.parse().unwrap());
    pair.nat = nat.iter().map(outside).collect();
    pair.record = true;
    let z = pair.z.endpoint.connect(pair.now, ONE.1.parse().unwrap(), PORT_A).unwrap();
    pair.drive(millis(4000));
    let a = pair.a.endpoint.associations()[0];
    Call { pair, a, z }
}

impl Call {
    fn paths_of_z(&self) -> Vec<PathStatus> {
        self.pair.z.endpoint.status(self.pair.now, self.z).unwrap().paths
    }

    /// Where Z sends data to, and from where.
    fn working(&self) -> Vec<(IpAddr, SocketAddr)> {
        let active = self.paths_of_z().into_iter().filter(|path| path.state == PathState::Active);
        active.map(|path| (path.addr.local.ip(), path.addr.remote)).collect()
    }

    fn unconfirmed(&self) -> usize {
        self.paths_of_z().iter().filter(|path| path.state == PathState::Unconfirmed).count()
    }

    /// 300 kB each way.
    fn works(&mut self) {
        let before = (self.pair.a.received.len(), self.pair.z.received.len());
        self.pair.send(Side::Z, self.z, 0, &[7; 300_000]);
        self.pair.send(Side::A, self.a, 0, &[8; 300_000]);
        self.pair.drive(millis(5000));
        let after = (self.pair.a.received.len(), self.pair.z.received.len());
        assert_eq!(after, (before.0 + 1, before.1 + 1));
    }

    /// Packets that Z has sent to addresses of A that only A knows.
    fn sent_to_private(&mut self) -> usize {
        let private = |addr: IpAddr| (1..=3).any(|path| addr == ip(Side::A, path));
        let sent = std::mem::take(&mut self.pair.recorded);
        sent.iter().filter(|(from, addr, _)| *from == Side::Z && private(addr.remote.ip())).count()
    }
}

fn at(path: u8, remote: (u8, &str)) -> (IpAddr, SocketAddr) {
    (ip(Side::Z, path), remote.1.parse().unwrap())
}

#[test]
fn a_client_learns_the_second_address_of_a_server_behind_two_nats() {
    let mut call = call(2, 1, &[ONE, TWO]);
    assert_eq!(call.working(), [at(1, ONE), at(1, TWO)]);
    call.works();
}

#[test]
fn addresses_behind_the_nat_are_given_up_and_not_probed_for_ever() {
    let mut call = call(2, 1, &[ONE, TWO]);
    call.pair.drive(millis(PATIENCE));
    assert_eq!(call.unconfirmed(), 0, "{:#?}", call.paths_of_z());
    assert!(call.sent_to_private() > 0, "they were tried");
    call.pair.drive(millis(10 * PATIENCE));
    assert_eq!(call.sent_to_private(), 0);
    assert_eq!(call.working(), [at(1, ONE), at(1, TWO)]);
    call.works();
}

#[test]
fn nothing_but_heartbeats_goes_to_addresses_behind_the_nat() {
    let mut call = call(2, 1, &[ONE]);
    call.works();
    let status = call.paths_of_z();
    let private = status.iter().filter(|path| path.addr.remote.ip() == ip(Side::A, 2));
    let sent: Vec<_> = private.map(|path| path.bytes_sent).collect();
    assert!(sent.iter().all(|bytes| *bytes < 2000), "{sent:?}");
}

/// Z's second uplink is in a network that has the same addresses as that of A.
#[test]
fn an_uplink_in_a_network_like_the_servers_reaches_its_public_address() {
    let mut call = call(2, 2, &[ONE]);
    assert!(call.working().contains(&at(2, ONE)), "{:#?}", call.paths_of_z());
    call.works();
    call.pair.drive(millis(PATIENCE));
    assert_eq!(call.working(), [at(1, ONE), at(2, ONE)]);
    assert_eq!(call.unconfirmed(), 0);
}

#[test]
fn an_uplink_that_comes_in_such_a_network_reaches_it_too() {
    let mut call = call(2, 1, &[ONE]);
    let now = call.pair.now;
    call.pair.z.endpoint.announce_local_address(now, local(Side::Z, 2));
    call.pair.drive(millis(4000));
    assert!(call.working().contains(&at(2, ONE)), "{:#?}", call.paths_of_z());
}

#[test]
fn an_address_that_comes_later_is_learnt_after_others_were_given_up() {
    let mut call = call(2, 1, &[ONE, TWO, THREE]);
    call.pair.drive(millis(PATIENCE));
    let now = call.pair.now;
    call.pair.a.endpoint.announce_local_address(now, local(Side::A, 3));
    call.pair.drive(millis(PATIENCE));
    assert_eq!(call.working(), [at(1, ONE), at(1, TWO), at(1, THREE)]);
    assert_eq!(call.unconfirmed(), 0, "{:#?}", call.paths_of_z());
}

#[test]
fn a_server_whose_address_changes_is_found_after_its_old_one_was_given_up() {
    let mut call = call(2, 1, &[ONE, TWO, THREE]);
    call.pair.drive(millis(PATIENCE));
    call.pair.gone.extend([ip(Side::A, 1), ip(Side::A, 2)]);
    for path in [1, 2] {
        let now = call.pair.now;
        call.pair.a.endpoint.remove_local_address(now, ip(Side::A, path));
    }
    call.pair.drive(millis(2000));
    let now = call.pair.now;
    call.pair.a.endpoint.announce_local_address(now, local(Side::A, 3));
    call.pair.drive(millis(6000));
    assert!(call.working().contains(&at(1, THREE)), "{:#?}", call.paths_of_z());
    call.works();
}

/// Client and server are neighbours behind one NAT: the direct way works as well.
#[test]
fn addresses_behind_the_nat_are_used_where_they_answer() {
    let mut call = call(2, 2, &[ONE, (2, "10.2.0.1:9899")]);
    call.pair.drive(millis(PATIENCE));
    let direct = (ip(Side::Z, 2), address(Side::A, 2));
    assert!(call.working().contains(&direct), "{:#?}", call.paths_of_z());
    call.works();
}

/// A host of its own network has a private address of the server, and knows nothing of the association.
#[test]
fn a_stranger_at_such_an_address_cannot_end_the_association() {
    let mut call = call(2, 1, &[ONE]);
    let tag = call.pair.tag_of(Side::A);
    let abort = Chunk::Abort(Abort { tag_reflected: true, causes: Causes::EMPTY });
    let complete = Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: true });
    let path = PathAddr { local: address(Side::Z, 1), remote: address(Side::A, 2) };
    for chunk in [abort, complete] {
        let bytes = packet(Side::A, tag, &[chunk]);
        call.pair.z.endpoint.handle_packet(call.pair.now, path, &bytes);
    }
    call.works();
}
