//! Several loops at the same addresses.

use super::carriers::{Between, free_port};
use crate::support::host::{Host, LIMIT, SCTP_PORT, config, loopback, text};
use manypath_engine::{AssociationId, Config, Event, Redundancy};
use manypath_net::{Carrier, Counters, Loops, UdpPort};
use manypath_wire::cause::Causes;
use manypath_wire::chunk::{Abort, Chunk};
use manypath_wire::{CommonHeader, PacketWriter, VerificationTag};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Two loops of a server at two addresses, with a port that no other test has.
fn server(network: u8, port: u16) -> [Host; 2] {
    let locals = [format!("127.{network}.1.1"), format!("127.{network}.2.1")];
    let locals = loopback(&locals.each_ref().map(String::as_str));
    let loops = Loops::seats(2).into_iter().zip([101, 102]).map(|(seat, seed)| {
        Host::at(UdpPort::Fixed(port), seed, config(SCTP_PORT, true), &locals, Some(&seat))
    });
    loops.collect::<Vec<_>>().try_into().unwrap_or_else(|_| unreachable!("there are two"))
}

/// Turns all loops until `done`.
fn drive(client: &mut Host, server: &mut [Host; 2], done: impl Fn(&Host, &[Host; 2]) -> bool) {
    let end = Instant::now() + LIMIT;
    while !done(client, server) {
        let told =
            || [&client.events, &server[0].events, &server[1].events].map(|it| format!("{it:?}"));
        assert!(Instant::now() < end, "not done within {LIMIT:?}: {:?}", told());
        client.turn(Duration::from_micros(200));
        server.iter_mut().for_each(|one| one.turn(Duration::from_micros(200)));
    }
}

/// A client with an association; the loop that has it, and its id there.
fn client(server: &mut [Host; 2], seed: u8, locals: &[&str]) -> (Host, usize, AssociationId) {
    let known = server.each_ref().map(|one| one.events.len());
    // All that it sends leaves over all paths.
    let everywhere = Config { redundancy: Redundancy::All, ..config(1, false) };
    let mut client = Host::new(seed, everywhere, &loopback(locals));
    client.connect(server[0].locals[0], SCTP_PORT);
    let begun = |server: &[Host; 2]| {
        let new = |at: usize| server[at].events[known[at]..].iter();
        let mut all = (0..2).flat_map(|at| new(at).map(move |event| (at, event)));
        all.find(|(_, (_, event))| matches!(event, Event::Connected { .. }))
            .map(|(at, (id, _))| (at, *id))
    };
    drive(&mut client, server, |client, server| client.is_connected() && begun(server).is_some());
    let (at, id) = begun(server).unwrap();
    (client, at, id)
}

#[test]
fn all_paths_of_an_association_lead_to_its_loop() {
    let mut server = server(71, 9741);
    // By their addresses alone, INITs of the second would go to the other loop.
    let ways = [["127.71.1.2", "127.71.2.4"], ["127.71.1.3", "127.71.2.5"]];
    for (seed, ways) in (1..).zip(ways) {
        let (mut client, at, _) = client(&mut server, seed, &ways);
        let id = client.events[0].0;
        let data = text(2 << 20);
        let (mut queued, before) = (0, server[at].bytes_received());
        let others = server[1 - at].driver.counters().packets_received;
        while server[at].bytes_received() < before + data.len() {
            while queued < data.len() && client.send(id, data.slice(queued..queued + 8192)) {
                queued += 8192;
            }
            let received = server[at].bytes_received();
            drive(&mut client, &mut server, |_, server| server[at].bytes_received() > received);
        }
        assert_eq!(server[at].received.concat()[before..], data[..]);
        for socket in server[at].driver.sockets() {
            assert!(socket.counters.packets_received > 100, "{:?}", server[at].driver.sockets());
        }
        assert_eq!(server[1 - at].driver.counters().packets_received, others);
    }
    let began = server.each_ref().map(|one| one.events.len());
    assert!(began.iter().all(|count| *count > 0), "each loop has had one: {began:?}");
}

/// A host that has begun anew at the port of an association that it does not know.
#[test]
fn an_abort_with_the_peers_tag_reaches_its_loop() {
    let mut server = server(72, 9742);
    for seed in 1..=6 {
        let own = format!("127.72.1.{}", seed + 1);
        let (client, at, id) = client(&mut server, seed, &[&own]);
        let port = client.locals[0].port();
        drop(client);
        let ports = config(1, false);
        let mut anew = Host::at(UdpPort::Fixed(port), 99, ports, &loopback(&[&own]), None);
        assert!(server[at].send(id, text(100)));
        drive(&mut anew, &mut server, |_, server| {
            server[at]
                .events
                .iter()
                .any(|(of, event)| *of == id && matches!(event, Event::Closed(_)))
        });
    }
    let handed_on = server.each_ref().map(|one| one.driver.counters().handed_on);
    assert!(
        handed_on.iter().sum::<u64>() > 0,
        "the tags of six peers name both loops: {handed_on:?}"
    );
    assert_eq!(server.each_ref().map(|one| one.driver.counters().hand_on_dropped), [0, 0]);
}

