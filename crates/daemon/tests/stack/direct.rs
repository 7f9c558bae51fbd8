//! Connections in the direct form: with native programs, and between two stacks.

use crate::common::peer::Peer;
use crate::common::{
    Host, Launcher, Network, Table, counter, echo, exchange, pattern, reset, service, unused_port,
};
use manypath_control::status::FallbackReason;
use manypath_control::{Reply, Request, Transport};
use manypath_daemon::{DEFAULT_UDP_PORT, StackConfig};
use manypath_engine::{CloseReason, Config};
use manypath_net::UdpPort;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// A native program that accepts associations at SCTP port `port` of the server's first address.
fn native_server(network: Network, port: u16) -> (Peer, SocketAddr) {
    let config = Config { port, accept: true, ..Config::default() };
    let addr = network.server()[0];
    let peer = Peer::new(addr, UdpPort::Fixed(DEFAULT_UDP_PORT), config);
    (peer, SocketAddr::new(addr, port))
}

/// A native program that begins associations.
fn native_client(network: Network) -> Peer {
    let config = Config { port: 40_000, ..Config::default() };
    Peer::new(network.client()[0], UdpPort::Ephemeral, config)
}

/// Asks for a connection to a native server and serves the server until it is there.
fn connect(
    launcher: &Launcher,
    peer: &mut Peer,
    destination: SocketAddr,
    id: u64,
) -> (TcpStream, manypath_engine::AssociationId) {
    launcher.send(&Request::Open { id, destination, source: None, blocking: true });
    let association = peer.accept();
    // The COOKIE ACK has left.
    let replies = std::iter::repeat_with(|| launcher.receive());
    // Earlier connections end when they do.
    let mut replies =
        replies.filter(|reply| !matches!(reply, Reply::Closed { id: ended } if *ended < id));
    assert_eq!(replies.next(), Some(Reply::Pending { id }));
    let reply = replies.next();
    let Some(Reply::Accepted { transport, peer, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!((transport, peer), (Transport::Sctp, destination));
    (launcher.attach(id), association)
}

fn read_all(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

#[test]
fn a_program_talks_to_a_native_server() {
    let network = Network::new();
    let (mut peer, destination) = native_server(network, 8080);
    let (_client, launcher) = Host::with_launcher(network.client_config());
    for id in 1..=2 {
        let (mut stream, association) = connect(&launcher, &mut peer, destination, id);
        stream.write_all(b"question").unwrap();
        assert_eq!(peer.hear(association, 8), b"question");
        let answer = pattern(1_000_000, id);
        let reader = stream.try_clone().unwrap();
        let reading = std::thread::spawn(move || read_all(&reader));
        peer.say(association, &answer);
        // Its end is the end of both directions.
        peer.shutdown(association);
        while !reading.is_finished() {
            peer.turn();
        }
        assert!(reading.join().unwrap() == answer);
    }
    let status = launcher.status();
    // The second time it was known what the peer is.
    assert_eq!(counter(&status, "stack_associations_aborted_by_peer"), 1);
    assert_eq!(counter(&status, "stack_direct_associations_begun"), 2);
    assert!(status.fallbacks.is_empty(), "{:?}", status.fallbacks);
}

#[test]
fn what_a_program_sent_before_its_end_reaches_a_native_server() {
    let network = Network::new();
    let (mut peer, destination) = native_server(network, 8080);
    let (_client, launcher) = Host::with_launcher(network.client_config());
    let (mut stream, association) = connect(&launcher, &mut peer, destination, 1);
    let sent = pattern(3_000_000, 5);
    let bytes = sent.clone();
    let writing = std::thread::spawn(move || stream.write_all(&bytes).unwrap());
    assert!(peer.hear(association, sent.len()) == sent);
    writing.join().unwrap();
    assert_eq!(peer.wait_closed(), CloseReason::Graceful);
    launcher.wait_for("the end", |status| status.associations.is_empty());
    assert_eq!(counter(&launcher.status(), "stack_relays_finished"), 1);
}

/// Half-close cannot be told to a native peer: it hears SHUTDOWN, and what it has queued still comes.
#[test]
fn a_half_close_ends_the_association_with_a_native_server() {
    let network = Network::new();
    let (mut peer, destination) = native_server(network, 8080);
    let (_client, launcher) = Host::with_launcher(network.client_config());
    let (mut stream, association) = connect(&launcher, &mut peer, destination, 1);
    stream.write_all(b"ask").unwrap();
    assert_eq!(peer.hear(association, 3), b"ask");
    peer.say(association, b"early");
    let mut early = [0; 5];
    stream.read_exact(&mut early).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(peer.wait_closed(), CloseReason::Graceful);
    assert_eq!(read_all(&stream), b"");
}

#[test]
fn a_reset_passes_both_ways_between_program_and_native_server() {
    let network = Network::new();
    let (mut peer, destination) = native_server(network, 8080);
    let (_client, launcher) = Host::with_launcher(network.client_config());
    let (stream, _) = connect(&launcher, &mut peer, destination, 1);
    reset(stream);
    assert!(matches!(peer.wait_closed(), CloseReason::PeerAborted(_)));
    let (mut stream, association) = connect(&launcher, &mut peer, destination, 2);
    peer.say(association, b"hello");
    stream.read_exact(&mut [0; 5]).unwrap();
    peer.abort(association);
    let error = stream.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

/// A native server that ends says so to a program that goes on sending.
#[test]
fn a_program_that_goes_on_sending_to_a_native_server_that_has_ended_is_reset() {
    let network = Network::new();
    let (mut peer, destination) = native_server(network, 8080);
    let (_client, launcher) = Host::with_launcher(network.client_config());
    let (mut stream, association) = connect(&launcher, &mut peer, destination, 1);
    peer.say(association, b"bye");
    peer.shutdown(association);
    assert_eq!(peer.wait_closed(), CloseReason::Graceful);
    assert_eq!(read_all(&stream), b"bye");
    let failed = (0..1000).find_map(|_| stream.write_all(&[0; 10_000]).err());
    assert!(failed.is_some(), "ten megabytes for nobody");
}

/// SCTP without manypath and without a listener at the service's port: plain TCP, after one more
/// round trip; and remembered.
#[test]
fn a_host_with_sctp_but_no_such_service_is_reached_by_tcp() {
    let network = Network::new();
    let (mut peer, _) = native_server(network, 8080);
    let (_client, launcher) = Host::with_launcher(network.client_config());
    let destination = unused_port(network.server()[0]);
    for (id, reason) in [(1, FallbackReason::Refused), (2, FallbackReason::Remembered)] {
        launcher.send(&Request::Open { id, destination, source: None, blocking: true });
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 200 {
            peer.turn();
        }
        let mut reply = launcher.receive();
        if reply == (Reply::Pending { id }) {
            reply = launcher.receive();
        }
        assert_eq!(reply, Reply::Direct { id, reason });
    }
    assert_eq!(counter(&launcher.status(), "stack_direct_associations_begun"), 1);
}

#[test]
fn a_native_client_reaches_an_open_service_and_no_other() {
    let network = Network::new();
    let (open, closed) = (service(network.server()[0], echo), service(network.server()[0], echo));
    let (_server, server) = Host::with_launcher(network.server_config(&[open]));
    let mut peer = native_client(network);
    let remote = SocketAddr::new(open.ip(), DEFAULT_UDP_PORT);
    peer.connect_to(remote, closed.port());
    assert!(matches!(peer.wait_closed(), CloseReason::PeerAborted(_)));
    peer.connect_to(remote, open.port());
    let id = peer.accept();
    let sent = pattern(500_000, 3);
    for piece in sent.chunks(50_000) {
        peer.say(id, piece);
        assert!(peer.hear(id, piece.len()) == piece);
    }
    let status = server.status();
    assert_eq!(status.associations[0].form, "direct");
    assert_eq!(status.associations[0].flows[0].destination, open);
    peer.shutdown(id);
    server.wait_for("the end", |status| {
        peer.turn();
        status.associations.is_empty()
    });
    assert_eq!(counter(&server.status(), "stack_relays_finished"), 1);
}

/// A port is open at one address: whoever comes over another one is sent away.
#[test]
fn a_service_is_open_to_native_clients_at_its_address_only() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let (_server, server) = Host::with_launcher(network.server_config(&[open]));
    let mut peer = native_client(network);
    let config = Config { port: 40_001, ..Config::default() };
    let mut other = Peer::new(network.client()[1], UdpPort::Ephemeral, config);
    let remote = SocketAddr::new(network.server()[1], DEFAULT_UDP_PORT);
    other.connect_to(remote, open.port());
    assert!(matches!(other.wait_closed(), CloseReason::PeerAborted(_)));
    peer.connect_to(SocketAddr::new(open.ip(), DEFAULT_UDP_PORT), open.port());
    peer.accept();
    assert_eq!(counter(&server.status(), "stack_dial_denied_not_listed"), 1);
}

/// A native client may ask, end and go before the service is even connected.
#[test]
fn what_a_native_client_sent_before_its_end_reaches_the_service() {
    let network = Network::new();
    let (told, heard) = std::sync::mpsc::channel();
    let open = service(network.server()[0], move |stream| told.send(read_all(&stream)).unwrap());
    let _server = Host::start(network.server_config(&[open]));
    let mut peer = native_client(network);
    let id = peer.connect_to(SocketAddr::new(open.ip(), DEFAULT_UDP_PORT), open.port());
    let sent = pattern(2_000_000, 9);
    peer.say(id, &sent);
    peer.shutdown(id);
    assert_eq!(peer.wait_closed(), CloseReason::Graceful);
    assert!(heard.recv_timeout(crate::common::LIMIT).unwrap() == sent);
}

#[test]
fn a_service_that_does_not_answer_ends_a_native_clients_association() {
    let network = Network::new();
    let closed = unused_port(network.server()[0]);
    let (_server, server) = Host::with_launcher(network.server_config(&[closed]));
    let mut peer = native_client(network);
    peer.connect_to(SocketAddr::new(closed.ip(), DEFAULT_UDP_PORT), closed.port());
    assert!(matches!(peer.wait_closed(), CloseReason::PeerAborted(_)));
    server.wait_for("no association", |status| status.associations.is_empty());
    assert_eq!(counter(&server.status(), "stack_dials_failed"), 1);
}

/// A reader that has stopped makes its peer wait, and costs a bounded amount of memory.
#[test]
fn a_service_that_stops_reading_closes_the_window_of_a_native_client() {
    let network = Network::new();
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let open = service(network.server()[0], move |mut stream| {
        wait.lock().unwrap().recv().unwrap();
        let read = read_all(&stream).len();
        let _ = stream.write_all(&(read as u64).to_be_bytes());
    });
    let (_server, server) = Host::with_launcher(network.server_config(&[open]));
    let (_client, launcher) = Host::with_launcher(StackConfig {
        rules: Table::new(network, "remote enable form=direct\n").file(),
        ..network.client_config()
    });
    launcher.send(&Request::Open { id: 1, destination: open, source: None, blocking: true });
    assert_eq!(launcher.receive(), Reply::Pending { id: 1 });
    assert!(matches!(launcher.receive(), Reply::Accepted { .. }));
    let mut stream = launcher.attach(1);
    let mut writer = stream.try_clone().unwrap();
    const SIZE: usize = 30_000_000;
    let writing = std::thread::spawn(move || {
        writer.write_all(&pattern(SIZE, 1)).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let full = server.wait_for("a closed window", |status| {
        let one = &status.associations[0];
        one.receive_queued_bytes > 4_000_000
    });
    assert!(full.associations[0].flows[0].bytes_in < 2_000_000, "{full:?}");
    go_on.send(()).unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(u64::from_be_bytes(answer), SIZE as u64);
    writing.join().unwrap();
}

/// Answers when its client has ended.
fn answer_at_the_end(mut stream: TcpStream) {
    let asked = read_all(&stream);
    let _ = stream.write_all(&asked.len().to_be_bytes());
}

#[test]
fn two_stacks_half_close_in_the_direct_form_too() {
    let network = Network::new();
    let open = service(network.server()[0], answer_at_the_end);
    let table = Table::new(network, "remote enable form=direct\n");
    let (_server, server) = Host::with_launcher(network.server_config(&[open]));
    let config = StackConfig { rules: table.file(), ..network.client_config() };
    let (_client, mut launcher) = Host::with_launcher(config);
    let streams: Vec<_> = (0..3).map(|_| launcher.connect_sctp(open)).collect();
    let status = launcher.status();
    let forms: Vec<&str> = status.associations.iter().map(|one| one.form.as_str()).collect();
    assert_eq!(forms, ["direct"; 3]);
    for (number, stream) in (1..).zip(streams) {
        let answer = exchange(stream, pattern(number * 100_000, 1));
        assert_eq!(answer, (number * 100_000).to_be_bytes());
    }
    launcher.wait_for("the end", |status| status.associations.is_empty());
    server.wait_for("the end", |status| status.associations.is_empty());
    assert_eq!(counter(&server.status(), "stack_associations_closed_gracefully"), 3);
}

#[test]
fn a_service_can_be_open_to_one_form_only() {
    for (form, other) in [("mux", "direct"), ("direct", "mux")] {
        let network = Network::new();
        let open = service(network.server()[0], echo);
        let rule = format!("local enable host {} port {} form={form}\n", open.ip(), open.port());
        let theirs = Table::new(network, &rule);
        let config = StackConfig { rules: theirs.file(), ..network.server_config(&[]) };
        let _server = Host::start(config);
        for (asked, is_carried) in [(form, true), (other, false)] {
            let own = Network::new();
            let table = Table::new(own, &format!("remote enable form={asked}\n"));
            let config = StackConfig { rules: table.file(), ..network.client_config() };
            let (_client, mut launcher) = Host::with_launcher(config);
            match is_carried {
                true => drop(launcher.connect_sctp(open)),
                false => {
                    let reason = launcher.direct(open).0;
                    let expected = [FallbackReason::NotAllowed, FallbackReason::Refused];
                    assert!(expected.contains(&reason), "{reason}");
                }
            }
        }
    }
}

/// Rules that are read again open and close services to native clients at once.
#[test]
fn services_for_native_clients_follow_the_rules() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let table = Table::new(network, "");
    let config = StackConfig { rules: table.file(), ..network.server_config(&[]) };
    let (_server, server) = Host::with_launcher(config);
    let mut peer = native_client(network);
    let remote = SocketAddr::new(open.ip(), DEFAULT_UDP_PORT);
    peer.connect_to(remote, open.port());
    assert!(matches!(peer.wait_closed(), CloseReason::PeerAborted(None)));
    table.write(&format!("local enable host {} port {}\n", open.ip(), open.port()));
    server.send(&Request::Reload);
    assert_eq!(server.receive(), Reply::Reloaded { rules: 1 });
    peer.connect_to(remote, open.port());
    let id = peer.accept();
    peer.say(id, b"hello");
    assert_eq!(peer.hear(id, 5), b"hello");
}

/// A service that ends at once, before the program has its connection.
#[test]
fn an_early_end_is_not_lost_in_either_form() {
    for form in ["mux", "direct"] {
        let network = Network::new();
        let open = service(network.server()[0], drop);
        let table = Table::new(network, &format!("remote enable form={form}\n"));
        let _server = Host::start(network.server_config(&[open]));
        let config = StackConfig { rules: table.file(), ..network.client_config() };
        let (_client, mut launcher) = Host::with_launcher(config);
        let (id, first) = launcher.open(open, true);
        assert_eq!(first, Reply::Pending { id });
        assert!(matches!(launcher.receive(), Reply::Accepted { .. }));
        std::thread::sleep(std::time::Duration::from_millis(100));
        let stream = launcher.attach(id);
        assert_eq!(read_all(&stream), b"", "{form}");
    }
}
