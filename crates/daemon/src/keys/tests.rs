//! Key exchanges with a peer that offers encryption and then says nothing.

use super::{Failure, Keys, Rejection, Standing, Trust};
use crate::parameters;
use crate::timers::{Timer, Timers};
use manypath_engine::{
    AssociationId, Config, Duration, Ecn, Endpoint, Instant, LocalAddress, PacketBatch, PathAddr,
};
use manypath_keys::PublicKey;
use manypath_rules::Encrypt;
use manypath_trust::Fingerprint;
use std::net::{IpAddr, SocketAddr};

fn endpoint(host: u8) -> Endpoint {
    let key_management = parameters::key_management(Encrypt::Opportunistic);
    let config = Config { port: 7, accept: true, key_management, ..Config::default() };
    let mut endpoint = Endpoint::new(config, [host; 32]);
    let addr = SocketAddr::from(([10, 0, 0, host], 9899));
    endpoint.add_local_address(LocalAddress { addr, prefix_len: 24, interface: 0, mtu: 1500 });
    endpoint
}

/// Carries what both have to send to the other one, at once.
fn exchange(now: Instant, ends: &mut [Endpoint; 2]) {
    let mut batch = PacketBatch::new(16);
    for turn in 0..20 {
        while let Some(run) = ends[turn % 2].poll_transmit(now, &mut batch) {
            let path = PathAddr { local: run.path.remote, remote: run.path.local };
            for packet in batch.bytes().chunks(run.segment_size) {
                let mut packet = packet.to_vec();
                ends[1 - turn % 2].handle_marked_packet(now, path, &mut packet, Ecn::NotEct);
            }
        }
    }
}

/// An association whose keys are being made, of which the peer will say nothing.
fn begun(keys: &mut Keys, timers: &mut Timers) -> ([Endpoint; 2], AssociationId) {
    let (mut ends, now) = ([1, 2].map(endpoint), Instant::ZERO);
    let id = ends[0].connect(now, SocketAddr::from(([10, 0, 0, 2], 9899)), 7).unwrap();
    exchange(now, &mut ends);
    assert_eq!(keys.adopt(Trust::generate(None).unwrap()), 0);
    keys.begin(now, &mut ends[0], id, timers).unwrap();
    (ends, id)
}

#[test]
fn an_exchange_that_stands_still_fails_once_and_sets_no_timer_that_is_due() {
    let (mut keys, mut timers) = (Keys::default(), Timers::default());
    let (mut ends, id) = begun(&mut keys, &mut timers);
    let due = timers.next().expect("an exchange has its time");
    assert_eq!(due, Instant::ZERO + Duration::from_secs(30));
    for now in [due, due + Duration::from_secs(1)] {
        assert_eq!(timers.pop(now), (now == due).then_some(Timer::Keys(id)));
        let failed = keys.on_timer(now, &mut ends[0], id, &mut timers);
        assert!(matches!(failed, Err(Rejection::Failed(Failure::Timeout))), "{failed:?}");
        assert_eq!(timers.next(), None, "it would be due at once, for ever");
    }
}

#[test]
fn an_address_of_a_key_is_that_of_no_other_key() {
    let mut trust = Trust::generate(None).unwrap();
    let (key, other) = (PublicKey::from([1; 32]), PublicKey::from([2; 32]));
    let addr = IpAddr::from(Fingerprint::of(&key).address());
    assert!(matches!(trust.judge(addr, &key), Ok(Standing::Known)));
    assert!(matches!(trust.judge(addr, &other), Err(Rejection::OtherKey { .. })));
    assert!(trust.is_known(addr), "it may not do without encryption");
    // Nothing that was seen there counts.
    assert!(trust.remember(addr, other));
    assert!(matches!(trust.judge(addr, &other), Err(Rejection::OtherKey { .. })));
}
