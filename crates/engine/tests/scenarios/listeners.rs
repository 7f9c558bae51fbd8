//! Associations and ports with parameters of their own.

use crate::pair::{PORT_Z, Pair, Side, address, config, millis};
use manypath_engine::{AssociationId, CloseReason, Config, Event};

const SERVICE: u16 = 80;

/// Z announces 9 at its own port and 5 at port 80 and those behind it.
fn pair() -> Pair {
    let z = Config { adaptation: Some(9), ..config(Side::Z) };
    let mut pair = Pair::with(1, config(Side::A), z.clone());
    let service = Config { adaptation: Some(5), streams: 2, ..z };
    pair.z.endpoint.listen(vec![(SERVICE..=SERVICE + 9, service)]);
    pair
}

fn connect(pair: &mut Pair, port: u16, config: Config) -> AssociationId {
    let remote = address(Side::Z, 1);
    pair.a.endpoint.connect_with(pair.now, remote, port, config, None).unwrap()
}

/// What the peer of the first association announced, and the streams towards it.
fn seen(pair: &Pair) -> Vec<(Option<u32>, u16)> {
    let heard = pair.a.events.iter().filter_map(|(_, event)| match event {
        Event::Connected { adaptation, outbound_streams, .. } => {
            Some((*adaptation, *outbound_streams))
        }
        _ => None,
    });
    heard.collect()
}

#[test]
fn a_port_has_parameters_of_its_own() {
    let mut pair = pair();
    for port in [PORT_Z, SERVICE, SERVICE + 9] {
        let id = connect(&mut pair, port, Config { port: 0, ..config(Side::A) });
        pair.drive(millis(100));
        assert_eq!(pair.a.endpoint.ports(id).map(|ports| ports.1), Some(port));
    }
    assert_eq!(seen(&pair), [(Some(9), 16), (Some(5), 2), (Some(5), 2)]);
    let ids = pair.z.endpoint.associations();
    let ports = ids.iter().filter_map(|id| pair.z.endpoint.ports(*id)).map(|ports| ports.0);
    assert_eq!(ports.collect::<Vec<_>>(), [PORT_Z, SERVICE, SERVICE + 9]);
}

#[test]
fn other_ports_refuse_associations() {
    let mut pair = pair();
    connect(&mut pair, SERVICE + 10, config(Side::A));
    pair.drive(millis(100));
    pair.expect("A -> INIT -> Z\nA <- ABORT <- Z");
    assert!(matches!(pair.a.heard()[..], [Event::Closed(CloseReason::PeerAborted(None))]));
    // What was open is closed by another list.
    pair.z.endpoint.listen(Vec::new());
    connect(&mut pair, SERVICE, config(Side::A));
    pair.drive(millis(100));
    pair.expect("A -> INIT -> Z\nA <- ABORT <- Z");
}

#[test]
fn an_association_that_was_begun_with_parameters_of_its_own_keeps_them() {
    let mut pair = pair();
    let own = Config { port: 0, streams: 3, adaptation: Some(7), ..config(Side::A) };
    let wanted = Config { require_adaptation: true, ..own.clone() };
    let own = connect(&mut pair, PORT_Z, own);
    pair.drive(millis(100));
    let announced = |pair: &Pair| match pair.z.heard()[..] {
        [Event::Connected { adaptation, inbound_streams, .. }] => (*adaptation, *inbound_streams),
        ref other => panic!("{other:?}"),
    };
    assert_eq!(announced(&pair), (Some(7), 3));
    // The endpoint's own parameters hold for the others, also while it stands.
    pair.take_ladder();
    connect(&mut pair, PORT_Z, wanted);
    pair.drive(millis(100));
    pair.expect("A -> INIT -> Z\nA <- INIT_ACK <- Z\nA -> ABORT -> Z");
    assert_eq!(pair.a.endpoint.associations(), [own]);
}

/// Each has a port of its own, so that many can go to one service.
#[test]
fn many_associations_with_one_port_of_a_peer_stand_side_by_side() {
    let mut pair = pair();
    let own = Config { port: 0, ..config(Side::A) };
    let ids: Vec<_> = (0..50).map(|_| connect(&mut pair, SERVICE, own.clone())).collect();
    for (number, id) in (0..).zip(&ids) {
        pair.send(Side::A, *id, 0, &[number]);
    }
    pair.drive(millis(200));
    assert_eq!(pair.z.endpoint.associations().len(), 50);
    let mut received: Vec<u8> = pair.z.received.iter().map(|(_, bytes)| bytes[0]).collect();
    received.sort_unstable();
    assert_eq!(received, (0..50).collect::<Vec<u8>>());
}

#[test]
fn parameters_with_local_addresses_keep_to_them() {
    let mut pair = Pair::with(2, config(Side::A), config(Side::Z));
    let [first, second] = [1, 2].map(|path| address(Side::Z, path));
    let bound = Config { local_addresses: vec![first.ip()], ..config(Side::Z) };
    pair.z.endpoint.listen(vec![(SERVICE..=SERVICE, bound)]);
    let refused =
        pair.a.endpoint.connect_with(pair.now, second, SERVICE, config(Side::A), None).unwrap();
    pair.drive(millis(100));
    pair.expect("A -2> INIT -> Z\nA <2- ABORT <- Z");
    let own = Config { local_addresses: vec![address(Side::A, 1).ip()], ..config(Side::A) };
    let id = pair.a.endpoint.connect_with(pair.now, first, SERVICE, own, None).unwrap();
    pair.drive(millis(500));
    assert_eq!(pair.a.endpoint.associations(), [id]);
    assert!(id > refused);
    for side in [&pair.a, &pair.z] {
        let id = side.endpoint.associations()[0];
        let paths = side.endpoint.status(pair.now, id).unwrap().paths;
        assert_eq!(paths.len(), 1);
    }
}

#[test]
fn who_wants_to_know_when_all_has_been_delivered_is_told_once() {
    let mut pair = pair();
    let id = connect(&mut pair, PORT_Z, config(Side::A));
    let told = |pair: &mut Pair| {
        let events = std::mem::take(&mut pair.a.events);
        events.iter().filter(|(_, event)| *event == Event::SenderDry).count()
    };
    pair.a.endpoint.tell_when_dry(pair.now, id);
    pair.drive(millis(100));
    assert_eq!(told(&mut pair), 1, "nothing was to be sent");
    pair.send(Side::A, id, 0, b"one");
    pair.drive(millis(500));
    assert_eq!(told(&mut pair), 0, "nobody has asked");
    pair.send(Side::A, id, 0, b"two");
    pair.a.endpoint.tell_when_dry(pair.now, id);
    assert_eq!(told(&mut pair), 0, "it is under way");
    pair.drive(millis(500));
    assert_eq!(told(&mut pair), 1);
}
