//! What third parties get (RFC 5062): at most three bytes for each that somebody sends us, whatever addresses it gives
//! as its own. Bytes are those of IP packets.
//!
//! `cargo test -p manypath-engine --test scenarios amplification -- --nocapture` prints the factors.

use crate::craft::{cookie_echo, init, packet};
use crate::pair::{Pair, Side, address, config, endpoint, millis};
use crate::parameters::written;
use manypath_engine::{Config, Duration, Endpoint, LocalAddress, PacketBatch, PathAddr, PathState};
use manypath_wire::chunk::{Chunk, Heartbeat, HeartbeatAck, InitAck, ShutdownComplete};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{AddressTypes, HmacIds, Parameter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The size of the IP packet around an SCTP packet.
fn ip_len(addr: &PathAddr, sctp: usize) -> usize {
    let ip = if addr.remote.is_ipv4() { 20 } else { 40 };
    sctp + ip + if addr.remote.port() == 0 { 0 } else { 8 }
}

/// The parameters of INITs, from none at all to those of the kernel and of usrsctp.
fn inits() -> Vec<(&'static str, Vec<u8>)> {
    let own = Parameter::Ipv4Address(Ipv4Addr::new(10, 1, 0, 1));
    let types = Parameter::SupportedAddressTypes(AddressTypes::from_slice(&[5, 6]));
    let (random, hmacs) = ([7; 32], HmacIds::from_slice(&[3, 1]));
    let auth = [Parameter::Random(&random), Parameter::HmacAlgo(hmacs)];
    let extensions = Parameter::SupportedExtensions(&[0xC0, 0x82, 0x0F, 0xC1, 0x80]);
    let kernel = [
        own,
        types,
        Parameter::EcnCapable,
        Parameter::SupportedExtensions(&[0x82, 0xC0]),
        Parameter::ForwardTsnSupported,
    ];
    let usrsctp = [
        Parameter::AdaptationIndication(0),
        Parameter::EcnCapable,
        Parameter::ForwardTsnSupported,
        extensions,
        auth[0],
        auth[1],
        Parameter::Chunks(&[0xC1, 0x80]),
        own,
        types,
    ];
    let unknown = [0xC1, 0x23, 0, 4, 0xFF, 0x01, 0, 8, 1, 2, 3, 4].to_vec();
    vec![
        ("no parameters", Vec::new()),
        ("authentication alone", written(&auth)),
        ("unknown parameters", unknown),
        ("those of the kernel", written(&kernel)),
        ("those of usrsctp", written(&usrsctp)),
    ]
}

/// A server with `addresses` addresses of both families, the first of which is 10.1.0.2.
fn server(addresses: u8, udp: bool, config: Config) -> Endpoint {
    let mut endpoint = Endpoint::new(config, [2; 32]);
    for number in 1..=addresses {
        let v6 = IpAddr::from(Ipv6Addr::new(0xfd00, number.into(), 0, 0, 0, 0, 0, 2));
        let v4 = IpAddr::from([10, number, 0, 2]);
        let ip = if number % 2 == 1 { v4 } else { v6 };
        let addr = SocketAddr::new(ip, if udp { 9899 } else { 0 });
        endpoint.add_local_address(LocalAddress { addr, prefix_len: 24, interface: 0, mtu: 1500 });
    }
    endpoint
}

fn polled(endpoint: &mut Endpoint) -> Option<(PathAddr, Vec<u8>)> {
    let mut batch = PacketBatch::new(1);
    let run = endpoint.poll_transmit(manypath_engine::Instant::ZERO, &mut batch)?;
    Some((run.path, batch.bytes().to_vec()))
}

fn over(udp: bool) -> PathAddr {
    let port = if udp { 9899 } else { 0 };
    let [local, remote] = [[10, 1, 0, 2], [10, 1, 0, 1]].map(|ip| SocketAddr::from((ip, port)));
    PathAddr { local, remote }
}

fn listed(packet: &[u8]) -> usize {
    let parsed = Packet::parse(packet).unwrap();
    let Some(Ok(Chunk::InitAck(InitAck { parameters, .. }))) = parsed.chunks().next() else {
        panic!("no INIT ACK")
    };
    let is_address =
        |it: &Parameter<'_>| matches!(it, Parameter::Ipv4Address(_) | Parameter::Ipv6Address(_));
    parameters.iter().flatten().filter(is_address).count()
}

#[test]
fn an_init_gets_three_times_its_bytes_at_most_and_every_handshake_is_completed() {
    let plain = config(Side::Z);
    let full = Config {
        address_reconfiguration: true,
        partial_reliability: true,
        reconfiguration: true,
        adaptation: Some(9),
        ..config(Side::Z)
    };
    for (name, parameters) in inits() {
        for (addresses, udp) in [(1, true), (4, true), (16, true), (1, false), (16, false)] {
            for config in [&plain, &full] {
                let (mut z, path) = (server(addresses, udp, config.clone()), over(udp));
                let init = init(7, &parameters);
                z.handle_packet(manypath_engine::Instant::ZERO, path, &init);
                let (to, ack) = polled(&mut z).unwrap();
                let (came, left) = (ip_len(&path, init.len()), ip_len(&path, ack.len()));
                let list = listed(&ack);
                println!(
                    "{name}, {addresses} addresses, udp {udp}: {came} -> {left}, lists {list}"
                );
                assert!(to == path && left <= 3 * came, "{name}: {left} bytes for {came}");
                z.handle_packet(manypath_engine::Instant::ZERO, path, &cookie_echo(&ack));
                assert_eq!(z.associations().len(), 1, "{name}, {addresses} addresses");
                let (_, answer) = polled(&mut z).unwrap();
                let first = Packet::parse(&answer).unwrap().chunks().next().unwrap().unwrap();
                assert_eq!(first, Chunk::CookieAck);
            }
        }
    }
}

/// What is not listed is not used: the peer would not know where those packets come from.
#[test]
fn an_association_uses_the_addresses_alone_that_its_init_ack_had_room_for() {
    for (size, paths) in [(0, 6), (228, 9)] {
        let a = Config { init_size: size, ..config(Side::A) };
        let mut pair = Pair::with(9, a.clone(), config(Side::Z));
        pair.a.endpoint = endpoint(Side::A, 1, a, 1);
        pair.record = true;
        pair.connect();
        pair.drive(millis(100));
        let init = pair.recorded[0].2.clone();
        assert_eq!(init.len(), if size == 0 { 44 } else { 228 });
        let padding = [0x80, 5, 0, 184, 0, 0];
        let padded =
            pair.recorded.iter().filter(|(.., bytes)| bytes.windows(6).any(|it| it == padding));
        assert_eq!(padded.count(), usize::from(size > 0), "in the INIT and in nothing else");
        assert_eq!(listed(&pair.recorded[1].2), paths);
        let z = pair.z.endpoint.associations()[0];
        let status = pair.z.endpoint.status(pair.now, z).unwrap();
        let locals: std::collections::BTreeSet<_> =
            status.paths.iter().map(|path| path.addr.local.ip()).collect();
        assert_eq!(locals.len(), paths, "{locals:?}");
        assert_eq!(pair.z.endpoint.counters().unverified_drops, 0);
    }
}

#[test]
fn answers_without_an_association_are_no_larger_than_three_packets_that_asked_for_them() {
    let long = [b'a'; 200];
    let heartbeat = Chunk::Heartbeat(Heartbeat { info: &[] });
    let complete = Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: false });
    let cases = [
        init(7, &written(&[Parameter::HostNameAddress(&long)])),
        init(
            7,
            &written(&[Parameter::Random(&[1; 4]), Parameter::HmacAlgo(HmacIds::from_slice(&[1]))]),
        ),
        init(7, &[0xC0, 6, 0, 5, 1, 0, 0, 0]),
        packet(Side::A, 7, &[heartbeat]),
        packet(Side::A, 7, &[Chunk::ShutdownAck]),
        packet(Side::A, 7, &[complete]),
    ];
    for (accept, bytes) in cases.iter().flat_map(|bytes| [(true, bytes), (false, bytes)]) {
        let config = Config { accept, authentication: true, ..config(Side::Z) };
        let (mut z, path) = (server(16, true, config), over(true));
        z.handle_packet(manypath_engine::Instant::ZERO, path, bytes);
        let sent = polled(&mut z).map_or(0, |(_, answer)| ip_len(&path, answer.len()));
        assert!(sent <= 3 * ip_len(&path, bytes.len()), "{sent} bytes for {}", bytes.len());
        assert_eq!(polled(&mut z), None);
        assert_eq!(z.counters().unverified_drops, 0, "nothing had to be dropped for that");
    }
}

