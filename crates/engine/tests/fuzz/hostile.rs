//! Packets made by somebody who knows the tags, put between two endpoints that talk to each other:
//! nothing panics, time goes on, what is kept stays within the limits, and an abort ends it all. What
//! the fuzz target `hostile_peer` checks.

use crate::network::{Choices, Network, path};
use bytes::Bytes;
use manypath_engine::{
    AssociationId, AssociationState, Config, Duration, EcnUse, NrSack, Outgoing, Ppid, StreamId,
    Tsn,
};

const PORTS: [u16; 2] = [5001, 5002];
const BUFFER: u32 = 20_000;

/// Runs the course that the bytes describe.
pub(crate) fn check(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let options = choices.byte();
    let mut network = Network::new(2, [0, 1].map(|node| config(node, options)));
    let remote = crate::network::address(1, 0);
    network.nodes[0].endpoint.connect(network.now, remote, PORTS[1]).expect("an address");
    if options & 0x80 == 0 {
        network.drive(Duration::from_millis(200), |_| false);
        send(&mut network, 0, 5000);
    }
    while let Some(what) = choices.next() {
        step(&mut network, what, &mut choices);
        check_limits(&network);
    }
    network.drive(Duration::from_secs(30), |_| false);
    check_limits(&network);
    end(&mut network);
}

fn config(node: usize, options: u8) -> Config {
    let bit = |bit: u8| options & 1 << bit != 0;
    Config {
        port: PORTS[node],
        accept: true,
        streams: 4,
        ecn: EcnUse::On,
        interleaving: bit(0),
        partial_reliability: bit(1),
        reconfiguration: bit(2),
        accept_stream_resets: true,
        accept_association_resets: bit(3),
        accept_added_streams: true,
        max_streams: 8,
        nr_sack: if bit(4) { NrSack::Case2 } else { NrSack::Off },
        authentication: bit(5),
        receive_buffer: BUFFER,
        send_buffer: BUFFER,
        max_associations: 4,
        ..Config::default()
    }
}

fn step(network: &mut Network, what: u8, choices: &mut Choices<'_>) {
    let to = usize::from(what >> 7);
    match what & 0x0F {
        0 => send(network, to, 40 * usize::from(choices.byte())),
        1 => drop(network.drive(Duration::from_millis(choices.byte().into()), |_| false)),
        2 => drop(network.drive(Duration::from_millis(50 * u64::from(choices.byte())), |_| false)),
        3 => shutdown(network, to),
        4 => network.nodes[to].reads = choices.byte() & 1 == 1,
        5 | 6 => changed_copy(network, to, what, choices),
        kind => {
            let mut packet = header(network, to, what);
            for _ in 0..1 + usize::from(what >> 6 & 1) {
                chunk(network, to, kind, choices, &mut packet);
            }
            inject(network, to, what, packet);
        }
    }
}

fn first(network: &Network, node: usize) -> Option<AssociationId> {
    network.nodes[node].endpoint.associations().first().copied()
}

fn send(network: &mut Network, from: usize, len: usize) {
    let Some(id) = first(network, from) else { return };
    let message = Outgoing {
        stream: StreamId(u16::from(len.is_multiple_of(3))),
        ppid: Ppid(1),
        unordered: len.is_multiple_of(7),
        payload: Bytes::from(vec![1; len]),
    };
    // It may be too much, or too late.
    let _refused = network.nodes[from].endpoint.send(network.now, id, message);
}

fn shutdown(network: &mut Network, node: usize) {
    if let Some(id) = first(network, node) {
        network.nodes[node].endpoint.shutdown(network.now, id);
    }
}

/// The common header of a packet to `to`: mostly with its tag.
fn header(network: &Network, to: usize, what: u8) -> Vec<u8> {
    let from = 1 - to;
    let tag = match what >> 4 & 3 {
        3 => &[0; 4],
        2 => network.last[to].get(4..8).unwrap_or(&[9; 4]),
        _ => network.last[from].get(4..8).unwrap_or(&[9; 4]),
    };
    [&PORTS[from].to_be_bytes(), &PORTS[to].to_be_bytes(), tag, &[0; 4]].concat()
}

fn inject(network: &mut Network, to: usize, what: u8, mut packet: Vec<u8>) {
    packet[8..12].fill(0);
    let crc = crc32c(&packet);
    packet[8..12].copy_from_slice(&crc.to_le_bytes());
    let mut path = path(to, usize::from(what >> 5 & 1));
    if what >> 4 & 7 == 7 {
        path.remote.set_port(40_000);
    }
    network.nodes[to].endpoint.handle_packet(network.now, path, &packet);
    network.drive(Duration::ZERO, |_| false);
}

/// The last packet of the peer, with a few bytes changed.
fn changed_copy(network: &mut Network, to: usize, what: u8, choices: &mut Choices<'_>) {
    let mut packet = network.last[1 - to].to_vec();
    if packet.len() <= 12 {
        return;
    }
    for _ in 0..1 + (what >> 4 & 1) {
        let (at, value) = (usize::from(choices.byte()) % (packet.len() - 12), choices.byte());
        packet[12 + at] = value;
    }
    if what & 0x0F == 6 {
        packet.extend(choices.take(4));
    }
    inject(network, to, what & 0x20, packet);
}

