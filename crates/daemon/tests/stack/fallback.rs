//! Where SCTP cannot be, plain TCP takes over: at once, or within a bound.

use crate::common::peer::Peer;
use crate::common::{
    Host, Network, Table, VirtualHost, counter, echo, exchange, service, unused_port,
};
use manypath_control::status::{FallbackReason, StackStatus};
use manypath_control::{Reply, Request, Transport};
use manypath_daemon::{DEFAULT_UDP_PORT, StackConfig};
use manypath_engine::Config;
use manypath_flow::{ADAPTATION, SCTP_PORT};
use manypath_net::UdpPort;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// What a busy machine may add: less than lies between the timeout of a new peer, 300 ms, and of a known one, 900 ms.
const SOON: Duration = Duration::from_millis(500);
/// A stack that was held up counts from when it woke: a request may have come since.
const EARLY: Duration = Duration::from_millis(50);

#[test]
fn a_silent_peer_costs_the_timeout_once() {
    let network = Network::new();
    let _silent = UdpSocket::bind((network.server()[0], DEFAULT_UDP_PORT)).unwrap();
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let destination = unused_port(network.server()[0]);
    let (reason, after) = launcher.direct(destination);
    assert_eq!(reason, FallbackReason::Silent);
    let timeout = Duration::from_millis(300);
    assert!(after + EARLY >= timeout && after < timeout + SOON, "{after:?}");
    let (reason, after) = launcher.direct(destination);
    assert_eq!(reason, FallbackReason::Remembered);
    assert!(after < SOON, "{after:?}");
    let status = launcher.status();
    assert_eq!(status.fallbacks[&FallbackReason::Silent], 1);
    assert_eq!(status.fallbacks[&FallbackReason::Remembered], 1);
    assert_eq!(status.peers[0].reason, FallbackReason::Silent);
}

#[test]
fn a_service_that_was_reached_before_has_more_time_to_answer() {
    let network = Network::new();
    let file = std::env::temp_dir().join(format!("manypath-patience-{}", std::process::id()));
    let known = || StackConfig {
        peer_memory: Some(manypath_daemon::PeerCache::named(file.clone())),
        ..network.client_config()
    };
    let destination = service(network.server()[0], echo);
    let server = Host::start(network.server_config(&[destination]));
    let (client, mut launcher) = Host::with_launcher(known());
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![3; 30]), vec![3; 30]);
    drop((client, launcher));
    drop(server);
    let _silent = UdpSocket::bind((network.server()[0], DEFAULT_UDP_PORT)).unwrap();
    let (_client, mut launcher) = Host::with_launcher(known());
    let (reason, after) = launcher.direct(destination);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(reason, FallbackReason::Silent);
    let timeout = Duration::from_millis(900);
    assert!(after + EARLY >= timeout && after < timeout + SOON, "{after:?}");
}

/// TCP and TLS take round trips before anything is asked by them.
#[test]
fn connections_and_datagrams_wait_longer_where_carriers_are_tried() {
    let network = Network::new();
    let [first, second] = network.server();
    let _silent = network.server().map(|addr| UdpSocket::bind((addr, DEFAULT_UDP_PORT)).unwrap());
    let table = Table::new(network, "remote enable udp any\n");
    let mut config = network.client_config();
    config.rules = table.file();
    config.carrying.carriers = "udp:9".parse().unwrap();
    let (_client, mut launcher) = Host::with_launcher(config);
    let timeout = Duration::from_millis(900);
    let (reason, after) = launcher.direct(unused_port(first));
    assert_eq!(reason, FallbackReason::Silent);
    assert!(after + EARLY >= timeout, "connections: {after:?}");
    let begun = Instant::now();
    let (_, reply) = launcher.open_datagrams((second, 5004).into());
    assert!(matches!(reply, Reply::Direct { reason: FallbackReason::Silent, .. }), "{reply:?}");
    assert!(begun.elapsed() + EARLY >= timeout, "datagrams: {:?}", begun.elapsed());
}

