//! Addresses that come and go need no AUTH where packets are protected (draft section 3.2).

use super::{Protected, is_record, loose, offering};
use crate::craft::packet;
use crate::pair::{Pair, Side, address, millis};
use manypath_aead::CipherSuite;
use manypath_engine::{AddressChange, Config, Event, LocalAddress, ReconfigurationOutcome};
use manypath_wire::chunk::{Asconf, Chunk};
use manypath_wire::parameter::{AddressRequest, Parameter, ParameterWriter, Parameters};

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

#[test]
fn a_request_that_is_not_protected_is_dropped_before_and_after_there_are_keys() {
    let (mut pair, a, z) = Pair::established_with(1, changing(Side::A), changing(Side::Z));
    let mut buffer = [0; 100];
    let mut writer = ParameterWriter::new(&mut buffer);
    let address = address(Side::A, 2).ip();
    writer.push(&Parameter::AddIpAddress(AddressRequest { correlation: 1, address })).unwrap();
    let used = writer.finish();
    let parameters = Parameters::from_bytes(&buffer[..used]);
    let asconf = Asconf { sequence: 1, address: crate::pair::address(Side::A, 1).ip(), parameters };
    let forged = packet(Side::A, pair.tag_of(Side::Z), &[Chunk::Asconf(asconf)]);
    let mut it = Protected { pair, a, z, suite: CipherSuite::Aes128Gcm };
    it.pair.inject(Side::A, 1, &forged);
    it.pair.drive(millis(100));
    assert_eq!(it.counter("unauthenticated_chunks"), 1);
    it.rekey(3);
    it.pair.z.endpoint.require_protection(it.pair.now, z).unwrap();
    it.pair.inject(Side::A, 1, &forged);
    it.pair.drive(millis(100));
    assert_eq!(it.counter("unprotected_packets"), 1);
    assert_eq!(it.pair.z.endpoint.status(it.pair.now, z).unwrap().paths.len(), 1);
}