/// IP bytes and packets that `side` has sent to addresses that `wanted` says.
fn sent(pair: &Pair, side: Side, wanted: impl Fn(IpAddr) -> bool) -> (usize, usize) {
    let of =
        pair.recorded.iter().filter(|(from, addr, _)| *from == side && wanted(addr.remote.ip()));
    of.fold((0, 0), |(packets, bytes), (_, addr, it)| (packets + 1, bytes + ip_len(addr, it.len())))
}

/// The peer by hand: answers every HEARTBEAT that has come to its true address since `from`.
fn answer_heartbeats(pair: &mut Pair, tag: u32, from: usize) -> usize {
    let until = pair.recorded.len();
    let asked: Vec<_> = pair.recorded[from..]
        .iter()
        .filter(|(side, addr, _)| *side == Side::Z && addr.remote == address(Side::A, 1))
        .map(|(.., bytes)| bytes.clone())
        .collect();
    for bytes in asked {
        for chunk in Packet::parse(&bytes).unwrap().chunks().flatten() {
            if let Chunk::Heartbeat(Heartbeat { info }) = chunk {
                let ack = Chunk::HeartbeatAck(HeartbeatAck { info });
                pair.inject(Side::A, 1, &packet(Side::A, tag, &[ack]));
            }
        }
    }
    until
}