#[test]
fn a_late_answer_clears_what_was_remembered() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let silent = UdpSocket::bind((network.server()[0], DEFAULT_UDP_PORT)).unwrap();
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    assert_eq!(launcher.direct(destination).0, FallbackReason::Silent);
    drop(silent);
    let _server = Host::start(network.server_config(&[destination]));
    launcher.wait_for("a late answer", |status| status.peers.is_empty());
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![3; 30]), vec![3; 30]);
}

#[test]
fn a_host_without_a_stack_is_known_at_once() {
    let network = Network::new();
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let (reason, after) = launcher.direct(unused_port(network.server()[0]));
    assert_eq!(reason, FallbackReason::Refused);
    assert!(after < SOON, "{after:?}");
}

#[test]
fn a_stack_that_accepts_nothing_refuses_at_once() {
    let network = Network::new();
    let server = StackConfig { accept: false, ..network.server_config(&[]) };
    let _server = Host::start(server);
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let (reason, after) = launcher.direct(unused_port(network.server()[0]));
    assert_eq!(reason, FallbackReason::Refused);
    assert!(after < SOON, "{after:?}");
}

#[test]
fn a_pending_non_blocking_connect_goes_on_over_our_own_tcp() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let (transport, stream) = launcher.connect(destination, false);
    assert_eq!(transport, Transport::TcpRelay);
    let sent = crate::common::pattern(3 << 20, 1);
    assert!(exchange(stream, sent.clone()) == sent);
    assert_eq!(launcher.receive(), Reply::Closed { id: 1 });
    assert_eq!(counter(&launcher.status(), "stack_tcp_relays_started"), 1);
}

#[test]
fn a_source_port_that_the_program_occupies_does_not_matter() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_client, launcher) = Host::with_launcher(network.client_config());
    let occupied = std::net::TcpListener::bind((network.client()[0], 0)).unwrap();
    let source = occupied.local_addr().unwrap();
    launcher.send(&Request::Open { id: 9, destination, source: Some(source), blocking: false });
    assert_eq!(launcher.receive(), Reply::Pending { id: 9 });
    match launcher.receive() {
        Reply::Accepted { transport: Transport::TcpRelay, local, .. } => {
            assert_eq!(local.ip(), source.ip());
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(exchange(launcher.attach(9), vec![4; 40]), vec![4; 40]);
}

#[test]
fn a_refusal_of_plain_tcp_is_final_when_sctp_was_impossible() {
    let network = Network::new();
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let (id, first) = launcher.open(unused_port(network.server()[0]), false);
    assert_eq!(first, Reply::Pending { id });
    assert_eq!(launcher.receive(), Reply::Failed { id, errno: libc::ECONNREFUSED });
}

#[test]
fn the_race_is_won_by_sctp_when_the_peer_answers() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[destination]));
    let mut config = network.client_config();
    config.limits.tcp_head_start = Duration::ZERO;
    let (_client, mut launcher) = Host::with_launcher(config);
    let (transport, stream) = launcher.connect(destination, false);
    assert_eq!(transport, Transport::Sctp);
    assert_eq!(exchange(stream, vec![1; 10]), vec![1; 10]);
}

/// Waits for SCTP for longer than any test takes, unless TCP beside it says something.
pub(crate) fn racing(network: Network) -> StackConfig {
    let mut config = network.client_config();
    config.carrying.tcp_race = true;
    config.limits.fallback_timeout = Duration::from_secs(120);
    config
}

#[test]
fn a_silent_host_of_which_nothing_is_known_costs_no_timeout() {
    let network = Network::new();
    let _silent = UdpSocket::bind((network.server()[0], DEFAULT_UDP_PORT)).unwrap();
    let destination = service(network.server()[0], echo);
    for blocking in [true, false] {
        let (_client, mut launcher) = Host::with_launcher(racing(network));
        let (transport, stream) = launcher.connect(destination, blocking);
        assert_eq!(transport, Transport::TcpRelay);
        assert_eq!(exchange(stream, vec![2; 20]), vec![2; 20]);
        assert_eq!(launcher.direct(destination).0, FallbackReason::Remembered);
        assert_eq!(launcher.status().fallbacks[&FallbackReason::Silent], 1);
    }
}

