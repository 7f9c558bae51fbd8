//! Many connections in one association.

use crate::common::{Host, Launcher, Network, counter, echo, pattern, service};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// More than the streams with which an association begins.
const COUNT: usize = 1500;

/// An order of `0..len` that looks like none.
fn shuffled(len: usize, seed: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by_key(|index| (index * 7919 + seed * 104_729) % 10_007);
    order
}

/// Bytes of its own, to and fro.
fn ask(stream: &mut TcpStream, number: usize) {
    let sent = pattern(500 + number % 100, number as u64 + 1);
    stream.write_all(&sent).unwrap();
    let mut received = vec![0; sent.len()];
    stream.read_exact(&mut received).unwrap();
    assert!(received == sent, "connection {number}");
}

/// Ends a connection in good order.
fn end(mut stream: TcpStream) {
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

fn open_flows(launcher: &Launcher) -> usize {
    launcher.status().associations.iter().map(|one| one.flows.len()).sum()
}

#[test]
fn connections_beyond_the_first_streams_are_opened_and_closed_in_any_order_in_one_association() {
    manypath_net::raise_descriptor_limit().unwrap();
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_server, server) = Host::with_launcher(network.server_config(&[destination]));
    // None of 2250 waits too long, however busy the machine is.
    let mut patient = network.client_config();
    patient.limits.fallback_timeout = Duration::from_secs(5);
    let (_client, mut launcher) = Host::with_launcher(patient);
    let connect = |launcher: &mut Launcher, to: SocketAddr| Some(launcher.connect_sctp(to));
    let mut streams: Vec<Option<TcpStream>> =
        (0..COUNT).map(|_| connect(&mut launcher, destination)).collect();
    assert_eq!(open_flows(&launcher), COUNT);
    for number in shuffled(COUNT, 1) {
        ask(streams[number].as_mut().unwrap(), number);
    }
    // Half of them end, and as many begin on the streams that are free again.
    for number in shuffled(COUNT, 2).into_iter().take(COUNT / 2) {
        end(streams[number].take().unwrap());
        if number % 2 == 0 {
            streams[number] = connect(&mut launcher, destination);
        }
    }
    for place in streams.iter_mut().filter(|place| place.is_none()) {
        *place = connect(&mut launcher, destination);
    }
    for number in shuffled(COUNT, 3) {
        ask(streams[number].as_mut().unwrap(), number + COUNT);
    }
    for number in shuffled(COUNT, 4) {
        end(streams[number].take().unwrap());
    }
    for (host, name) in [(&launcher, "client"), (&server, "server")] {
        let status = host.wait_for("the end of all flows", |status| {
            status.associations.iter().all(|association| association.flows.is_empty())
        });
        assert_eq!(status.associations.len(), 1, "{name}");
        assert_eq!(counter(&status, "stack_relays_finished"), COUNT as u64 * 3 / 2, "{name}");
        assert!(status.fallbacks.is_empty(), "{name}: {:?}", status.fallbacks);
        assert!(counter(&status, "stack_stream_additions") > 0, "{name}");
    }
}

/// Connections that all have more to send than goes have about as much each.
#[test]
fn busy_connections_share_the_association_fairly() {
    let network = Network::new();
    let endless = service(
        network.server()[0],
        |mut stream: TcpStream| {
            while stream.write_all(&[7; 4096]).is_ok() {}
        },
    );
    let _server = Host::start(network.server_config(&[endless]));
    let (_client, mut launcher) = Host::with_launcher(network.client_config());
    let streams: Vec<TcpStream> = (0..8).map(|_| launcher.connect_sctp(endless)).collect();
    let readers: Vec<_> = streams.iter().map(|stream| stream.try_clone().unwrap()).collect();
    for mut reader in readers {
        std::thread::spawn(move || while reader.read(&mut [0; 65536]).is_ok_and(|got| got > 0) {});
    }
    let moved = |launcher: &Launcher| -> Vec<u64> {
        let associations = launcher.status().associations;
        associations[0].flows.iter().map(|flow| flow.bytes_in).collect()
    };
    let before = moved(&launcher);
    let mut parts = vec![0; streams.len()];
    // A reader that waits for its turn on a busy machine gets less for a while; who is unfair stays so.
    for megabytes in (40..=400).step_by(40) {
        launcher.wait_for("forty megabytes", |status| {
            let flows = &status.associations[0].flows;
            flows.iter().map(|flow| flow.bytes_in).sum::<u64>()
                > before.iter().sum::<u64>() + megabytes * 1_000_000
        });
        parts =
            moved(&launcher).iter().zip(&before).map(|(after, before)| after - before).collect();
        if is_fair(&parts) {
            break;
        }
    }
    assert!(is_fair(&parts), "{parts:?}");
    streams.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
}

fn is_fair(parts: &[u64]) -> bool {
    let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
    *most < least * 3 / 2
}
