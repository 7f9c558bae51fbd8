//! tshark, an independent reader of SCTP, agrees with every packet that is sent.

use crate::support;

use manypath_engine::{Config, Duration, EcnUse, Instant};
use manypath_sim::{LinkConfig, RedConfig, Rng, World};
use std::collections::BTreeSet;
use std::net::{Ipv6Addr, SocketAddr};
use std::process::Command;
use support::exchange::{Side, random_messages};
use support::{PORT, joint, link, pair};

/// Marks often.
const RED: RedConfig =
    RedConfig { least: 1, most: 20, probability_ppm: 200_000, weight_ppm: 200_000, marks: true };

/// A transfer over two paths with losses and a cut, from setup to shutdown, as a pcapng file.
/// `readdress` decides what the paths' addresses look like. If `config` says that addresses may change,
/// those of the second path leave the association and come back.
fn captured_transfer(config: Config, readdress: impl Fn(SocketAddr) -> SocketAddr) -> Vec<u8> {
    let mut world = World::new(1);
    let config = Config { heartbeat_interval: Duration::from_millis(500), ..config };
    let hosts = pair(&mut world, &config);
    let red = (config.ecn == EcnUse::On).then_some(RED);
    let lossy = LinkConfig { loss_ppm: 20_000, duplicate_ppm: 10_000, red, ..link(5, 20, 30) };
    let mut paths = Vec::new();
    for number in 0..2 {
        let mut path = joint(hosts, number, lossy.clone());
        path.addresses = path.addresses.map(&readdress);
        paths.push(path.addresses);
        let path = world.join(&path);
        let cut = LinkConfig { up: false, ..lossy.clone() };
        world.schedule(
            Instant::ZERO + Duration::from_millis(300 + 700 * u64::from(number)),
            path,
            hosts[1],
            cut,
        );
        world.schedule(
            Instant::ZERO + Duration::from_millis(900 + 700 * u64::from(number)),
            path,
            hosts[1],
            lossy.clone(),
        );
    }
    world.start_capture();
    let [mut client, mut server] = hosts.map(Side::new);
    let messages = random_messages(&mut Rng::new(3), 10, 400_000, 10_000);
    client.will_send(&messages);
    server.must_get(&messages);
    let now = world.now();
    client.association = Some(world.endpoint(hosts[0]).connect(now, paths[0][1], PORT).unwrap());
    let mut shut = false;
    let leaving = config.address_reconfiguration.then(|| paths[1][0].ip());
    let mut changes = leaving.into_iter().flat_map(|ip| [(ip, true), (ip, false)]);
    let done = world.run(Instant::ZERO + Duration::from_secs(60), |world| {
        client.step(world, true);
        server.step(world, true);
        if server.received > 20_000
            && let (Some(id), Some((ip, leaves))) = (client.association, changes.next())
        {
            let (now, endpoint) = (world.now(), world.endpoint(hosts[0]));
            if leaves {
                endpoint.remove_address(now, id, ip).unwrap();
            } else {
                endpoint.add_address(now, id, ip).unwrap();
            }
        }
        if server.has_got_everything() && !shut {
            shut = true;
            let now = world.now();
            client
                .association
                .into_iter()
                .for_each(|id| world.endpoint(hosts[0]).shutdown(now, id));
        }
        client.closed.is_some() && server.closed.is_some()
    });
    assert!(done);
    world.finish_capture()
}

/// One line per packet: chunk types, checksum status and complaints.
fn decode(name: &str, capture: &[u8]) -> Option<String> {
    let file = std::env::temp_dir().join(format!("manypath-{}-{name}.pcapng", std::process::id()));
    std::fs::write(&file, capture).unwrap();
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&file)
        .args(["-o", "sctp.checksum:crc-32c", "-T", "fields"])
        .args(["-e", "sctp.chunk_type", "-e", "sctp.checksum.status", "-e", "_ws.malformed"])
        .output();
    std::fs::remove_file(&file).unwrap();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            assert!(std::env::var_os("CI").is_none(), "tshark is missing: apt install tshark");
            println!("SKIPPED: tshark is missing. Install it with: apt install tshark");
            return None;
        }
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Checks every packet; returns the chunk types that were there.
fn check(lines: &str) -> BTreeSet<u8> {
    let mut types = BTreeSet::new();
    for (number, line) in lines.lines().enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!(fields.len(), 3, "packet {}: {line}", number + 1);
        assert_eq!(fields[1], "1", "checksum of packet {}: {line}", number + 1);
        assert_eq!(fields[2], "", "packet {} is malformed: {line}", number + 1);
        types.extend(fields[0].split(',').map(|text| text.parse::<u8>().unwrap()));
    }
    assert!(lines.lines().count() > 300);
    types
}

/// DATA, INIT, INIT ACK, SACK, HEARTBEAT, HEARTBEAT ACK, SHUTDOWN, SHUTDOWN ACK, COOKIE ECHO,
/// COOKIE ACK, SHUTDOWN COMPLETE.
const TYPES: [u8; 11] = [0, 1, 2, 3, 4, 5, 7, 8, 10, 11, 14];

#[test]
fn tshark_agrees_with_every_packet() {
    let v6 = |address: SocketAddr| {
        let [.., path, host] = address
            .ip()
            .to_string()
            .split('.')
            .map(|n| n.parse().unwrap())
            .collect::<Vec<u16>>()[..]
        else {
            unreachable!()
        };
        SocketAddr::from((Ipv6Addr::new(0xFD77, path, 0, 0, 0, 0, 0, host), address.port()))
    };
    let native = |address: SocketAddr| SocketAddr::from((address.ip(), 0));
    let captures = [
        ("udp-v4", captured_transfer(Config::default(), |address| address)),
        ("udp-v6", captured_transfer(Config::default(), v6)),
        ("native", captured_transfer(Config::default(), native)),
    ];
    for (name, capture) in captures {
        let Some(lines) = decode(name, &capture) else { return };
        let types = check(&lines);
        assert!(TYPES.iter().all(|kind| types.contains(kind)), "{name}: {types:?}");
    }
}

/// AUTH, ASCONF-ACK, ASCONF.
const AUTHENTICATED: [u8; 3] = [15, 0x80, 0xC1];

#[test]
fn tshark_agrees_with_authentication_and_changes_of_addresses() {
    let config = || Config { address_reconfiguration: true, ..Config::default() };
    let all = Config { authenticated_chunks: (0..=255).collect(), ..config() };
    for (name, config) in [("asconf", config()), ("auth", all)] {
        let capture = captured_transfer(config, |address| address);
        let Some(lines) = decode(name, &capture) else { return };
        let types = check(&lines);
        let wanted = TYPES.iter().chain(&AUTHENTICATED);
        assert!(wanted.clone().all(|kind| types.contains(kind)), "{name}: {types:?}");
    }
}

/// ECNE, CWR.
const MARKED: [u8; 2] = [12, 13];

#[test]
fn tshark_agrees_with_ecn() {
    let config = Config { ecn: EcnUse::On, ..Config::default() };
    let Some(lines) = decode("ecn", &captured_transfer(config, |address| address)) else { return };
    let types = check(&lines);
    assert!(TYPES.iter().chain(&MARKED).all(|kind| types.contains(kind)), "{types:?}");
}
