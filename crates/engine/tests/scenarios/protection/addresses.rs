//! Addresses that come and go need no AUTH where packets are protected (draft section 3.2).

use super::{Protected, is_record, loose, offering};
use crate::pair::{Pair, Side, address, millis};
use manypath_aead::CipherSuite;
use manypath_engine::{AddressChange, Config, Event, LocalAddress, ReconfigurationOutcome};

fn changing(side: Side) -> Config {
    Config { address_reconfiguration: true, ..offering(side, loose()) }
}

/// A second address of A's.
fn add_address(it: &mut Protected) {
    let addr = address(Side::A, 2);
    let local = LocalAddress { addr, prefix_len: 24, interface: 0, mtu: 1500 };
    it.pair.links.insert(2, it.pair.links[&1]);
    it.pair.a.endpoint.add_local_address(local);
    let (now, a) = (it.pair.now, it.a);
    it.pair.a.endpoint.add_address(now, a, addr.ip()).unwrap();
}

fn is_added(it: &Protected) -> bool {
    it.pair.a.heard().into_iter().any(|event| {
        matches!(
            event,
            Event::LocalAddress {
                change: AddressChange::Added,
                outcome: ReconfigurationOutcome::Performed,
                ..
            }
        )
    })
}

#[test]
fn an_address_is_added_in_protected_packets() {
    let mut it = Protected::with(1, changing(Side::A), changing(Side::Z));
    add_address(&mut it);
    it.pair.drive(millis(3_000));
    assert!(is_added(&it));
    assert!(it.pair.recorded.iter().all(|(_, _, bytes)| is_record(bytes)));
}

#[test]
fn until_packets_are_protected_both_ways_it_waits() {
    let (pair, a, z) = Pair::established_with(1, changing(Side::A), changing(Side::Z));
    let mut it = Protected { pair, a, z, suite: CipherSuite::Aes128Gcm };
    add_address(&mut it);
    it.pair.drive(millis(3_000));
    assert!(!is_added(&it));
    it.rekey(3);
    it.pair.send(Side::A, a, 0, b"keys are there");
    it.pair.drive(millis(3_000));
    assert!(is_added(&it));
}
