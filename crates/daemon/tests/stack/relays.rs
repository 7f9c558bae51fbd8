//! Connections that a relay leads on to hosts without manypath.

use crate::common::peer::Peer;
use crate::common::{
    Host, LIMIT, Launcher, Network, Table, counter, echo, exchange, pattern, reset, service,
    unused_port,
};
use crate::encryption::{Folder, errno, key_of};
use crate::restarts::Pair;
use manypath_control::status::{FallbackReason, RelayedPeerStatus, StackStatus};
use manypath_control::{Reply, Transport};
use manypath_daemon::{DEFAULT_UDP_PORT, Doors, RelayConfig, StackConfig};
use manypath_engine::CloseReason;
use manypath_flow::message::{Body, Control, Parsed, RelayBody, RelayOpen};
use manypath_flow::{PPID_CONTROL, Refusal};
use manypath_rules::Encrypt;
use manypath_rules::paths::Budget;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

/// A client, a relay, and a third host without manypath.
pub(crate) struct Ground {
    pub(crate) network: Network,
    pub(crate) folder: Folder,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let network = Network::new();
        let ground = Self { network, folder: Folder::new(network) };
        ground.authorize(&["client"]);
        ground
    }

    /// Those that the relay takes.
    pub(crate) fn authorize(&self, hosts: &[&str]) {
        let line = |host: &&str| format!("{} {host}\n", key_of(&self.folder.files(host)));
        let list: String = hosts.iter().map(line).collect();
        fs::write(self.list(), list).unwrap();
    }

    pub(crate) fn list(&self) -> std::path::PathBuf {
        self.folder.0.join("authorized")
    }

    /// The third host.
    pub(crate) fn far(&self) -> IpAddr {
        let IpAddr::V4(server) = self.network.server()[0] else { unreachable!() };
        let [a, b, c, _] = server.octets();
        Ipv4Addr::new(a, b, c, 9).into()
    }

    /// A relay that connects to the third host and nowhere else.
    pub(crate) fn relay(&self) -> StackConfig {
        let mut keys = self.folder.files("relay");
        keys.authorized_peers = Some(self.list());
        let to = vec![format!("{}", self.far()).parse().unwrap()];
        StackConfig {
            relay: Some(RelayConfig { to, connections: 8, quota: None }),
            encrypt: Encrypt::Require,
            keys: Some(keys),
            ..self.network.server_config(&[])
        }
    }

    pub(crate) fn client(&self) -> StackConfig {
        let via = self.network.server()[0].to_string().parse().unwrap();
        let keys = Some(self.folder.files("client"));
        StackConfig { via: Some(via), keys, ..self.network.client_config() }
    }
}

pub(crate) fn relayed(status: &StackStatus) -> &RelayedPeerStatus {
    let [one] = &status.relaying.relayed_peers[..] else {
        panic!("{:?}", status.relaying.relayed_peers)
    };
    one
}

#[test]
fn a_connection_goes_by_the_relay_to_a_host_without_manypath() {
    let ground = Ground::new();
    let (_relay, at_relay) = Host::with_launcher(ground.relay());
    let (_client, mut launcher) = Host::with_launcher(ground.client());
    let destination = service(ground.far(), echo);
    for blocking in [true, false] {
        let (transport, stream) = launcher.connect(destination, blocking);
        assert_eq!(transport, Transport::Sctp);
        let status = launcher.status();
        let [association] = &status.associations[..] else { panic!("{status:#?}") };
        assert_eq!(association.encryption.as_ref().unwrap().state, "encrypted");
        let flow = association.flows.last().unwrap();
        assert_eq!(flow.destination, destination);
        assert_eq!(flow.beyond.as_deref(), Some(destination.to_string().as_str()));
        let sent = pattern(3 << 20, 7);
        assert!(exchange(stream, sent.clone()) == sent);
    }
    let status = at_relay.wait_for("the end", |status| relayed(status).open == 0);
    let peer = relayed(&status);
    assert_eq!((peer.opened, peer.denied, peer.failed), (2, 0, 0));
    assert_eq!(peer.to_destinations_bytes, 2 * (3 << 20));
    assert_eq!(peer.from_destinations_bytes, 2 * (3 << 20));
    assert_eq!(counter(&launcher.status(), "stack_opens_by_relay"), 2);
}

