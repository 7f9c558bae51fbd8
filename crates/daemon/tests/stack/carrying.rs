//! What TCP does, a flow does.

use crate::common::{
    Host, Launcher, Network, counter, echo, exchange, pattern, reset, service, unused_port,
};
use manypath_control::{Reply, Transport};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

/// A client and a server that lets it reach `allow`.
fn hosts(network: Network, allow: &[SocketAddr]) -> (Host, Host, Launcher) {
    let server = Host::start(network.server_config(allow));
    let (client, launcher) = Host::with_launcher(network.client_config());
    (server, client, launcher)
}

#[test]
fn bytes_come_back_from_an_echo_service() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_server, _client, mut launcher) = hosts(network, &[destination]);
    let mut stream = launcher.connect_sctp(destination);
    for round in 0..20 {
        let sent = pattern(1 + round * 97, 7);
        stream.write_all(&sent).unwrap();
        let mut received = vec![0; sent.len()];
        stream.read_exact(&mut received).unwrap();
        assert_eq!(received, sent);
    }
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert_eq!(launcher.receive(), Reply::Closed { id: 1 });
}

#[test]
fn either_address_of_the_peer_leads_over_one_association() {
    let network = Network::new();
    let [first, second] = network.server().map(|addr| service(addr, echo));
    let (_server, _client, mut launcher) = hosts(network, &[first, second]);
    let one = launcher.connect_sctp(first);
    launcher.wait_for("the second path", |status| {
        let paths = status.associations.iter().flat_map(|association| &association.paths);
        paths.filter(|path| path.state == "active").count() >= 2
    });
    let two = launcher.connect_sctp(second);
    let status = launcher.status();
    assert_eq!(status.associations.len(), 1);
    assert_eq!(status.associations[0].flows.len(), 2);
    assert_eq!(exchange(one, vec![1; 9]), vec![1; 9]);
    assert_eq!(exchange(two, vec![2; 9]), vec![2; 9]);
}

#[test]
fn a_half_closed_connection_still_carries_the_answer() {
    let network = Network::new();
    let destination = service(network.server()[0], |mut stream: TcpStream| {
        let mut question = Vec::new();
        stream.read_to_end(&mut question).unwrap();
        question.reverse();
        stream.write_all(&question).unwrap();
    });
    let (_server, _client, mut launcher) = hosts(network, &[destination]);
    let stream = launcher.connect_sctp(destination);
    assert_eq!(exchange(stream, vec![1, 2, 3]), vec![3, 2, 1]);
}

#[test]
fn the_service_may_speak_first_and_end_first() {
    let network = Network::new();
    let destination = service(network.server()[0], |mut stream: TcpStream| {
        stream.write_all(b"banner").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
    });
    let (_server, _client, mut launcher) = hosts(network, &[destination]);
    let mut stream = launcher.connect_sctp(destination);
    let mut banner = String::new();
    stream.read_to_string(&mut banner).unwrap();
    assert_eq!(banner, "banner");
    stream.write_all(b"still here").unwrap();
    drop(stream);
    assert_eq!(launcher.receive(), Reply::Closed { id: 1 });
}

/// What the service's read says once the client's connection is over.
fn read_error(stream: &mut TcpStream) -> Option<ErrorKind> {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(error.kind()),
        }
    }
}

#[test]
fn a_reset_by_the_client_reaches_the_service() {
    let network = Network::new();
    let (sender, receiver) = mpsc::channel();
    let destination = service(network.server()[0], move |mut stream: TcpStream| {
        sender.send(read_error(&mut stream)).unwrap();
    });
    let (_server, _client, mut launcher) = hosts(network, &[destination]);
    let mut stream = launcher.connect_sctp(destination);
    stream.write_all(b"x").unwrap();
    reset(stream);
    assert_eq!(receiver.recv().unwrap(), Some(ErrorKind::ConnectionReset));
}

#[test]
fn a_reset_by_the_service_reaches_the_client() {
    let network = Network::new();
    let destination = service(network.server()[0], |mut stream: TcpStream| {
        stream.read_exact(&mut [0]).unwrap();
        reset(stream);
    });
    let (_server, _client, mut launcher) = hosts(network, &[destination]);
    let mut stream = launcher.connect_sctp(destination);
    stream.write_all(b"x").unwrap();
    assert_eq!(read_error(&mut stream), Some(ErrorKind::ConnectionReset));
}

