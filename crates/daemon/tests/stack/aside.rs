//! Where a single short path leads to the peer, connections are plain TCP.
//!
//! The path is loopback. On a busy machine an answer may take longer than a short path has: then the
//! connection is carried, and the next one is tried, whose association knows a better round trip.

use crate::common::{
    Host, LIMIT, Launcher, Network, Table, VirtualHost, counter, echo, exchange, service,
};
use manypath_control::status::{FallbackReason, StackStatus};
use manypath_control::{Reply, Request, Transport};
use manypath_daemon::{DEFAULT_UDP_PORT, Locals, PeerCache, SettingsFile, StackConfig};
use manypath_rules::StepAside;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const ASIDE: FallbackReason = FallbackReason::NothingToGain;

/// A client with one address and the default of `step_aside`.
fn near_config(network: Network) -> StackConfig {
    let locals = Locals::List(vec![network.client()[0]]);
    let mut config = StackConfig { locals, ..network.client_config() };
    config.carrying.step_aside = StepAside::Auto;
    config
}

/// A server with one address.
fn near_server(network: Network, allow: &[SocketAddr]) -> Host {
    let locals = Locals::List(vec![network.server()[0]]);
    Host::start(StackConfig { locals, ..network.server_config(allow) })
}

/// The answer to a connect that is not carried, and how many were carried before because of pauses.
fn until_aside(launcher: &mut Launcher, destination: SocketAddr, blocking: bool) -> usize {
    let begun = Instant::now();
    for carried in 0.. {
        let (id, mut reply) = launcher.open(destination, blocking);
        let pending = reply == Reply::Pending { id };
        if pending {
            reply = launcher.answer(id);
        }
        match reply {
            Reply::Direct { reason: ASIDE, .. } => {
                assert_eq!(pending, blocking && carried == 0, "it is known by now");
                return carried;
            }
            Reply::Accepted { transport: Transport::Sctp, .. } => {
                assert_eq!(exchange(launcher.attach(id), vec![1; 9]), vec![1; 9]);
            }
            other => panic!("{other:?}"),
        }
        assert!(begun.elapsed() < LIMIT, "no answer within the time of a short path");
    }
    unreachable!("it counts further than the limit of time")
}

