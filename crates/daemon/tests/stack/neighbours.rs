//! Hosts that accept associations begin some, too: towards each other, and beside others behind the same NAT.

use crate::common::{Host, Launcher, Network, echo, service};
use manypath_daemon::{Locals, StackConfig};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A client that accepts associations as well, as hosts under `serve` and `attach` do.
fn accepting(network: Network, udp_port: u16, allow: &[SocketAddr]) -> StackConfig {
    let locals = Locals::List(vec![network.client()[0]]);
    StackConfig { locals, udp_port, ..network.server_config(allow) }
}

fn ask(stream: &mut TcpStream, word: [u8; 4]) {
    stream.write_all(&word).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, word);
}

fn associations(host: &Launcher) -> usize {
    host.status().associations.len()
}

#[test]
fn two_hosts_that_accept_call_each_other() {
    let network = Network::new();
    let here = service(network.client()[0], echo);
    let there = service(network.server()[0], echo);
    let port = manypath_daemon::DEFAULT_UDP_PORT;
    let (_left, mut left) = Host::with_launcher(accepting(network, port, &[here]));
    let (_right, mut right) = Host::with_launcher(network.server_config(&[there]));
    let mut to = left.connect_sctp(there);
    ask(&mut to, *b"one?");
    let mut fro = right.connect_sctp(here);
    ask(&mut fro, *b"two?");
    ask(&mut to, *b"more");
}

/// A NAT gives its hosts one address and UDP ports of their own; what is in the packets stays.
#[test]
fn hosts_behind_one_nat_that_accept_leave_each_other_alone() {
    let network = Network::new();
    let there = service(network.server()[0], echo);
    let (_server, server) = Host::with_launcher(network.server_config(&[there]));
    let ports = [9899, 9900, 9901];
    let mut hosts = ports.map(|port| Host::with_launcher(accepting(network, port, &[])));
    let mut streams: Vec<_> = hosts.iter_mut().map(|(_, host)| host.connect_sctp(there)).collect();
    for _ in 0..3 {
        for stream in &mut streams {
            ask(stream, *b"me??");
        }
    }
    assert_eq!(associations(&server), ports.len());
}
