//! Peers of encrypted associations that are killed and started anew, and others who say so of them.

use crate::common::{Host, LIMIT, Network, VirtualHost, counter, echo, exchange, service};
use crate::encryption::{Folder, Middle, behind, client, server, through};
use manypath_control::{Reply, Transport};
use manypath_daemon::{KeyFiles, StackConfig};
use manypath_rules::Encrypt::{self, Opportunistic, Require};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A client and a server that are turned together, and a server that can be killed.
pub(crate) struct Pair<'a> {
    pub(crate) client: VirtualHost,
    server: Option<VirtualHost>,
    config: Box<dyn Fn() -> StackConfig + 'a>,
    now: u64,
    last: u64,
}

impl<'a> Pair<'a> {
    fn new(network: Network, encrypt: Encrypt, files: KeyFiles, destination: SocketAddr) -> Self {
        let config = move || StackConfig {
            keys: Some(files.clone()),
            ..server(network, encrypt, &[destination])
        };
        Self::between(client(network, encrypt), config)
    }

    pub(crate) fn between(client: StackConfig, server: impl Fn() -> StackConfig + 'a) -> Self {
        let (client, config) = (VirtualHost::new(client), Box::new(server));
        let mut pair = Self { client, server: None, config, now: 0, last: 0 };
        pair.start();
        pair
    }

    /// Its process ends without a word.
    pub(crate) fn kill(&mut self) {
        self.server = None;
    }

    pub(crate) fn start(&mut self) {
        let config = StackConfig { seed: Some([2; 32]), ..(self.config)() };
        self.server = Some(VirtualHost::new(config));
    }

    fn turn(&mut self) -> Vec<Reply> {
        self.now += 1;
        let now = self.now;
        self.server.iter_mut().for_each(|server| drop(server.replies(now)));
        self.client.replies(now)
    }

    /// Connects; what the program hears, and after how many milliseconds.
    pub(crate) fn connect(&mut self, destination: SocketAddr) -> (Reply, u64) {
        self.last += 1;
        self.client.open(self.last, destination);
        let (begun, real) = (self.now, Instant::now());
        loop {
            assert!(real.elapsed() < LIMIT, "{:#?}", self.client.status());
            let heard =
                |reply: &Reply| !matches!(reply, Reply::Pending { .. } | Reply::Closed { .. });
            if let Some(reply) = self.turn().into_iter().find(heard) {
                return (reply, self.now - begun);
            }
        }
    }

    pub(crate) fn connect_sctp(&mut self, destination: SocketAddr) -> u64 {
        let (reply, took) = self.connect(destination);
        let carried =
            matches!(&reply, Reply::Accepted { transport, .. } if *transport == Transport::Sctp);
        assert!(carried, "{reply:?}: {:#?}", self.client.status());
        took
    }
}

#[test]
fn a_server_that_was_killed_and_started_anew_is_reached_encrypted_within_a_handshake() {
    for encrypt in [Opportunistic, Require] {
        let network = Network::new();
        let folder = Folder::new(network);
        let destination = service(network.server()[0], echo);
        let mut pair = Pair::new(network, encrypt, folder.files("server"), destination);
        pair.connect_sctp(destination);
        pair.kill();
        pair.start();
        let took = pair.connect_sctp(destination);
        assert!(took < 100, "{encrypt:?}: {took} ms");
        let status = pair.client.status();
        assert_eq!(counter(&status, "stack_opens_moved"), 1);
        let found: Vec<_> = status.associations.iter().map(|one| &one.encryption).collect();
        assert_eq!(found.len(), 2, "the old one is not given up yet");
        assert_eq!(found[1].as_ref().unwrap().standing.as_deref(), Some("known"));
        // Further connects use it at once, until the old one is given up and after that.
        for _ in 0..2 {
            assert!(pair.connect_sctp(destination) < 100);
            (0..3_000).for_each(|_| drop(pair.turn()));
        }
        let status = pair.client.status();
        assert_eq!(status.associations.len(), 1);
        assert_eq!(counter(&status, "stack_associations_encrypted"), 2);
    }
}

#[test]
fn a_server_that_is_away_for_a_while_is_found_again_as_soon_as_it_is_back() {
    let network = Network::new();
    let folder = Folder::new(network);
    let destination = service(network.server()[0], echo);
    let mut pair = Pair::new(network, Opportunistic, folder.files("server"), destination);
    pair.connect_sctp(destination);
    pair.kill();
    let (reply, took) = pair.connect(destination);
    assert!(matches!(&reply, Reply::Accepted { transport: Transport::TcpRelay, .. }), "{reply:?}");
    assert!(took < 200, "{took} ms");
    pair.start();
    assert!(pair.connect_sctp(destination) < 100);
}

/// An ABORT with the reflected tag of the packet, as from a host that does not know its association.
fn abort_for(packet: &[u8]) -> Vec<u8> {
    const ABORT: [u8; 4] = [6, 1, 0, 4];
    [&packet[2..4], &packet[..2], &packet[4..8], &[0; 4], &ABORT].concat()
}

#[test]
fn who_forges_aborts_ends_no_connection_and_keeps_none_from_being_made() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let middle = Middle::between(network);
    let _server = Host::start(behind(network, Opportunistic, &[destination]));
    let (_client, mut launcher) = Host::with_launcher(through(network, Opportunistic));
    let first = launcher.connect_sctp(destination);
    let sent = |packet: &&Vec<u8>| packet[2..4] == manypath_flow::SCTP_PORT.to_be_bytes();
    let abort = {
        let seen = middle.seen.lock().unwrap();
        abort_for(seen.iter().rfind(sent).unwrap())
    };
    std::thread::scope(|scope| {
        let forger = scope.spawn(|| {
            for _ in 0..100 {
                middle.forge(&mut abort.clone());
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        while !forger.is_finished() {
            let sent = vec![3; 30];
            assert_eq!(exchange(launcher.connect_sctp(destination), sent.clone()), sent);
        }
    });
    assert_eq!(exchange(first, vec![4; 40]), [4; 40]);
    let status = launcher.status();
    let doubted = counter(&status, "sctp_doubted_peers");
    assert!(doubted > 0, "{:#?}", status.counters);
    assert!(status.associations.iter().all(|one| one.encryption.is_some()));
    assert!(status.fallbacks.is_empty(), "{:?}", status.fallbacks);
}
