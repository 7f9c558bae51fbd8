//! Datagrams that a relay leads on to hosts without manypath.

use crate::common::{Host, LIMIT, Launcher, Table, VirtualHost, counter};
use crate::relays::{Ground, relayed};
use manypath_control::status::FallbackReason;
use manypath_control::{Reply, Transport};
use manypath_daemon::StackConfig;
use manypath_rules::paths::Budget;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// A service at `addr` that sends each datagram back.
pub(crate) fn echoes(addr: IpAddr) -> SocketAddr {
    let socket = UdpSocket::bind((addr, 0)).unwrap();
    let at = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut room = [0; 65_536];
        while let Ok((len, from)) = socket.recv_from(&mut room) {
            let _ = socket.send_to(&room[..len], from);
        }
    });
    at
}

/// A client whose rules have this to say of all datagrams.
fn client(ground: &Ground, options: &str) -> (Table, Host, Launcher) {
    let table =
        Table::new(ground.network, &format!("remote enable udp any lifetime=5s {options}\n"));
    let (host, launcher) =
        Host::with_launcher(StackConfig { rules: table.file(), ..ground.client() });
    (table, host, launcher)
}

/// Datagrams to `destination`, which are carried.
fn opened(launcher: &mut Launcher, destination: SocketAddr) -> UdpSocket {
    let (id, reply) = launcher.open_datagrams(destination);
    match reply {
        Reply::Accepted { transport: Transport::Sctp, peer, .. } => assert_eq!(peer, destination),
        other => panic!("{other:?}: {:#?}", launcher.status()),
    }
    launcher.attach_datagrams(id)
}

fn come_back(program: &UdpSocket, sizes: &[usize]) {
    let mut room = [0; 65_536];
    for size in sizes {
        let sent = vec![u8::try_from(size % 251).unwrap(); *size];
        program.send(&sent).unwrap();
        let len = program.recv(&mut room).unwrap();
        assert!(room[..len] == sent, "{size}");
    }
}