/// A lost INIT is repeated before TCP is connected: what is sent after that is answered too late.
#[test]
fn a_host_that_has_not_got_the_first_init_is_reached_over_sctp() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let lossy = UdpSocket::bind((network.server()[0], DEFAULT_UDP_PORT)).unwrap();
    lossy.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut client = VirtualHost::new(racing(network));
    client.open(1, destination);
    assert_eq!(client.replies(0), [Reply::Pending { id: 1 }]);
    lossy.recv(&mut [0; 2000]).expect("an INIT");
    drop(lossy);
    let _server = Host::start(network.server_config(&[destination]));
    let begun = Instant::now();
    let mut replies = client.replies(2);
    while replies.is_empty() && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
        replies = client.replies(3);
    }
    assert!(
        matches!(replies[..], [Reply::Accepted { id: 1, transport: Transport::Sctp, .. }]),
        "{replies:?}"
    );
}

/// A web page names dozens of hosts: the wait for the first one is not theirs, too.
#[test]
fn of_silent_hosts_that_are_asked_at_once_the_second_has_half_of_the_grace() {
    let network = Network::new();
    let _silent = network.server().map(|addr| UdpSocket::bind((addr, DEFAULT_UDP_PORT)).unwrap());
    let services = network.server().map(|addr| service(addr, echo));
    let mut client = VirtualHost::new(racing(network));
    client.open(1, services[0]);
    client.open(2, services[1]);
    assert_eq!(client.replies(0), [Reply::Pending { id: 1 }, Reply::Pending { id: 2 }]);
    assert_eq!(client.replies(20), [], "TCP is connected, with 8 and 4 ms of grace");
    for (at, connected) in [(23, None), (24, Some(2)), (27, None), (28, Some(1))] {
        let accepted = client.replies(at).into_iter().map(|reply| match reply {
            Reply::Accepted { id, transport: Transport::TcpRelay, .. } => id,
            other => panic!("{other:?}"),
        });
        assert_eq!(accepted.collect::<Vec<_>>(), Vec::from_iter(connected), "{at} ms");
    }
}

/// Whether services of three silent hosts that are asked at once have a connection to accept, before the kernel tells them
/// of one that it has withheld (200 ms). None on a machine that was too slow to tell.
fn heard_at_once() -> Option<[bool; 3]> {
    let networks = [Network::new(), Network::new()];
    let hosts = [networks[0].server()[0], networks[0].server()[1], networks[1].server()[0]];
    let _silent = hosts.map(|addr| UdpSocket::bind((addr, DEFAULT_UDP_PORT)).unwrap());
    let services = hosts.map(|addr| std::net::TcpListener::bind((addr, 0)).unwrap());
    let mut client = VirtualHost::new(racing(networks[0]));
    let begun = Instant::now();
    for (id, service) in (1..).zip(&services) {
        service.set_nonblocking(true).unwrap();
        client.open(id, service.local_addr().unwrap());
    }
    assert_eq!(client.replies(0), [1, 2, 3].map(|id| Reply::Pending { id }));
    std::thread::sleep(Duration::from_millis(50));
    let heard = services.each_ref().map(|service| service.accept().is_ok());
    (begun.elapsed() < Duration::from_millis(150)).then_some(heard)
}

#[test]
fn of_many_silent_hosts_that_are_asked_at_once_others_than_the_first_hear_of_tcp_from_the_kernel() {
    let heard = (0..100).find_map(|_| heard_at_once());
    assert_eq!(heard, Some([false, true, true]));
}

/// Eight silent hosts that are asked within a second, and the next one, which is left to the kernel.
fn ask_a_crowd(client: &mut VirtualHost, services: &[std::net::SocketAddr]) {
    (1..).zip(services).for_each(|(id, service)| client.open(id, *service));
    let mut expected: Vec<_> = (1..=8).map(|id| Reply::Pending { id }).collect();
    expected.push(Reply::Direct { id: 9, reason: FallbackReason::OneOfMany });
    let mut replies = client.replies(0);
    replies.retain(|reply| !matches!(reply, Reply::Accepted { .. }));
    assert_eq!(replies, expected);
}