#[test]
fn a_port_where_nobody_listens_is_refused_as_by_tcp() {
    let network = Network::new();
    let closed = unused_port(network.server()[0]);
    let (_server, _client, mut launcher) = hosts(network, &[closed]);
    for blocking in [true, false] {
        let (id, first) = launcher.open(closed, blocking);
        assert_eq!(first, Reply::Pending { id });
        assert_eq!(launcher.receive(), Reply::Failed { id, errno: libc::ECONNREFUSED });
    }
}

#[test]
fn a_non_blocking_connect_uses_sctp_too() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_server, _client, mut launcher) = hosts(network, &[destination]);
    let (transport, stream) = launcher.connect(destination, false);
    assert_eq!(transport, Transport::Sctp);
    assert_eq!(exchange(stream, vec![5; 50]), vec![5; 50]);
    assert_eq!(counter(&launcher.status(), "stack_tcp_races_lost"), 0);
}

#[test]
fn two_hundred_connections_at_once() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_server, _client, mut launcher) = hosts(network, &[destination]);
    let streams: Vec<TcpStream> = (0..200).map(|_| launcher.connect_sctp(destination)).collect();
    let exchanges = streams.into_iter().zip(1..).map(|(stream, seed)| {
        std::thread::spawn(move || {
            let sent = pattern(20_000, seed);
            assert_eq!(exchange(stream, sent.clone()), sent);
        })
    });
    for thread in exchanges.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
    let status = launcher.wait_for("the end of all flows", |status| {
        status.associations.iter().all(|association| association.flows.is_empty())
    });
    assert_eq!(counter(&status, "stack_relays_finished"), 200);
}

#[test]
fn twenty_megabytes_both_ways_arrive_intact_over_both_paths() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_server, _client, mut launcher) = hosts(network, &[destination]);
    let stream = launcher.connect_sctp(destination);
    let sent = pattern(20 << 20, 3);
    let received = exchange(stream, sent.clone());
    assert!(received == sent, "{} of {} bytes, or other ones", received.len(), sent.len());
    let status = launcher.status();
    for path in &status.associations[0].paths {
        assert!(path.bytes_sent > 100_000, "unused: {path:?}");
    }
}

#[test]
fn a_stalled_reader_stalls_nobody_else() {
    let network = Network::new();
    let endless = service(
        network.server()[0],
        |mut stream: TcpStream| {
            while stream.write_all(&[7; 4096]).is_ok() {}
        },
    );
    let destination = service(network.server()[0], echo);
    let (_server, _client, mut launcher) = hosts(network, &[endless, destination]);
    let stalled = launcher.connect_sctp(endless);
    launcher.wait_for("a full flow", |status| {
        let flows = status.associations.iter().flat_map(|association| &association.flows);
        flows.map(|flow| flow.waiting_in_bytes).sum::<u64>() > 200_000
    });
    let sent = pattern(2 << 20, 9);
    let stream = launcher.connect_sctp(destination);
    assert!(exchange(stream, sent.clone()) == sent);
    reset(stalled);
}

#[test]
fn a_stack_whose_flows_cannot_move_sleeps() {
    let network = Network::new();
    let endless = service(
        network.server()[0],
        |mut stream: TcpStream| {
            while stream.write_all(&[7; 4096]).is_ok() {}
        },
    );
    let (_server, server) = Host::with_launcher(network.server_config(&[endless]));
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let stalled = launcher.connect_sctp(endless);
    let mut last = launcher.status().associations[0].flows[0].bytes_in;
    let mut since = std::time::Instant::now();
    launcher.wait_for("a full flow", |status| {
        let before = std::mem::replace(&mut last, status.associations[0].flows[0].bytes_in);
        if before != last {
            since = std::time::Instant::now();
        }
        // On a busy machine a flow that is not full rests, too, but not for long.
        last > 0 && since.elapsed() > Duration::from_millis(300)
    });
    let turns = |control: &Launcher| counter(&control.status(), "stack_turns");
    let before = [turns(&launcher), turns(&server)];
    std::thread::sleep(Duration::from_millis(500));
    let after = [turns(&launcher), turns(&server)];
    for (before, after) in before.into_iter().zip(after) {
        assert!(after - before < 50, "{} turns in half a second", after - before);
    }
    reset(stalled);
}