#[test]
fn what_the_relay_meets_is_what_the_program_meets() {
    let ground = Ground::new();
    let (_relay, at_relay) = Host::with_launcher(ground.relay());
    let (_client, mut launcher) = Host::with_launcher(ground.client());
    assert_eq!(errno(&mut launcher, unused_port(ground.far())), libc::ECONNREFUSED);
    assert_eq!(relayed(&at_relay.status()).failed, 1);
    // A reset comes through in either direction.
    let resets = service(ground.far(), |mut stream: TcpStream| {
        let _ = stream.read(&mut [0; 1]);
        reset(stream);
    });
    let mut stream = launcher.connect_sctp(resets);
    stream.write_all(b"x").unwrap();
    let ended = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(ended.kind(), std::io::ErrorKind::ConnectionReset);
    let (told, heard) = std::sync::mpsc::channel();
    let waits = service(ground.far(), move |mut stream: TcpStream| {
        let _ = told.send(stream.read(&mut [0; 1]).map_err(|error| error.kind()));
    });
    reset(launcher.connect_sctp(waits));
    let heard = heard.recv_timeout(LIMIT).unwrap();
    assert_eq!(heard, Err(std::io::ErrorKind::ConnectionReset));
}

#[test]
fn destinations_that_are_not_named_stay_closed_and_are_reached_without_the_relay() {
    let ground = Ground::new();
    let (_relay, at_relay) = Host::with_launcher(ground.relay());
    let (_client, mut launcher) = Host::with_launcher(ground.client());
    let IpAddr::V4(far) = ground.far() else { unreachable!() };
    // Another host of the network, and one more address of the relay.
    for closed in [far.to_bits() + 1, far.to_bits() - 7 + (1 << 8)] {
        let destination = SocketAddr::new(Ipv4Addr::from_bits(closed).into(), 80);
        assert_eq!(launcher.direct(destination).0, FallbackReason::NotRelayed, "{destination}");
    }
    assert_eq!(relayed(&at_relay.status()).denied, 2);
    // Connections to the relay itself are direct.
    let (reason, _) = launcher.direct(SocketAddr::new(ground.network.server()[0], 80));
    assert_ne!(reason, FallbackReason::NotRelayed);
    assert_eq!(relayed(&at_relay.status()).denied, 2);
}

/// What a SOCKS client hears that names `host`.
fn socks(at: SocketAddr, host: &str, port: u16) -> (TcpStream, u8) {
    let mut client = TcpStream::connect(at).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    let length = u8::try_from(host.len()).unwrap();
    let head = [5, 1, 0, 5, 1, 0, 3, length];
    client.write_all(&[&head[..], host.as_bytes(), &port.to_be_bytes()].concat()).unwrap();
    let mut answer = [0; 12];
    client.read_exact(&mut answer).unwrap();
    (client, answer[3])
}