fn left(launcher: &mut Launcher, destination: SocketAddr) -> FallbackReason {
    match launcher.open_datagrams(destination).1 {
        Reply::Direct { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn datagrams_go_by_the_relay_and_keep_their_bounds() {
    let ground = Ground::new();
    let (_relay, at_relay) = Host::with_launcher(ground.relay());
    let (_table, _client, mut launcher) = client(&ground, "");
    let destination = echoes(ground.far());
    let program = opened(&mut launcher, destination);
    come_back(&program, &[9, 0, 1200, 40_000]);
    let peer =
        at_relay.wait_for("the bytes", |status| relayed(status).from_destinations_bytes == 41_209);
    let peer = relayed(&peer);
    assert_eq!((peer.open, peer.opened, peer.denied, peer.failed), (1, 1, 0, 0));
    assert_eq!(peer.to_destinations_bytes, 41_209);
    drop(program);
    let status = at_relay.wait_for("the end", |status| relayed(status).open == 0);
    assert_eq!(relayed(&status).to_destinations_bytes, 41_209);
    // Nobody is there: the program hears of it as from the destination's host.
    let nobody = {
        let socket = UdpSocket::bind((ground.far(), 0)).unwrap();
        socket.local_addr().unwrap()
    };
    let program = opened(&mut launcher, nobody);
    program.send(b"x").unwrap();
    let unreachable =
        |launcher: &Launcher| counter(&launcher.status(), "stack_datagrams_unreachable");
    let begun = std::time::Instant::now();
    while !matches!(launcher.receive(), Reply::Unreachable { .. }) {
        assert!(begun.elapsed() < LIMIT);
    }
    assert_eq!(unreachable(&launcher), 1);
}

#[test]
fn a_status_misses_no_bytes_while_a_flow_ends() {
    let ground = Ground::new();
    let mut relay = VirtualHost::new(ground.relay());
    let (_table, _client, mut launcher) = client(&ground, "");
    let destination = echoes(ground.far());
    let begun = std::time::Instant::now();
    let now = || u64::try_from(begun.elapsed().as_millis()).unwrap();
    let program = std::thread::spawn(move || {
        let program = opened(&mut launcher, destination);
        come_back(&program, &[1200]);
        (program, launcher)
    });
    while !program.is_finished() {
        relay.replies(now());
        std::thread::sleep(Duration::from_millis(1));
    }
    let _held = program.join().unwrap();
    assert_eq!(relayed(&relay.status()).from_destinations_bytes, 1200);
    // The flow has been idle for too long when the status is asked for: in this turn or the next one it ends.
    let statuses = [(); 3].map(|()| relay.status_at(now() + 90_000));
    for status in &statuses {
        let peer = relayed(status);
        assert_eq!((peer.from_destinations_bytes, peer.to_destinations_bytes), (1200, 1200));
    }
    assert_eq!(counter(&statuses[2], "stack_datagram_relays_ended"), 1, "{:#?}", statuses[2]);
    assert_eq!(relayed(&statuses[2]).open, 0);
}

#[test]
fn datagrams_count_for_the_quota_of_the_relay() {
    let ground = Ground::new();
    let mut config = ground.relay();
    config.relay.as_mut().unwrap().quota = Budget::parse("100kB/day");
    let (_relay, at_relay) = Host::with_launcher(config);
    let (_table, _client, mut launcher) = client(&ground, "");
    let destination = echoes(ground.far());
    let program = opened(&mut launcher, destination);
    come_back(&program, &[40_000, 20_000]);
    at_relay
        .wait_for("the bytes", |status| status.quotas.iter().any(|it| it.used_bytes == 120_000));
    assert_eq!(left(&mut launcher, destination), FallbackReason::OverQuota);
}

#[test]
fn closed_destinations_get_no_datagrams_from_the_relay() {
    let ground = Ground::new();
    let (_relay, at_relay) = Host::with_launcher(ground.relay());
    let (_table, _client, mut launcher) = client(&ground, "");
    let IpAddr::V4(far) = ground.far() else { unreachable!() };
    let victim = UdpSocket::bind((Ipv4Addr::from_bits(far.to_bits() + 1), 0)).unwrap();
    victim.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let closed = victim.local_addr().unwrap();
    assert_eq!(left(&mut launcher, closed), FallbackReason::NotRelayed);
    let status = at_relay.status();
    assert_eq!((relayed(&status).denied, relayed(&status).open), (1, 0));
    assert_eq!(counter(&status, "stack_onward_denied_destination"), 1);
    assert!(victim.recv(&mut [0; 9]).is_err(), "nothing has come by the relay");
}

#[test]
fn errors_of_the_relays_own_socket_are_those_of_the_program() {
    let ground = Ground::new();
    let mut config = ground.relay();
    // The kernel lets nobody send there who has not asked for broadcasts.
    let broadcast = "127.255.255.255:9";
    config.relay.as_mut().unwrap().to = vec![broadcast.parse().unwrap()];
    let (_relay, at_relay) = Host::with_launcher(config);
    let (_table, _client, mut launcher) = client(&ground, "");
    let (_, reply) = launcher.open_datagrams(broadcast.parse().unwrap());
    assert!(matches!(reply, Reply::Failed { errno: libc::EACCES, .. }), "{reply:?}");
    let status = at_relay.status();
    assert_eq!((relayed(&status).failed, relayed(&status).open), (1, 0));
}

#[test]
fn connections_and_datagrams_of_a_peer_count_together() {
    let ground = Ground::new();
    let mut config = ground.relay();
    config.relay.as_mut().unwrap().connections = 2;
    let (_relay, at_relay) = Host::with_launcher(config);
    let (_table, _client, mut launcher) = client(&ground, "");
    let destination = echoes(ground.far());
    let tcp = crate::common::service(ground.far(), crate::common::echo);
    let held = opened(&mut launcher, destination);
    let stream = launcher.connect_sctp(tcp);
    assert_eq!(left(&mut launcher, destination), FallbackReason::Busy);
    assert_eq!(launcher.direct(tcp).0, FallbackReason::Busy);
    assert_eq!(counter(&at_relay.status(), "stack_onward_denied_too_many"), 2);
    come_back(&held, &[5]);
    drop((held, stream));
    at_relay.wait_for("room", |status| relayed(status).open == 0);
    come_back(&opened(&mut launcher, destination), &[5]);
}

#[test]
fn strangers_and_hosts_that_are_no_relays_lead_no_datagrams_on() {
    let ground = Ground::new();
    ground.authorize(&["other"]);
    let (_relay, at_relay) = Host::with_launcher(ground.relay());
    let (_table, _client, mut launcher) = client(&ground, "");
    let destination = echoes(ground.far());
    assert_eq!(left(&mut launcher, destination), FallbackReason::NotAuthorized);
    assert!(at_relay.status().relaying.relayed_peers.is_empty());
    let ground = Ground::new();
    let StackConfig { keys, encrypt, .. } = ground.relay();
    let server = StackConfig { keys, encrypt, ..ground.network.server_config(&[]) };
    let _server = Host::start(server);
    let (_table, _client, mut launcher) = client(&ground, "");
    let destination = echoes(ground.far());
    assert_eq!(left(&mut launcher, destination), FallbackReason::NotRelay);
    // It is not asked again for each of them.
    assert_eq!(left(&mut launcher, destination), FallbackReason::Remembered);
}

#[test]
fn the_next_relay_takes_datagrams_or_they_are_refused_as_the_rule_says() {
    let ground = Ground::new();
    let relay = Host::start(ground.relay());
    let IpAddr::V4(far) = ground.far() else { unreachable!() };
    let nobody = Ipv4Addr::from_bits(far.to_bits() + 1);
    let via = format!("encrypt=require via={nobody},{}", ground.network.server()[0]);
    let (_table, _client, mut launcher) = client(&ground, &via);
    let destination = echoes(ground.far());
    let program = opened(&mut launcher, destination);
    come_back(&program, &[7]);
    assert_eq!(counter(&launcher.status(), "stack_relays_passed_over"), 1);
    drop(relay);
    let told = launcher.receive();
    assert!(matches!(told, Reply::Failed { .. }), "{told:?}");
    launcher.wait_for("the end", |status| status.associations.is_empty());
    let (_, reply) = launcher.open_datagrams(destination);
    assert!(matches!(reply, Reply::Failed { .. }), "{reply:?}");
}

#[test]
fn rules_keep_datagrams_from_the_relay() {
    let ground = Ground::new();
    let (_relay, at_relay) = Host::with_launcher(ground.relay());
    let (_table, _client, mut launcher) = client(&ground, "via=off");
    let reason = left(&mut launcher, echoes(ground.far()));
    assert!(matches!(reason, FallbackReason::Refused | FallbackReason::Silent), "{reason}");
    assert!(at_relay.status().relaying.relayed_peers.is_empty());
}
