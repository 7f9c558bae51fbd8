//! Gateways: native SCTP programs on one side, TCP programs on the other.

use crate::common::peer::Peer;
use crate::common::{
    Host, LIMIT, Launcher, Network, counter, echo, pattern, reset, service, unused_port,
};
use manypath_control::status::StackStatus;
use manypath_daemon::{DEFAULT_UDP_PORT, Framing, Gateway, StackConfig, Way};
use manypath_engine::{AssociationId, CloseReason, Config, Event};
use manypath_net::UdpPort;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Instant;

const PORT: u16 = 3868;

fn with(way: Way, framing: Framing) -> Option<Gateway> {
    Some(Gateway { way, framing, max_clients: 8, status_every: None })
}

/// A gateway that leads SCTP clients to TCP services.
fn to_tcp(network: Network, service: Vec<SocketAddr>, framing: Framing) -> (Host, Launcher) {
    let gateway = with(Way::ToTcp { port: PORT, service }, framing);
    Host::with_launcher(StackConfig { gateway, ..network.server_config(&[]) })
}

/// A native program that begins an association with the gateway.
fn native_client(network: Network) -> (Peer, AssociationId) {
    let config = Config { port: 40_000, ..Config::default() };
    let mut peer = Peer::new(network.client()[0], UdpPort::Ephemeral, config);
    let id = peer.connect_to(SocketAddr::new(network.server()[0], DEFAULT_UDP_PORT), PORT);
    (peer, id)
}

/// A gateway that leads TCP clients to native programs at these addresses, and where it listens.
fn to_sctp(network: Network, peers: Vec<IpAddr>, framing: Framing) -> (Host, Launcher, SocketAddr) {
    let listen = unused_port(network.client()[0]);
    let gateway = with(Way::ToSctp { listen: vec![listen], peers, port: PORT }, framing);
    let (host, launcher) = Host::with_launcher(StackConfig { gateway, ..network.client_config() });
    (host, launcher, listen)
}

fn native_server(network: Network, path: usize) -> Peer {
    let config = Config { port: PORT, accept: true, ..Config::default() };
    Peer::new(network.server()[path], UdpPort::Fixed(DEFAULT_UDP_PORT), config)
}