#[test]
fn clients_of_a_door_go_by_the_relay_and_names_are_looked_up_there() {
    let ground = Ground::new();
    let (_relay, at_relay) = Host::with_launcher(ground.relay());
    let listener = TcpListener::bind((ground.network.client()[0], 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let (proxies, lans, clients) = (vec![listener], Vec::new(), Vec::new());
    let doors = Doors {
        proxies,
        lans,
        lan_datagrams: Vec::new(),
        tun: None,
        dns: None,
        clients,
        users: None,
        max_clients: 10,
    };
    let (_client, status) =
        Host::with_launcher(StackConfig { doors: Some(doors), ..ground.client() });
    let far = service(ground.far(), echo);
    let (stream, code) = socks(at, &far.ip().to_string(), far.port());
    assert_eq!(code, 0);
    let sent = pattern(100_000, 7);
    assert!(exchange(stream, sent.clone()) == sent);
    // RFC 6761 section 6.4: it does not exist.
    assert_eq!(socks(at, "nobody.invalid", 80).1, 4);
    assert_eq!((relayed(&at_relay.status()).opened, relayed(&at_relay.status()).failed), (2, 1));
    // The relay does not lead to its own loopback: the name means this host then.
    let here = service("127.0.0.1".parse().unwrap(), echo);
    let (stream, code) = socks(at, "localhost", here.port());
    assert_eq!(code, 0);
    assert!(exchange(stream, sent.clone()) == sent);
    assert_eq!(counter(&status.status(), "stack_opens_by_relay"), 3);
}

#[test]
fn who_has_used_up_the_quota_of_the_relay_gets_nothing_more_by_it() {
    let ground = Ground::new();
    let mut config = ground.relay();
    config.relay.as_mut().unwrap().quota = Budget::parse("1MB/day");
    let (_relay, at_relay) = Host::with_launcher(config);
    let (_client, mut launcher) = Host::with_launcher(ground.client());
    let destination = service(ground.far(), echo);
    let sent = pattern(300_000, 7);
    assert!(exchange(launcher.connect_sctp(destination), sent.clone()) == sent);
    let [quota] = &at_relay.status().quotas[..] else { panic!("{:#?}", at_relay.status()) };
    assert_eq!((quota.used_bytes, quota.used_up), (600_000, false));
    assert!(exchange(launcher.connect_sctp(destination), sent.clone()) == sent);
    assert_eq!(launcher.direct(destination).0, FallbackReason::OverQuota);
    let status = at_relay.status();
    assert_eq!(counter(&status, "stack_onward_denied_over_quota"), 1);
    assert_eq!(relayed(&status).denied, 1);
    assert!(status.quotas[0].used_up);
}

#[test]
fn only_authorized_peers_are_relayed() {
    let ground = Ground::new();
    ground.authorize(&["other"]);
    let (_relay, at_relay) = Host::with_launcher(ground.relay());
    let (_client, mut launcher) = Host::with_launcher(ground.client());
    let listener = TcpListener::bind((ground.far(), 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let (reason, _) = launcher.direct(listener.local_addr().unwrap());
    assert_eq!(reason, FallbackReason::NotAuthorized);
    let status = at_relay.status();
    assert!(status.relaying.relayed_peers.is_empty(), "{:?}", status.relaying.relayed_peers);
    assert_eq!(counter(&status, "stack_peers_not_authorized"), 1);
    assert!(listener.accept().is_err(), "the relay has connected for a stranger");
}

/// Who breaks the protocol gets no further than who keeps it.
#[test]
fn a_stranger_that_asks_without_a_key_is_refused() {
    let ground = Ground::new();
    let (_relay, at_relay) = Host::with_launcher(ground.relay());
    let mut peer = Peer::client(ground.network.client()[0]);
    let relay = SocketAddr::new(ground.network.server()[0], DEFAULT_UDP_PORT);
    peer.connect(relay);
    let closed = peer.wait_closed();
    assert!(matches!(closed, CloseReason::PeerAborted(_)), "{closed:?}");
    assert!(at_relay.status().relaying.relayed_peers.is_empty());
    // A server that is no relay relays nothing either, whoever asks.
    let ground = Ground::new();
    let (_server, at_server) = Host::with_launcher(ground.network.server_config(&[]));
    let mut peer = Peer::client(ground.network.client()[0]);
    let id = peer.establish(SocketAddr::new(ground.network.server()[0], DEFAULT_UDP_PORT));
    let listener = TcpListener::bind((ground.far(), 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let beyond = listener.local_addr().unwrap().into();
    let open = RelayOpen { window: 65536, source: unused_port(ground.far()), beyond };
    let body = Body::Relay(RelayBody::Open(Box::new(open)));
    let open = Control { from_opener: true, generation: 1, body };
    peer.tell(id, PPID_CONTROL.0, open.encode().to_vec());
    let answer = Control::parse(&peer.hear_message(id).payload).unwrap();
    let refused =
        Control { from_opener: false, generation: 1, body: Body::Refuse(Refusal::NotRelay) };
    assert_eq!(answer, Parsed::Control(refused));
    assert!(listener.accept().is_err());
    assert_eq!(counter(&at_server.status(), "flow_refused"), 1);
}

#[test]
fn a_host_that_is_no_relay_says_so_at_once_and_is_not_asked_again() {
    let ground = Ground::new();
    let StackConfig { keys, encrypt, .. } = ground.relay();
    let server = StackConfig { keys, encrypt, ..ground.network.server_config(&[]) };
    let _server = Host::start(server);
    let (_client, mut launcher) = Host::with_launcher(ground.client());
    let destination = service(ground.far(), echo);
    assert_eq!(launcher.direct(destination).0, FallbackReason::NotRelay);
    assert_eq!(launcher.direct(destination).0, FallbackReason::Remembered);
    assert_eq!(counter(&launcher.status(), "stack_opens_by_relay"), 1);
}

#[test]
fn a_peer_has_no_more_connections_than_it_may() {
    let ground = Ground::new();
    let mut config = ground.relay();
    config.relay.as_mut().unwrap().connections = 2;
    let (_relay, at_relay) = Host::with_launcher(config);
    let (_client, mut launcher) = Host::with_launcher(ground.client());
    let destination = service(ground.far(), echo);
    let held: Vec<_> = (0..2).map(|_| launcher.connect_sctp(destination)).collect();
    assert_eq!(launcher.direct(destination).0, FallbackReason::Busy);
    assert_eq!(relayed(&at_relay.status()).denied, 1);
    for stream in held {
        assert_eq!(exchange(stream, vec![1; 9]), vec![1; 9]);
    }
    at_relay.wait_for("room", |status| relayed(status).open == 0);
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![1; 9]), vec![1; 9]);
}

#[test]
fn the_next_relay_is_used_when_one_is_not_there_or_is_none() {
    let ground = Ground::new();
    let _relay = Host::start(ground.relay());
    let IpAddr::V4(far) = ground.far() else { unreachable!() };
    let nobody = Ipv4Addr::from_bits(far.to_bits() + 1);
    let via = format!("{nobody},{}", ground.network.server()[0]);
    let config = StackConfig { via: Some(via.parse().unwrap()), ..ground.client() };
    let (_client, mut launcher) = Host::with_launcher(config);
    let destination = service(ground.far(), echo);
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![1; 9]), vec![1; 9]);
    assert_eq!(counter(&launcher.status(), "stack_relays_passed_over"), 1);
    // The first one is remembered.
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![1; 9]), vec![1; 9]);
    assert_eq!(counter(&launcher.status(), "stack_relays_passed_over"), 1);
}