/// Connections that carry come to whichever loop is free, and go to the one that has their association.
#[test]
fn a_connection_that_carries_goes_to_the_loop_of_its_association() {
    let mut server = server(75, 9745);
    let (tcp, silent) = (free_port(), UdpSocket::bind("127.75.1.1:0").unwrap());
    server.iter_mut().for_each(|one| one.carry_by("off", 9, Some(tcp)));
    let usual = silent.local_addr().unwrap();
    let between = Between::new("127.75.1.1", (usual.ip(), tcp).into());
    let mut client = Host::new(9, config(1, false), &loopback(&["127.75.1.2"]));
    client.carry_by(&format!("tcp:{}", between.port), usual.port(), None);
    let id = client.connect(usual, SCTP_PORT);
    drive(&mut client, &mut server, |client, _| client.is_connected());
    let at = server.iter().position(|one| one.is_connected()).unwrap();
    between.cut();
    let accepted = |one: &Host| one.driver.counters().carrier_streams_accepted;
    let before = accepted(&server[1 - at]);
    assert!(client.send(id, text(1000)));
    let end = Instant::now() + LIMIT;
    while accepted(&server[1 - at]) == before {
        assert!(Instant::now() < end, "{:?}", client.driver.counters());
        client.turn(Duration::from_micros(200));
        server[1 - at].turn(Duration::from_micros(200));
    }
    drive(&mut client, &mut server, |_, server| server[at].bytes_received() == 1000);
    let handed_on = server[1 - at].driver.counters().handed_on;
    assert!(handed_on > 0, "{:?}", server[1 - at].driver.counters());
}

/// Strangers choose a loop by the tags of their packets, and their limits hold there, too.
#[test]
fn strangers_at_a_loop_are_few_whichever_loop_has_accepted_them() {
    let mut server = server(76, 9746);
    let tcp = free_port();
    server.iter_mut().for_each(|one| one.carry_by("off", 9, Some(tcp)));
    let packet = [&[0, 7, 0, 7][..], &[0, 0, 0, 1], &[9; 4]].concat();
    let said = [&b"mpath/1\n"[..], &[0, packet.len() as u8], &packet].concat();
    let connect = |_| {
        let mut stranger = TcpStream::connect(("127.76.1.1", tcp)).unwrap();
        stranger.write_all(&said).unwrap();
        stranger
    };
    let mut strangers = Vec::new();
    let turn = |one: &mut Host, done: fn(Counters) -> u64, count: u64| {
        let end = Instant::now() + LIMIT;
        while done(one.driver.counters()) < count {
            assert!(Instant::now() < end, "{:?}", one.driver.counters());
            one.turn(Duration::from_micros(200));
        }
    };
    for round in 1..=3 {
        strangers.extend((0..16).map(connect));
        turn(&mut server[0], |it| it.handed_on, 16 * round);
    }
    turn(&mut server[1], |it| it.carrier_streams_refused, 32);
    assert_eq!(
        server[1].driver.counters().carrier_streams_refused,
        32,
        "those of one host are few"
    );
}

/// Clients would wait for an answer there.
#[test]
fn a_port_that_is_taken_in_one_family_is_not_kept_in_the_other() {
    let taken = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
    taken.set_only_v6(true).unwrap();
    taken.bind(&SocketAddr::from(([0_u16; 8], 0)).into()).unwrap();
    taken.listen(1).unwrap();
    let port = taken.local_addr().unwrap().as_socket().unwrap().port();
    let mut server = server(77, 9747);
    for one in &mut server {
        one.carry_by("off", 9, None);
        assert!(one.driver.listen(Carrier::Tcp(port)).is_err());
    }
    let refused = TcpStream::connect(("127.77.1.1", port)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_flood_of_what_goes_from_loop_to_loop_is_noticed_by_the_first() {
    let mut server = server(74, 9744);
    let (mut buffer, tag) = ([0; 64], VerificationTag(8));
    let header = CommonHeader { source_port: 1, destination_port: SCTP_PORT, tag };
    let mut abort = PacketWriter::new(&mut buffer, header);
    abort.push(&Chunk::Abort(Abort { tag_reflected: true, causes: Causes::EMPTY })).unwrap();
    let len = abort.finish();
    let stranger = UdpSocket::bind("127.74.1.9:0").unwrap();
    let end = Instant::now() + LIMIT;
    let is_flooded = |host: &mut Host| host.driver.pause(host.clock.now(), None).is_some();
    while !is_flooded(&mut server[0]) {
        assert!(Instant::now() < end, "{:?}", server[0].driver.counters());
        for _ in 0..30 {
            stranger.send_to(&buffer[..len], server[0].locals[0]).unwrap();
        }
        server.iter_mut().for_each(|one| one.turn(Duration::from_micros(200)));
    }
    assert!(server[0].driver.counters().handed_on > 0);
}

#[test]
fn a_closed_port_is_told_to_the_loop_that_sends_there() {
    let mut server = server(73, 9743);
    for seed in 1..=6 {
        let own = format!("127.73.1.{}", seed + 1);
        let (client, at, id) = client(&mut server, seed, &[&own]);
        let gone = client.locals[0];
        drop(client);
        assert!(server[at].send(id, text(100)));
        let end = Instant::now() + LIMIT;
        while !server[at].driver.take_closed_ports().iter().any(|path| path.remote == gone) {
            assert!(Instant::now() < end, "nobody has told loop {at} that {gone} is closed");
            server.iter_mut().for_each(|one| one.turn(Duration::from_micros(200)));
        }
    }
}