fn client(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

fn is_reset(mut stream: &TcpStream) -> bool {
    matches!(stream.read(&mut [0; 10]), Err(error) if error.kind() == ErrorKind::ConnectionReset)
}

fn diameter(len: u32, fill: u8) -> Vec<u8> {
    let mut message = vec![fill; len as usize];
    message[..4].copy_from_slice(&(1 << 24 | len).to_be_bytes());
    message
}

#[test]
fn sctp_clients_reach_the_tcp_service_and_its_answers_reach_them() {
    let network = Network::new();
    let open = service(network.server()[1], echo);
    let (_gateway, status) = to_tcp(network, vec![open], Framing::Pieces);
    let (mut peer, id) = native_client(network);
    let sent = pattern(500_000, 3);
    let parts = sent.chunks(50_000).map(|part| {
        peer.say(id, part);
        peer.hear(id, part.len())
    });
    assert!(parts.collect::<Vec<_>>().concat() == sent);
    peer.shutdown(id);
    assert_eq!(peer.wait_closed(), CloseReason::Graceful);
    status.wait_for("no association", |status| status.associations.is_empty());
    status.wait_for("the end", |status| counter(status, "stack_relays_finished") == 1);
    let expected = format!("SCTP clients at port {PORT} to TCP {open}");
    assert_eq!(status.status().allow, [expected]);
}

#[test]
fn the_ends_of_sctp_clients_and_tcp_services_stand_for_each_other() {
    let network = Network::new();
    let (told, heard) = mpsc::channel();
    let open = service(network.server()[0], move |mut stream| {
        let mut word = [0; 4];
        stream.read_exact(&mut word).unwrap();
        match &word {
            b"fin?" => drop(stream.shutdown(Shutdown::Write)),
            b"rst?" => return reset(stream),
            _ => told.send(Ok(word.len())).unwrap(),
        }
        let end = stream.read(&mut word).map_err(|error| error.kind());
        told.send(end).unwrap();
    });
    let (_gateway, status) = to_tcp(network, vec![open], Framing::Pieces);
    let (mut peer, id) = native_client(network);
    peer.say(id, b"fin?");
    assert_eq!(peer.wait_closed(), CloseReason::Graceful, "FIN is SHUTDOWN");
    assert_eq!(heard.recv_timeout(LIMIT).unwrap(), Ok(0));
    let (mut peer, id) = native_client(network);
    peer.say(id, b"rst?");
    assert!(matches!(peer.wait_closed(), CloseReason::PeerAborted(_)), "RST is ABORT");
    let (mut peer, id) = native_client(network);
    peer.say(id, b"wait");
    wait_for_bytes(&mut peer, &status, 4);
    assert_eq!(heard.recv_timeout(LIMIT).unwrap(), Ok(4), "an ABORT drops what is under way");
    peer.abort(id);
    assert_eq!(heard.recv_timeout(LIMIT).unwrap(), Err(ErrorKind::ConnectionReset), "ABORT is RST");
}

#[test]
fn a_service_is_tried_at_all_its_addresses_and_then_refused() {
    let network = Network::new();
    let open = service(network.server()[1], echo);
    let closed = unused_port(network.server()[0]);
    let (_gateway, status) = to_tcp(network, vec![closed, open], Framing::Pieces);
    let (mut peer, id) = native_client(network);
    peer.say(id, b"hello");
    assert_eq!(peer.hear(id, 5), b"hello");
    drop(status);
    let network = Network::new();
    let closed = unused_port(network.server()[0]);
    let (_gateway, status) = to_tcp(network, vec![closed], Framing::Pieces);
    let (mut peer, _) = native_client(network);
    assert!(matches!(peer.wait_closed(), CloseReason::PeerAborted(_)));
    assert_eq!(counter(&status.status(), "stack_dials_failed"), 1);
}

#[test]
fn messages_of_a_diameter_service_keep_their_boundaries() {
    let network = Network::new();
    let open = service(network.server()[0], move |mut stream| {
        let mut head = [0; 4];
        stream.read_exact(&mut head).unwrap();
        let mut rest = vec![0; u32::from_be_bytes(head) as usize % (1 << 24) - 4];
        stream.read_exact(&mut rest).unwrap();
        let answers = [diameter(20, 1), diameter(100_000, 2), diameter(44, 3)].concat();
        for piece in answers.chunks(33_333) {
            stream.write_all(piece).unwrap();
        }
        let _ = stream.write_all(b"this is not Diameter");
        let _ = stream.read(&mut head);
    });
    let (_gateway, status) = to_tcp(network, vec![open], Framing::Diameter);
    let (mut peer, id) = native_client(network);
    peer.tell(id, 46, diameter(70_000, 9));
    for (len, fill) in [(20, 1), (100_000, 2), (44, 3)] {
        let message = peer.hear_message(id);
        assert_eq!((message.ppid.0, message.stream.0), (46, 0));
        assert!(message.payload == diameter(len, fill), "a message of {len} bytes");
    }
    assert!(matches!(peer.wait_closed(), CloseReason::PeerAborted(_)));
    let counted = "stack_connections_aborted_malformed";
    assert_eq!(counter(&status.status(), counted), 1);
}

/// More than the peer's window takes at once, then bytes that are no message; and an answer to what came before them.
#[test]
fn what_was_said_before_bytes_that_are_no_message_is_delivered_both_ways() {
    let network = Network::new();
    let small = Config { port: PORT, accept: true, receive_buffer: 50_000, ..Config::default() };
    let port = UdpPort::Fixed(DEFAULT_UDP_PORT);
    let mut peer = Peer::new(network.server()[0], port, small);
    let (_gateway, status, to) = to_sctp(network, vec![network.server()[0]], Framing::Diameter);
    let mut stream = client(to);
    let id = peer.accept();
    for fill in 0..20 {
        stream.write_all(&diameter(20_000, fill)).unwrap();
    }
    stream.write_all(b"this is not Diameter").unwrap();
    assert_eq!(peer.hear_message(id).payload, diameter(20_000, 0));
    peer.tell(id, 46, diameter(300, 77));
    let mut answer = vec![0; 300];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer == diameter(300, 77));
    for fill in 1..20 {
        assert!(peer.hear_message(id).payload == diameter(20_000, fill), "message {fill}");
    }
    assert!(matches!(peer.wait_closed(), CloseReason::PeerAborted(_)));
    assert!(is_reset(&stream));
    assert_eq!(counter(&status.status(), "stack_connections_aborted_malformed"), 1);
}