/// Z with a peer by hand: A itself says nothing.
fn alone(paths: u8) -> Pair {
    let silent = Config { respond_to_ootb: false, ..config(Side::A) };
    Pair::with(paths, silent, config(Side::Z))
}

/// An association by hand with a peer that lists `others`; the tag for its packets.
fn listing(pair: &mut Pair, others: &[Parameter<'_>]) -> u32 {
    pair.quiet = true;
    pair.record = true;
    pair.inject(Side::A, 1, &init(7, &written(others)));
    pair.drive(millis(15));
    let ack = pair.recorded.last().unwrap().2.clone();
    pair.inject(Side::A, 1, &cookie_echo(&ack));
    pair.drive(millis(15));
    let Some(Ok(Chunk::InitAck(ack))) = Packet::parse(&ack).unwrap().chunks().next() else {
        panic!("no INIT ACK")
    };
    ack.tag.0
}

/// RFC 5062 section 4: a peer lists addresses of others, and keeps the association alive.
#[test]
fn listed_victims_get_three_times_the_bytes_of_the_peer_at_most() {
    let victim = |host: u8| Parameter::Ipv4Address(Ipv4Addr::new(10, 1, 1, host));
    let mut pair = alone(1);
    let tag = listing(&mut pair, &(0..16).map(victim).collect::<Vec<_>>());
    let mut seen = 0;
    for _ in 0..1850 {
        pair.drive(millis(100));
        seen = answer_heartbeats(&mut pair, tag, seen);
    }
    let true_one = address(Side::A, 1).ip();
    let (_, paid) = sent(&pair, Side::A, |_| true);
    let (packets, bytes) = sent(&pair, Side::Z, |ip| ip != true_one);
    println!("16 listed victims, 185 s: {packets} packets, {bytes} bytes for {paid}");
    assert!(packets >= 15 && bytes <= 3 * paid, "{bytes} bytes for {paid}");
    assert!(pair.z.endpoint.counters().unverified_drops > 0);
    assert_eq!(pair.z.endpoint.associations().len(), 1, "the association is not at fault");
}

/// A path that is the peer's does not starve behind fifteen that are not.
#[test]
fn heartbeats_that_had_to_wait_take_turns_as_packets_come() {
    let other = |host: u8| Parameter::Ipv4Address(Ipv4Addr::new(10, 1, 1, host));
    let mut list: Vec<_> = (0..15).map(other).collect();
    list.push(Parameter::Ipv4Address(Ipv4Addr::new(10, 2, 0, 1)));
    let mut pair = alone(2);
    pair.cut(2);
    let tag = listing(&mut pair, &list);
    pair.drive(Duration::from_secs(20));
    let true_one = |ip| ip == address(Side::A, 2).ip();
    let before = sent(&pair, Side::Z, true_one).0;
    let heartbeat = Chunk::Heartbeat(Heartbeat { info: &[1; 36] });
    for _ in 0..8 {
        pair.inject(Side::A, 1, &packet(Side::A, tag, &[heartbeat]));
        pair.drive(millis(20));
    }
    assert!(sent(&pair, Side::Z, true_one).0 > before, "{before} before, and no more");
}

#[test]
fn honest_associations_have_all_their_paths_at_once() {
    for (of_a, of_z) in [(1, 4), (4, 1), (4, 4), (8, 8)] {
        for profile in [config, renumbering] {
            let mut pair = Pair::with(8, profile(Side::A), profile(Side::Z));
            pair.a.endpoint = endpoint(Side::A, of_a, profile(Side::A), 1);
            pair.z.endpoint = endpoint(Side::Z, of_z, profile(Side::Z), 2);
            let a = pair.connect();
            // A handshake and two HEARTBEATs, each to be answered.
            pair.drive(millis(40 + 20 + 20 + 5));
            let z = pair.z.endpoint.associations()[0];
            for (endpoint, id) in [(&pair.a.endpoint, a), (&pair.z.endpoint, z)] {
                let status = endpoint.status(pair.now, id).unwrap();
                let reached = status.paths.iter().filter(|path| {
                    let [own, other] = [path.addr.local, path.addr.remote].map(|it| it.to_string());
                    own[..5] == other[..5]
                });
                assert!(reached.clone().count() >= usize::from(of_a.min(of_z)));
                assert!(reached.clone().all(|path| path.state == PathState::Active));
                assert_eq!(endpoint.counters().unverified_drops, 0, "{of_a} and {of_z}");
            }
        }
    }
}

fn renumbering(side: Side) -> Config {
    Config { address_reconfiguration: true, ..config(side) }
}