#[test]
fn of_a_crowd_of_unknown_hosts_the_ninth_is_left_to_the_kernel_and_carried_the_next_time() {
    let networks: [Network; 5] = std::array::from_fn(|_| Network::new());
    let hosts: Vec<_> = networks.iter().flat_map(|one| one.server()).take(9).collect();
    let silent = |addr: &IpAddr| UdpSocket::bind((*addr, DEFAULT_UDP_PORT)).unwrap();
    let _silent: Vec<_> = hosts[..8].iter().map(silent).collect();
    let services: Vec<_> = hosts.iter().map(|addr| service(*addr, echo)).collect();
    let _server = Host::start(networks[4].server_config(&services[8..]));
    let mut client = VirtualHost::new(racing(networks[0]));
    ask_a_crowd(&mut client, &services);
    let begun = Instant::now();
    let carried = |reply: &Reply| {
        matches!(reply, Reply::Accepted { id: 100.., transport: Transport::Sctp, .. })
    };
    for id in 100.. {
        client.open(id, services[8]);
        std::thread::sleep(Duration::from_millis(10));
        if client.replies(1).iter().any(carried) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "its answer is not heard");
    }
}

#[test]
fn a_host_for_whose_answer_nobody_waits_is_asked_once_in_the_first_second() {
    let networks: [Network; 5] = std::array::from_fn(|_| Network::new());
    let hosts: Vec<_> = networks.iter().flat_map(|one| one.server()).take(9).collect();
    let silent = |addr: &IpAddr| UdpSocket::bind((*addr, DEFAULT_UDP_PORT)).unwrap();
    let silent: Vec<_> = hosts.iter().map(silent).collect();
    let services: Vec<_> = hosts.iter().map(|addr| service(*addr, echo)).collect();
    let mut client = VirtualHost::new(racing(networks[0]));
    ask_a_crowd(&mut client, &services);
    (0..1000).step_by(10).for_each(|at| drop(client.replies(at)));
    silent[8].set_nonblocking(true).unwrap();
    assert_eq!(std::iter::from_fn(|| silent[8].recv(&mut [0; 2000]).ok()).count(), 1);
}

/// Plain TCP from its port needs its own socket.
#[test]
fn a_program_that_has_bound_a_port_keeps_it() {
    let network = Network::new();
    let _silent = UdpSocket::bind((network.server()[0], DEFAULT_UDP_PORT)).unwrap();
    let destination = service(network.server()[0], echo);
    let mut config = network.client_config();
    config.carrying.tcp_race = true;
    let (_client, launcher) = Host::with_launcher(config);
    let source = Some(SocketAddr::new(network.client()[0], 4321));
    launcher.send(&Request::Open { id: 1, destination, source, blocking: true });
    assert_eq!(launcher.receive(), Reply::Pending { id: 1 });
    let reason = FallbackReason::Silent;
    assert_eq!(launcher.receive(), Reply::Direct { id: 1, reason });
    assert_eq!(counter(&launcher.status(), "stack_tcp_races"), 0);
}

#[test]
fn a_closed_port_of_a_silent_host_is_refused_without_a_timeout() {
    let network = Network::new();
    let _silent = UdpSocket::bind((network.server()[0], DEFAULT_UDP_PORT)).unwrap();
    let (_client, mut launcher) = Host::with_launcher(racing(network));
    let (id, first) = launcher.open(unused_port(network.server()[0]), true);
    assert_eq!(first, Reply::Pending { id });
    assert_eq!(launcher.receive(), Reply::Failed { id, errno: libc::ECONNREFUSED });
}

