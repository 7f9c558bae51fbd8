//! A behind NATs, which give its packets other sources, and other ones later.

use super::{Stage, ip, stage_behind, willing};
use crate::pair::{Side, address, millis};
use manypath_engine::PathState;
use std::net::SocketAddr;

const ONE: (u8, &str) = (1, "192.0.2.1:40001");
const TWO: (u8, &str) = (2, "192.0.2.2:40002");

fn behind(of_a: u8, nat: &[(u8, &str)]) -> Stage {
    stage_behind(of_a, 1, willing(Side::Z), nat)
}

impl Stage {
    /// The addresses of the peer's working paths, as Z knows them.
    fn working(&self) -> Vec<SocketAddr> {
        let status = self.pair.z.endpoint.status(self.pair.now, self.z).unwrap();
        let active = status.paths.iter().filter(|path| path.state == PathState::Active);
        active.map(|path| path.addr.remote).collect()
    }

    fn remap(&mut self, path: u8, outside: &str) {
        self.pair.nat.insert(address(Side::A, path), outside.parse().unwrap());
    }

    /// Z sends `bytes`, which are to arrive within `limit` milliseconds.
    fn arrives_at_a(&mut self, bytes: usize, limit: u64) {
        let before = self.pair.a.received.len();
        self.pair.send(Side::Z, self.z, 0, &vec![7; bytes]);
        self.pair.drive_until(millis(limit), |pair| pair.a.received.len() > before);
        let sizes: Vec<_> = self.pair.a.received.iter().map(|(_, it)| it.len()).collect();
        assert_eq!(sizes.get(before..), Some(&[bytes][..]));
    }
}

fn addrs(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn both_uplinks_of_a_client_behind_two_nats_are_used() {
    let mut stage = behind(2, &[ONE, TWO]);
    stage.pair.drive(millis(4000));
    assert_eq!(stage.working(), addrs(&[ONE.1, TWO.1]));
    let status = stage.pair.a.endpoint.status(stage.pair.now, stage.a).unwrap();
    assert!(status.paths.iter().all(|path| path.state == PathState::Active), "{status:#?}");
    stage.arrives_at_a(300_000, 3000);
}

#[test]
fn both_uplinks_of_a_client_behind_one_nat_are_used() {
    let mut stage = behind(2, &[ONE, (2, "192.0.2.1:40002")]);
    stage.pair.drive(millis(4000));
    assert_eq!(stage.working(), addrs(&[ONE.1, "192.0.2.1:40002"]));
    stage.arrives_at_a(300_000, 3000);
}

#[test]
fn an_uplink_that_comes_behind_its_own_nat_is_used() {
    let mut stage = behind(1, &[ONE, TWO]);
    stage.announce(2);
    stage.pair.drive(millis(4000));
    assert_eq!(stage.working(), addrs(&[ONE.1, TWO.1]));
}

#[test]
fn the_only_path_follows_a_new_port_once_it_is_verified() {
    let mut stage = behind(1, &[ONE]);
    stage.arrives_at_a(100_000, 3000);
    stage.remap(1, "192.0.2.1:50001");
    stage.pair.send(Side::A, stage.a, 0, b"from another port");
    stage.pair.drive(millis(15));
    assert_eq!(stage.working(), addrs(&[ONE.1]), "the tag alone proves too little");
    stage.pair.drive(millis(100));
    assert_eq!(stage.working(), addrs(&["192.0.2.1:50001"]));
    stage.arrives_at_a(100_000, 3000);
}

#[test]
fn a_client_that_only_receives_shows_its_new_port_by_itself() {
    let mut stage = behind(1, &[ONE]);
    stage.pair.send(Side::Z, stage.z, 0, &[7; 400_000]);
    stage.pair.drive(millis(60));
    stage.remap(1, "192.0.2.1:50001");
    stage.pair.drive_until(millis(6000), |pair| !pair.a.received.is_empty());
    assert_eq!(stage.pair.a.received.len(), 1);
    assert_eq!(stage.working(), addrs(&["192.0.2.1:50001"]));
}

#[test]
fn ports_of_before_are_forgotten() {
    let mut stage = behind(1, &[ONE]);
    for port in 50_001..50_012 {
        stage.remap(1, &format!("192.0.2.1:{port}"));
        stage.pair.send(Side::A, stage.a, 0, b"from another port");
        stage.pair.drive(millis(60_000));
        stage.arrives_at_a(50_000, 3000);
        assert_eq!(stage.working(), addrs(&[&format!("192.0.2.1:{port}")]));
        assert!(stage.paths_of_z().len() <= 3, "{:?}", stage.paths_of_z());
    }
}

/// RFC 5061 section 5.3.1: nobody knows what the NAT makes of the new address.
#[test]
fn a_client_whose_only_address_changes_behind_a_nat_is_found_again() {
    let mut stage = behind(1, &[ONE, TWO]);
    stage.pair.gone.push(ip(Side::A, 1));
    stage.remove(1);
    stage.pair.drive(millis(3000));
    stage.announce(2);
    stage.pair.drive(millis(4000));
    assert_eq!(stage.working(), addrs(&[TWO.1]));
    assert_eq!(stage.paths_of_z().len(), 1, "{:?}", stage.paths_of_z());
    stage.arrives_at_a(100_000, 3000);
}

#[test]
fn a_client_whose_two_addresses_go_behind_nats_is_found_again() {
    let mut stage = behind(2, &[ONE, TWO, (3, "192.0.2.3:40003")]);
    stage.pair.drive(millis(4000));
    stage.pair.gone.extend([ip(Side::A, 1), ip(Side::A, 2)]);
    stage.remove(1);
    stage.remove(2);
    stage.pair.drive(millis(3000));
    stage.announce(3);
    stage.pair.drive(millis(6000));
    assert!(stage.working().contains(&"192.0.2.3:40003".parse().unwrap()));
    stage.arrives_at_a(100_000, 3000);
}

#[test]
fn many_addresses_behind_nats_one_after_another_find_room() {
    let mut stage = behind(2, &[ONE]);
    for number in 0..20_u8 {
        let outside = format!("192.0.2.{}:40002", 100 + number);
        stage.remap(2, &outside);
        stage.announce(2);
        stage.pair.drive(millis(20_000));
        assert!(stage.working().contains(&outside.parse().unwrap()), "{number}");
        stage.remove(2);
        stage.pair.drive(millis(100_000));
    }
}