fn is_aside(launcher: &mut Launcher, destination: SocketAddr) -> bool {
    let (id, reply) = launcher.open(destination, false);
    match reply {
        Reply::Direct { reason: ASIDE, .. } => true,
        Reply::Pending { .. } => {
            let answer = launcher.answer(id);
            assert!(
                matches!(answer, Reply::Accepted { transport: Transport::Sctp, .. }),
                "{answer:?}"
            );
            assert_eq!(exchange(launcher.attach(id), vec![2; 9]), vec![2; 9]);
            false
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connect_over_a_single_short_path_goes_back_to_the_kernel_and_the_peer_hears_nothing_of_it() {
    for blocking in [true, false] {
        let network = Network::new();
        let destination = service(network.server()[0], echo);
        let server = StackConfig {
            locals: Locals::List(vec![network.server()[0]]),
            ..network.server_config(&[destination])
        };
        let (_server, server) = Host::with_launcher(server);
        let (_client, mut launcher) = Host::with_launcher(near_config(network));
        let carried = until_aside(&mut launcher, destination, blocking);
        // From now on without a handshake, blocking or not.
        assert_eq!(launcher.open(destination, true).1, direct(&launcher));
        assert!(is_aside(&mut launcher, destination));
        let is_up =
            |status: &StackStatus| status.associations.iter().any(|it| it.state == "established");
        let status = launcher.wait_for("an association that hears of addresses that come", is_up);
        assert_eq!(status.fallbacks[&ASIDE], 3);
        assert_eq!((status.peers[0].addr, status.peers[0].reason), (destination.ip(), ASIDE));
        assert_eq!(counter(&server.status(), "flow_incoming"), carried as u64);
    }
}

/// The last answer that a launcher has had when its connect was left to the kernel.
fn direct(launcher: &Launcher) -> Reply {
    Reply::Direct { id: launcher.last(), reason: ASIDE }
}

#[test]
fn rules_and_the_setting_decide_where_connections_step_aside() {
    let network = Network::new();
    let destinations = [(); 4].map(|()| service(network.server()[0], echo));
    let [auto, never, only, other] = destinations;
    let _server = near_server(network, &destinations);
    let rules = format!(
        "remote enable port {} step-aside=never\nremote enable port {} sctp-only=on\n\
         remote enable port {} step-aside=auto\n",
        never.port(),
        only.port(),
        auto.port()
    );
    let table = Table::new(network, &rules);
    let file = Temporary::new(network, "sysctl");
    let config = StackConfig {
        rules: table.file(),
        settings: Some(SettingsFile::named(file.0.clone())),
        ..near_config(network)
    };
    let (_client, mut launcher) = Host::with_launcher(config);
    until_aside(&mut launcher, other, true);
    for blocking in [true, false] {
        for carried in [never, only] {
            let (transport, stream) = launcher.connect(carried, blocking);
            assert_eq!(transport, Transport::Sctp);
            assert_eq!(exchange(stream, vec![3; 30]), vec![3; 30]);
        }
    }
    std::fs::write(&file.0, "step_aside = never\n").unwrap();
    reload(&launcher);
    launcher.connect_sctp(other);
    assert!(is_aside(&mut launcher, auto), "its rule has the last word");
}

/// What the peer is asked for one is not asked for the other.
#[test]
fn connects_that_begin_together_each_go_their_way() {
    let network = Network::new();
    let destinations = [(); 2].map(|()| service(network.server()[0], echo));
    let [near, carried] = destinations;
    let rule = format!("remote enable port {} step-aside=never\n", carried.port());
    let table = Table::new(network, &rule);
    let config = || StackConfig { rules: table.file(), ..near_config(network) };
    let begun = Instant::now();
    loop {
        let _server = near_server(network, &destinations);
        let (_client, launcher) = Host::with_launcher(config());
        let open = |id, destination| {
            launcher.send(&Request::Open { id, destination, source: None, blocking: true });
        };
        open(1, carried);
        open(2, near);
        let mut answers = Vec::new();
        // What is known already is said without a word before.
        while answers.iter().filter(|it| !matches!(it, Reply::Pending { .. })).count() < 2 {
            answers.push(launcher.receive());
        }
        let is_carried = |asked| {
            let mut answers = answers.iter();
            answers.any(|it| matches!(it, Reply::Accepted { id, .. } if *id == asked))
        };
        assert!(is_carried(1), "{answers:?}");
        assert_eq!(exchange(launcher.attach(1), vec![5; 50]), vec![5; 50]);
        if answers.contains(&Reply::Direct { id: 2, reason: ASIDE }) {
            break;
        }
        assert!(is_carried(2), "{answers:?}");
        assert!(begun.elapsed() < LIMIT, "no answer within the time of a short path");
    }
}

fn reload(launcher: &Launcher) {
    launcher.send(&Request::Reload);
    loop {
        match launcher.receive() {
            Reply::Reloaded { .. } => return,
            Reply::Closed { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn two_paths_are_used_however_short_they_are() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[destination]));
    let mut config = network.client_config();
    config.carrying.step_aside = StepAside::Auto;
    let (_client, mut launcher) = Host::with_launcher(config);
    for blocking in [true, false, true] {
        let (transport, stream) = launcher.connect(destination, blocking);
        assert_eq!(transport, Transport::Sctp);
        assert_eq!(exchange(stream, vec![4; 40]), vec![4; 40]);
    }
    assert!(launcher.status().fallbacks.is_empty());
}

#[test]
fn two_addresses_at_either_end_are_two_paths() {
    let one = |addrs: [std::net::IpAddr; 2]| Locals::List(vec![addrs[0]]);
    for client_has_two in [true, false] {
        let network = Network::new();
        let destination = service(network.server()[0], echo);
        let (mut server, mut client) =
            (network.server_config(&[destination]), near_config(network));
        if client_has_two {
            client.locals = Locals::List(network.client().to_vec());
            server.locals = one(network.server());
        }
        let _server = Host::start(server);
        let (_client, mut launcher) = Host::with_launcher(client);
        assert!(!is_aside(&mut launcher, destination), "{client_has_two}");
        assert!(!is_aside(&mut launcher, destination), "{client_has_two}");
    }
}

/// The next stack has no association yet, and needs none.
#[test]
fn what_is_near_is_remembered_over_the_end_of_the_stack() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let file = Temporary::new(network, "peers");
    let known = || StackConfig {
        peer_memory: Some(PeerCache::named(file.0.clone())),
        ..near_config(network)
    };
    let server = near_server(network, &[destination]);
    let (client, mut launcher) = Host::with_launcher(known());
    until_aside(&mut launcher, destination, true);
    std::thread::sleep(Duration::from_millis(400));
    drop((client, launcher, server));
    let (_client, mut launcher) = Host::with_launcher(known());
    assert!(is_aside(&mut launcher, destination));
    assert!(launcher.status().associations.is_empty());
    // It can be forgotten, and then nobody answers there.
    launcher.send(&Request::ForgetPeers { addr: None, port: None });
    assert!(matches!(launcher.receive(), Reply::Forgotten { count: 1.. }));
    assert_eq!(launcher.direct(destination).0, FallbackReason::Refused);
}

#[test]
fn a_connect_that_waits_is_relayed_and_the_next_is_left_to_the_kernel() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let _server = near_server(network, &[destination]);
    let (_client, mut redirector) = Host::with_redirector(near_config(network));
    let begun = Instant::now();
    loop {
        let id = redirector.open_waiting(destination);
        assert_eq!(redirector.receive(), Reply::Pending { id });
        let mut plain = None;
        let transport = loop {
            match redirector.receive() {
                Reply::Plain { destination, for_ms } => plain = Some((destination, for_ms)),
                Reply::Accepted { transport, .. } => break transport,
                Reply::Way { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(exchange(redirector.attach(id), vec![7; 70]), vec![7; 70]);
        assert_eq!(redirector.receive(), Reply::Closed { id });
        if transport == Transport::TcpRelay {
            let (plain, for_ms) = plain.expect("word for the kernel");
            assert_eq!(plain, destination);
            assert!((25_000..=60_000).contains(&for_ms), "{for_ms}");
            break;
        }
        assert!(begun.elapsed() < LIMIT, "no answer within the time of a short path");
    }
}

/// A file of the test's own, removed with it.
struct Temporary(PathBuf);

impl Temporary {
    fn new(network: Network, name: &str) -> Self {
        let name = format!("manypath-test-aside-{name}-{}", network.server()[0]);
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(self.0.with_extension("lock"));
    }
}

/// Browsers begin dozens of connects, one after the other.
#[test]
fn of_many_unknown_hosts_only_the_first_holds_up_connects_that_do_not_block() {
    let network = Network::new();
    let _silent = network.server().map(|addr| UdpSocket::bind((addr, DEFAULT_UDP_PORT)).unwrap());
    let services = network.server().map(|addr| service(addr, echo));
    let mut config = near_config(network);
    config.carrying.tcp_race = true;
    let mut client = VirtualHost::new(config);
    client.open(1, services[0]);
    assert_eq!(client.replies(0), [], "it may be near");
    assert_eq!(client.replies(2), [Reply::Pending { id: 1 }]);
    client.open(2, services[1]);
    assert_eq!(client.replies(2), [Reply::Pending { id: 2 }]);
}