/// A client that speaks first, so that its connection is there when the service has it.
#[test]
fn the_service_of_a_host_that_answers_sees_no_connection_of_the_race() {
    let network = Network::new();
    let (seen, accepted) = std::sync::mpsc::channel();
    let destination = service(network.server()[0], move |stream| {
        seen.send(stream.peer_addr().unwrap()).unwrap();
        echo(stream);
    });
    let _server = Host::start(network.server_config(&[destination]));
    let (_client, mut launcher) = Host::with_launcher(racing(network));
    // On a busy machine TCP may win; then it is the only one, too.
    let (_, stream) = launcher.connect(destination, true);
    assert_eq!(exchange(stream, vec![1; 10]), vec![1; 10]);
    assert_eq!(counter(&launcher.status(), "stack_tcp_races"), 1);
    assert_eq!(accepted.iter().take(1).count(), 1);
    // The kernel would have told the service after 200 ms.
    assert!(accepted.recv_timeout(Duration::from_millis(500)).is_err());
}

#[test]
fn destinations_that_lead_nowhere_else_are_left_alone() {
    let network = Network::new();
    let config = StackConfig { loopback_paths: true, ..network.client_config() };
    let (_client, mut launcher) = Host::with_launcher(config);
    let own = SocketAddr::new(network.client()[0], 80);
    assert_eq!(launcher.direct(own).0, FallbackReason::LocalAddress);
    assert_eq!(launcher.direct("224.0.0.1:80".parse().unwrap()).0, FallbackReason::NotUnicast);
    assert_eq!(launcher.direct("0.0.0.0:80".parse().unwrap()).0, FallbackReason::NotUnicast);
    assert_eq!(
        launcher.direct("[2001:db8::1]:80".parse().unwrap()).0,
        FallbackReason::NoLocalAddress
    );
    assert!(launcher.status().associations.is_empty());
}

#[test]
fn what_a_peer_does_not_allow_is_remembered_for_that_service_only() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let hidden = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[open]));
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    assert_eq!(launcher.direct(hidden).0, FallbackReason::NotAllowed);
    assert_eq!(launcher.direct(hidden).0, FallbackReason::Remembered);
    assert_eq!(exchange(launcher.connect_sctp(open), vec![3; 30]), vec![3; 30]);
    let also_hidden = service(network.server()[0], echo);
    let (transport, stream) = launcher.connect(also_hidden, false);
    assert_eq!(transport, Transport::TcpRelay);
    assert_eq!(exchange(stream, vec![2; 20]), vec![2; 20]);
}

/// It has answered the INIT, and that was all.
#[test]
fn a_peer_that_dies_in_the_handshake_is_given_up() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let config =
        Config { port: SCTP_PORT, adaptation: Some(ADAPTATION), accept: true, ..Config::default() };
    let mut peer = Peer::new(network.server()[0], UdpPort::Fixed(DEFAULT_UDP_PORT), config);
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let answering = std::thread::spawn(move || peer.answer_once());
    let (_, after) = launcher.direct(destination);
    answering.join().unwrap();
    assert!(after < Duration::from_secs(1), "{after:?}");
    let given_up = |status: &StackStatus| counter(status, "stack_setups_given_up") == 1;
    launcher.wait_for("the end of the association", given_up);
    assert!(launcher.status().associations.is_empty());
    assert_eq!(launcher.status().peers[0].reason, FallbackReason::Silent);
}

/// A launcher that does not wait for the first answer is told where it should have.
#[test]
fn a_launcher_hears_what_would_have_been_left_to_the_kernel() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let id = launcher.open_waiting(destination);
    assert_eq!(launcher.receive(), Reply::Pending { id }, "nothing is known of it");
    assert!(matches!(launcher.receive(), Reply::Accepted { transport: Transport::TcpRelay, .. }));
    drop(launcher.attach(id));
    let id = launcher.open_waiting(destination);
    assert_eq!(launcher.answer(id), Reply::Plain { destination, for_ms: 0 });
    assert_eq!(launcher.answer(id), Reply::Pending { id });
    let accepted = launcher.answer(id);
    assert!(matches!(accepted, Reply::Accepted { transport: Transport::TcpRelay, .. }));
    assert_eq!(exchange(launcher.attach(id), vec![7; 70]), vec![7; 70]);
}