#[test]
fn without_a_relay_connections_are_plain_or_refused_as_the_rule_says() {
    let ground = Ground::new();
    let relay = Host::start(ground.relay());
    let [free, bound] = [(); 2].map(|()| service(ground.far(), echo));
    let table = Table::new(
        ground.network,
        &format!(
            "remote enable port {} sctp-only=on\nremote enable port 2009 via=off\n",
            bound.port()
        ),
    );
    let config = StackConfig { rules: table.file(), ..ground.client() };
    let (_client, mut launcher) = Host::with_launcher(config);
    for destination in [free, bound] {
        assert_eq!(exchange(launcher.connect_sctp(destination), vec![1; 9]), vec![1; 9]);
    }
    // The relay hears nothing of what a rule excludes.
    let excluded = SocketAddr::new(ground.far(), 2009);
    let (reason, _) = launcher.direct(excluded);
    assert!(matches!(reason, FallbackReason::Refused | FallbackReason::Silent), "{reason}");
    assert_eq!(counter(&launcher.status(), "stack_opens_by_relay"), 2);
    drop(relay);
    let begun = Instant::now();
    while launcher.status().associations.iter().any(|one| one.encryption.is_some()) {
        assert!(begun.elapsed() < LIMIT, "the association outlives its relay");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let (reason, _) = launcher.direct(free);
    assert!(matches!(reason, FallbackReason::Refused | FallbackReason::Silent), "{reason}");
    let refused = errno(&mut launcher, bound);
    assert!([libc::ECONNREFUSED, libc::ETIMEDOUT].contains(&refused), "{refused}");
}

#[test]
fn a_rule_leads_some_destinations_by_a_relay_and_others_not() {
    let ground = Ground::new();
    let _relay = Host::start(ground.relay());
    let [by_relay, other] = [(); 2].map(|()| service(ground.far(), echo));
    let rule =
        format!("remote enable port {} via={}\n", by_relay.port(), ground.network.server()[0]);
    let table = Table::new(ground.network, &rule);
    let config = StackConfig { rules: table.file(), via: None, ..ground.client() };
    let (_client, mut launcher) = Host::with_launcher(config);
    assert_eq!(exchange(launcher.connect_sctp(by_relay), vec![1; 9]), vec![1; 9]);
    let (reason, _) = launcher.direct(other);
    assert!(matches!(reason, FallbackReason::Refused | FallbackReason::Silent), "{reason}");
    assert_eq!(counter(&launcher.status(), "stack_opens_by_relay"), 1);
}

#[test]
fn relays_are_chained_by_their_own_rules() {
    let ground = Ground::new();
    ground.authorize(&["client", "relay"]);
    let last = Network::new();
    let mut config = StackConfig { keys: None, ..last.server_config(&[]) };
    let mut keys = ground.folder.files("last");
    keys.authorized_peers = Some(ground.list());
    (config.keys, config.encrypt) = (Some(keys), Encrypt::Require);
    config.relay = ground.relay().relay;
    let (_last, at_last) = Host::with_launcher(config);
    let via = last.server()[0].to_string().parse().unwrap();
    let config = StackConfig { via: Some(via), ..ground.relay() };
    let (relay, at_relay) = Host::with_launcher(config);
    let (_client, mut launcher) = Host::with_launcher(ground.client());
    let destination = service(ground.far(), echo);
    let sent = pattern(1 << 20, 3);
    assert!(exchange(launcher.connect_sctp(destination), sent.clone()) == sent);
    let ended = |launcher: &Launcher| {
        let status = launcher.wait_for("the end", |status| relayed(status).open == 0);
        relayed(&status).to_destinations_bytes
    };
    assert_eq!([ended(&at_relay), ended(&at_last)], [1 << 20; 2]);
    assert_eq!(errno(&mut launcher, unused_port(ground.far())), libc::ECONNREFUSED);
    assert_eq!(counter(&at_relay.status(), "stack_onward_chained"), 2);
    // A reset passes through both, and nothing is left.
    let (told, heard) = std::sync::mpsc::channel();
    let waits = service(ground.far(), move |mut stream: TcpStream| {
        let _ = told.send(stream.read(&mut [0; 1]).map_err(|error| error.kind()));
    });
    reset(launcher.connect_sctp(waits));
    assert_eq!(heard.recv_timeout(LIMIT).unwrap(), Err(std::io::ErrorKind::ConnectionReset));
    assert_eq!([ended(&at_relay), ended(&at_last)], [1 << 20; 2]);
    drop(relay);
}

#[test]
fn when_the_last_relay_of_a_chain_is_gone_the_one_before_connects_itself() {
    let ground = Ground::new();
    let via = Network::new().server()[0].to_string().parse().unwrap();
    let config = StackConfig { via: Some(via), ..ground.relay() };
    let (_relay, at_relay) = Host::with_launcher(config);
    let (_client, mut launcher) = Host::with_launcher(ground.client());
    let destination = service(ground.far(), echo);
    assert_eq!(exchange(launcher.connect_sctp(destination), vec![1; 9]), vec![1; 9]);
    let status = at_relay.wait_for("the end", |status| relayed(status).open == 0);
    assert_eq!(relayed(&status).to_destinations_bytes, 9);
}

#[test]
fn two_relays_that_name_each_other_do_not_lead_in_circles() {
    let ground = Ground::new();
    ground.authorize(&["client", "relay", "second"]);
    let second = Network::new();
    let by = |network: Network| Some(network.server()[0].to_string().parse().unwrap());
    let mut keys = ground.folder.files("second");
    keys.authorized_peers = Some(ground.list());
    let config = StackConfig {
        locals: second.server_config(&[]).locals,
        keys: Some(keys),
        via: by(ground.network),
        ..ground.relay()
    };
    let (_second, at_second) = Host::with_launcher(config);
    let (_first, at_first) = Host::with_launcher(StackConfig { via: by(second), ..ground.relay() });
    let (_client, mut launcher) = Host::with_launcher(ground.client());
    let destination = service(ground.far(), echo);
    for round in 1..=2 {
        assert_eq!(exchange(launcher.connect_sctp(destination), vec![1; 9]), vec![1; 9]);
        assert_eq!(counter(&at_first.status(), "stack_onward_denied_circle"), round);
        let second = at_second.status();
        assert_eq!(second.fallbacks.get(&FallbackReason::RelayCircle), Some(&round), "{second:?}");
        assert_eq!(counter(&second, "stack_onward_chained"), round);
    }
    // The client's connections alone have gone on.
    let status = at_first.wait_for("the ends", |status| {
        status.relaying.relayed_peers.iter().all(|peer| peer.open == 0)
    });
    let denied: u64 = status.relaying.relayed_peers.iter().map(|peer| peer.denied).sum();
    assert_eq!((status.relaying.relayed_peers.len(), denied), (2, 2));
}

#[test]
fn a_relay_that_would_be_open_does_not_start() {
    let ground = Ground::new();
    let without_list = StackConfig { keys: Some(ground.folder.files("relay")), ..ground.relay() };
    let unencrypted = StackConfig { encrypt: Encrypt::Opportunistic, ..ground.relay() };
    for config in [without_list, unencrypted] {
        let error = manypath_daemon::Stack::new(config).unwrap_err().to_string();
        assert!(error.contains("--authorized FILE"), "{error}");
    }
}

/// The client gives up before the relay has an answer.
#[test]
fn a_connect_that_is_given_up_leaves_nothing_at_the_relay() {
    let ground = Ground::new();
    let (_relay, at_relay) = Host::with_launcher(ground.relay());
    let (_client, mut launcher) = Host::with_launcher(ground.client());
    let destination = service(ground.far(), echo);
    drop(launcher.connect_sctp(destination));
    at_relay.wait_for("the end", |status| relayed(status).open == 0);
    let (id, reply) = launcher.open(destination, true);
    assert_eq!(reply, Reply::Pending { id });
    at_relay.wait_for("the request", |status| relayed(status).opened == 2);
    launcher.send(&manypath_control::Request::Cancel { id });
    at_relay.wait_for("nothing", |status| relayed(status).open == 0);
}

#[test]
fn a_relay_that_was_killed_and_started_anew_is_used_again_within_a_handshake() {
    let ground = Ground::new();
    let destination = service(ground.far(), echo);
    let mut pair = Pair::between(ground.client(), || ground.relay());
    pair.connect_sctp(destination);
    pair.kill();
    pair.start();
    for _ in 0..2 {
        let took = pair.connect_sctp(destination);
        assert!(took < 100, "{took} ms");
    }
    let status = pair.client.status();
    assert_eq!(counter(&status, "stack_opens_moved"), 1);
    assert_eq!(counter(&status, "stack_opens_by_relay"), 3);
}

#[test]
fn a_relay_that_is_away_for_a_while_is_used_again_as_soon_as_it_is_back() {
    let ground = Ground::new();
    let destination = service(ground.far(), echo);
    let mut pair = Pair::between(ground.client(), || ground.relay());
    pair.connect_sctp(destination);
    pair.kill();
    let (reply, took) = pair.connect(destination);
    assert!(matches!(&reply, Reply::Accepted { transport: Transport::TcpRelay, .. }), "{reply:?}");
    assert!(took < 200, "{took} ms");
    pair.start();
    let took = pair.connect_sctp(destination);
    assert!(took < 100, "{took} ms");
}