#[test]
fn a_tcp_client_reaches_the_sctp_server_and_ends_as_it_does() {
    let network = Network::new();
    let mut peer = native_server(network, 0);
    let (_gateway, status, to) = to_sctp(network, vec![network.server()[0]], Framing::Pieces);
    // FIN is SHUTDOWN.
    let mut stream = client(to);
    let id = peer.accept();
    stream.write_all(b"question").unwrap();
    assert_eq!(peer.hear(id, 8), b"question");
    peer.say(id, b"answer");
    stream.read_exact(&mut [0; 6]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(peer.wait_closed(), CloseReason::Graceful);
    assert_eq!(stream.read(&mut [0; 6]).unwrap(), 0);
    // ABORT is RST.
    let stream = client(to);
    let id = peer.accept();
    status.wait_for("the relay", |status| counter(status, "stack_relays_started") == 2);
    peer.abort(id);
    assert!(is_reset(&stream));
    assert_eq!(counter(&status.status(), "stack_clients_taken_in"), 2);
}

#[test]
fn a_reset_of_a_tcp_client_aborts_the_association() {
    let network = Network::new();
    let mut peer = native_server(network, 0);
    let (_gateway, _status, to) = to_sctp(network, vec![network.server()[0]], Framing::Pieces);
    let mut stream = client(to);
    let id = peer.accept();
    stream.write_all(b"x").unwrap();
    peer.hear(id, 1);
    reset(stream);
    assert!(matches!(peer.wait_closed(), CloseReason::PeerAborted(_)));
}

/// A server that has one address less today.
#[test]
fn an_sctp_server_is_tried_at_all_its_addresses_and_its_last_one_first() {
    let network = Network::new();
    let mut peer = native_server(network, 1);
    // Nobody has the UDP port there: the host says so at once.
    let (_gateway, status, to) = to_sctp(network, network.server().to_vec(), Framing::Pieces);
    for _ in 0..2 {
        let mut stream = client(to);
        let id = peer.accept();
        stream.write_all(b"hello").unwrap();
        assert_eq!(peer.hear(id, 5), b"hello");
    }
    assert_eq!(counter(&status.status(), "stack_calls_failed"), 1);
}

#[test]
fn a_tcp_client_without_a_server_is_reset() {
    let network = Network::new();
    let (_gateway, status, to) = to_sctp(network, vec![network.server()[0]], Framing::Pieces);
    assert!(is_reset(&client(to)));
    assert_eq!(counter(&status.status(), "stack_clients_reset_without_server"), 1);
}

#[test]
fn a_tcp_client_beyond_the_limit_is_reset() {
    let network = Network::new();
    let mut peer = native_server(network, 0);
    let (_gateway, status, to) = to_sctp(network, vec![network.server()[0]], Framing::Pieces);
    let clients: Vec<_> = (0..8).map(|_| (client(to), peer.accept())).collect();
    assert!(is_reset(&client(to)));
    assert_eq!(counter(&status.status(), "stack_clients_refused_too_many"), 1);
    assert_eq!(clients.len(), 8);
}

/// Neither a TCP reader nor an SCTP reader that has stopped costs more than buffers.
#[test]
fn readers_that_stop_make_the_others_wait() {
    let network = Network::new();
    let mut peer = native_server(network, 0);
    let (_gateway, status, to) = to_sctp(network, vec![network.server()[0]], Framing::Pieces);
    let mut stream = client(to);
    let id = peer.accept();
    const SIZE: usize = 40_000_000;
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        writer.write_all(&pattern(SIZE, 1)).unwrap();
    });
    // Its window closes: nothing is read.
    let mut before = u64::MAX;
    let mut quiet = |now: u64| std::mem::replace(&mut before, now) == now && now > 0;
    let begun = Instant::now();
    let taken = loop {
        for _ in 0..20 {
            peer.turn();
        }
        let taken = status.status().associations[0].flows[0].bytes_out;
        if quiet(taken) {
            break taken;
        }
        assert!(begun.elapsed() < LIMIT, "it goes on and on: {taken}");
    };
    assert!(taken < 30_000_000, "{taken} bytes are somewhere");
    assert!(peer.hear(id, SIZE) == pattern(SIZE, 1));
    writing.join().unwrap();
    peer.say(id, b"done");
    stream.read_exact(&mut [0; 4]).unwrap();
}

/// A program that has been started anew uses its old ports again.
#[test]
fn a_client_that_has_restarted_gets_a_new_connection() {
    let network = Network::new();
    let (told, heard) = mpsc::channel();
    let open = service(network.server()[0], move |stream| {
        told.send(read_to_its_end(&stream)).unwrap();
    });
    let (_gateway, status) = to_tcp(network, vec![open], Framing::Pieces);
    let start = |seed| {
        let config = Config { port: 40_000, ..Config::default() };
        let mut peer = Peer::seeded(network.client()[0], UdpPort::Ephemeral, config, seed);
        let id = peer.connect_to(SocketAddr::new(network.server()[0], DEFAULT_UDP_PORT), PORT);
        (peer, id)
    };
    let (mut peer, id) = start(1);
    peer.say(id, b"before");
    wait_for_bytes(&mut peer, &status, 6);
    // The old one is there and does nothing more, so that no host says that it has gone.
    let _old = peer;
    let (mut peer, id) = start(2);
    let up = |(_, event): &(AssociationId, Event)| matches!(event, Event::Connected { .. });
    peer.run_until("a restart", |peer| peer.seen.iter().any(up).then_some(()));
    peer.say(id, b"after");
    assert_eq!(heard.recv_timeout(LIMIT).unwrap(), (b"before".to_vec(), false));
    peer.shutdown(id);
    assert_eq!(peer.wait_closed(), CloseReason::Graceful);
    assert_eq!(heard.recv_timeout(LIMIT).unwrap(), (b"after".to_vec(), true));
    assert_eq!(counter(&status.status(), "stack_associations_restarted"), 1);
}

/// Runs the peer until the gateway has got so many bytes for connections that there are.
fn wait_for_bytes(peer: &mut Peer, gateway: &Launcher, bytes: u64) {
    let came = |status: &StackStatus| {
        let flows = status.associations.iter().flat_map(|association| &association.flows);
        flows.map(|flow| flow.bytes_in).sum::<u64>() == bytes
    };
    peer.run_until("bytes at the gateway", |_| came(&gateway.status()).then_some(()));
}

/// What came, and whether it ended in order.
fn read_to_its_end(mut stream: &TcpStream) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    let ended = stream.read_to_end(&mut all).is_ok();
    (all, ended)
}