fn put(packet: &mut Vec<u8>, kind: u8, flags: u8, value: &[u8]) {
    packet.extend([kind, flags]);
    packet.extend((4 + value.len() as u16).to_be_bytes());
    packet.extend(value);
    packet.resize(packet.len().next_multiple_of(4), 0);
}

/// Appends a chunk with numbers close to those that are expected, where it hurts most.
fn chunk(network: &Network, to: usize, kind: u8, choices: &mut Choices<'_>, packet: &mut Vec<u8>) {
    // The next TSN that `to` expects, and the next that its peer expects of it.
    let (theirs, ours) = (next_tsn(network, to), next_tsn(network, 1 - to));
    let near = |tsn: u32, by: u8| tsn.wrapping_add(u32::from(by)).wrapping_sub(8).to_be_bytes();
    let flags = choices.byte();
    match kind {
        7 => {
            let labels = [0, choices.byte() & 7, 0, choices.byte() & 7, 0, 0, 0, 0];
            let payload = vec![0; 5 * usize::from(choices.byte())];
            let tsn = near(theirs, choices.byte());
            put(packet, 0, flags, &[&tsn[..], &labels, &payload].concat());
        }
        8 => {
            let labels = [0, choices.byte() & 7, 0, 0, 0, 0, 0, choices.byte() & 7];
            let place = [0, 0, 0, choices.byte() & 7];
            let payload = vec![0; 5 * usize::from(choices.byte())];
            let tsn = near(theirs, choices.byte());
            put(packet, 64, flags, &[&tsn[..], &labels, &place, &payload].concat());
        }
        9 | 10 => {
            let cum = near(ours, choices.byte());
            let a_rwnd = [0, 0, choices.byte(), choices.byte()];
            let blocks = [0, choices.byte() & 3, 0, choices.byte() & 3];
            let numbers = usize::from(blocks[1] + blocks[3]);
            let bytes: Vec<u8> = choices.take(2 * numbers).to_vec();
            let blocks_bytes: Vec<u8> = bytes.iter().flat_map(|byte| [0, *byte]).collect();
            let (kind, more) = if kind == 9 { (3, &[][..]) } else { (0x10, &[0; 4][..]) };
            put(packet, kind, flags, &[&cum[..], &a_rwnd, &blocks, more, &blocks_bytes].concat());
        }
        11 => {
            let cum = near(theirs, choices.byte());
            let skipped = [0, choices.byte() & 7, 0, choices.byte() & 7];
            put(packet, 192, flags, &[&cum[..], &skipped].concat());
        }
        12 => {
            let cum = near(theirs, choices.byte());
            let unordered = choices.byte() & 1;
            let skipped = [0, choices.byte() & 7, 0, unordered, 0, 0, 0, choices.byte() & 7];
            put(packet, 194, flags, &[&cum[..], &skipped].concat());
        }
        13 => put(packet, 7, flags, &near(ours, choices.byte())),
        // A parameter of a RE-CONFIG, with numbers that begin with the first TSN.
        14 => {
            let (kind, count) = (13 + choices.byte() % 6, choices.byte() % 3);
            let mut value = vec![0, kind, 0, 0];
            value.extend(near(theirs, choices.byte()));
            value.extend(near(ours, choices.byte()));
            value.extend(near(theirs, choices.byte()));
            (0..count).for_each(|_| value.extend([0, choices.byte() & 7]));
            value[3] = value.len() as u8;
            put(packet, 130, flags, &value);
        }
        // Any chunk.
        _ => {
            let (kind, len) = (choices.byte(), choices.byte());
            put(packet, kind, flags, choices.take(len.into()));
        }
    }
}

fn next_tsn(network: &Network, node: usize) -> u32 {
    let id = first(network, node);
    let status = id.and_then(|id| network.nodes[node].endpoint.status(network.now, id));
    status.and_then(|status| status.cum_tsn).unwrap_or(Tsn(0)).0.wrapping_add(1)
}

fn check_limits(network: &Network) {
    for node in &network.nodes {
        let ids = node.endpoint.associations();
        assert!(ids.len() <= 4);
        for id in ids {
            let status = node.endpoint.status(network.now, id).expect("it exists");
            assert!(status.paths.len() <= 32);
            assert!(status.receive_queued <= 2 * BUFFER as usize);
            assert!(status.unsent + status.outstanding <= BUFFER as usize);
            assert!(status.state != AssociationState::CookieWait || status.cum_tsn.is_none());
        }
    }
}

/// Whatever happened before, an abort is the end.
fn end(network: &mut Network) {
    for node in [0, 1] {
        for id in network.nodes[node].endpoint.associations() {
            network.nodes[node].endpoint.abort(network.now, id, b"");
        }
    }
    network.drive(Duration::from_secs(1), |_| false);
    for node in &network.nodes {
        assert!(node.endpoint.associations().is_empty());
        assert_eq!(node.endpoint.poll_timeout(), None);
    }
}

/// CRC32c, bit by bit, so that this file needs no other.
fn crc32c(bytes: &[u8]) -> u32 {
    let fold = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ (0x82F6_3B78 & (crc & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(!0, fold)
}
