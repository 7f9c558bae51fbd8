//! Programs that are connected before the peer has answered. It may still refuse the connection.

use crate::common::peer::Peer;
use crate::common::{
    Network, Table, VirtualHost, counter, echo, exchange, pattern, service, until,
};
use crate::encryption::{Folder, client, server_with_list};
use crate::fallback::racing;
use manypath_control::status::FallbackReason;
use manypath_control::{Reply, Transport};
use manypath_daemon::{DEFAULT_UDP_PORT, StackConfig};
use manypath_engine::{AssociationId, Config};
use manypath_flow::{ADAPTATION, FlowConfig, FlowId, FlowMux, Refusal, SCTP_PORT};
use manypath_net::UdpPort;
use manypath_rules::Encrypt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// A host whose service plain TCP has reached, a peer there that answers nothing by itself, and a program that is
/// connected and has written.
struct Early {
    client: VirtualHost,
    program: TcpStream,
    peer: Peer,
    association: AssociationId,
    flow: FlowId,
}

impl Early {
    fn connect(network: Network, written: &[u8]) -> Self {
        Self::connect_by(network, racing(network), written)
    }

    fn connect_by(network: Network, client: StackConfig, written: &[u8]) -> Self {
        let destination = service(network.server()[0], echo);
        let adaptation = Some(ADAPTATION);
        let config = Config { port: SCTP_PORT, adaptation, accept: true, ..Config::default() };
        let mut peer = Peer::new(network.server()[0], UdpPort::Fixed(DEFAULT_UDP_PORT), config);
        peer.mux = FlowMux::new(false, 16, FlowConfig::default());
        let mut client = VirtualHost::new(client);
        client.open(1, destination);
        assert_eq!(client.replies(0), [Reply::Pending { id: 1 }]);
        let accepted = until("a connection", || {
            peer.turn();
            client.replies(1).pop()
        });
        assert!(
            matches!(accepted, Reply::Accepted { id: 1, transport: Transport::Sctp, .. }),
            "{accepted:?}"
        );
        let mut program = client.attach(1);
        program.write_all(written).unwrap();
        program.set_nonblocking(true).unwrap();
        let association = peer.accept();
        let flow = until("a flow", || {
            drop(client.replies(1));
            peer.hear_flow(association)
        });
        Self { client, program, peer, association, flow }
    }

    /// What the peer has got so far, once that is as much.
    fn heard(&mut self, len: usize) -> Vec<u8> {
        let mut heard = Vec::new();
        until("bytes", || {
            drop(self.client.replies(1));
            self.peer.serve(self.association);
            while let Some(bytes) = self.peer.mux.read(self.flow) {
                heard.extend_from_slice(&bytes);
            }
            (heard.len() >= len).then_some(())
        });
        heard
    }

    /// What the program reads, to the end or the failure of its connection.
    fn read_to_end(&mut self) -> std::io::Result<Vec<u8>> {
        let (mut read, mut buffer) = (Vec::new(), [0; 1000]);
        until("the end", || {
            drop(self.client.replies(1));
            self.peer.serve(self.association);
            match self.program.read(&mut buffer) {
                Ok(0) => Some(Ok(std::mem::take(&mut read))),
                Ok(bytes) => {
                    read.extend_from_slice(&buffer[..bytes]);
                    None
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                Err(error) => Some(Err(error)),
            }
        })
    }

    fn counter(&self, name: &str) -> u64 {
        counter(&self.client.status(), name)
    }
}

#[test]
fn the_first_bytes_at_first_contact_come_with_the_question() {
    let mut early = Early::connect(Network::new(), b"first bytes");
    assert_eq!(early.heard(11), b"first bytes");
    assert_eq!(early.counter("stack_opens_early"), 1);
    let local = SocketAddr::from(([192, 0, 2, 1], 1));
    early.peer.mux.accept(early.flow, local);
    early.peer.mux.write(early.flow, bytes::Bytes::from_static(b"an answer")).unwrap();
    early.peer.mux.finish(early.flow);
    assert_eq!(early.read_to_end().unwrap(), b"an answer");
    let lost = |early: &Early| early.counter("stack_early_opens_refused");
    assert_eq!((lost(&early), early.client.status().fallbacks.len()), (0, 0));
}

/// The service is the echo that TCP reaches.
#[test]
fn what_a_peer_refuses_goes_on_over_tcp_with_its_first_bytes() {
    for refusal in [Refusal::NotAllowed, Refusal::Busy] {
        let mut early = Early::connect(Network::new(), b"first bytes");
        assert_eq!(early.heard(11), b"first bytes");
        early.peer.mux.refuse(early.flow, refusal);
        early.program.write_all(b", and more").unwrap();
        early.program.shutdown(Shutdown::Write).unwrap();
        assert_eq!(early.read_to_end().unwrap(), b"first bytes, and more");
        assert_eq!(early.counter("stack_early_opens_refused"), 1);
        assert_eq!(early.counter("stack_tcp_relays_started"), 1);
        let reason = if refusal == Refusal::Busy {
            FallbackReason::Busy
        } else {
            FallbackReason::NotAllowed
        };
        assert_eq!(early.client.status().fallbacks[&reason], 1);
    }
}

#[test]
fn a_program_that_has_ended_before_a_refusal_still_gets_its_answer() {
    let written = pattern(100_000, 3);
    let mut early = Early::connect(Network::new(), &written);
    early.program.shutdown(Shutdown::Write).unwrap();
    assert_eq!(early.heard(65_536), written[..65_536]);
    early.peer.mux.refuse(early.flow, Refusal::NotAllowed);
    assert_eq!(early.read_to_end().unwrap(), written);
}

/// What the peer still sends is dropped with half-close off, but not before the peer has accepted: over TCP there is
/// half-close.
#[test]
fn without_half_close_a_program_that_has_ended_before_a_refusal_gets_its_answer_too() {
    let network = Network::new();
    let table = Table::new(network, "remote enable half-close=off\n");
    let config = StackConfig { rules: table.file(), ..racing(network) };
    let mut early = Early::connect_by(network, config, b"first bytes");
    early.program.shutdown(Shutdown::Write).unwrap();
    assert_eq!(early.heard(11), b"first bytes");
    early.peer.mux.refuse(early.flow, Refusal::NotAllowed);
    assert_eq!(early.read_to_end().unwrap(), b"first bytes");
}

#[test]
fn who_does_not_take_our_key_has_read_nothing() {
    let mut early = Early::connect(Network::new(), b"first bytes");
    assert_eq!(early.heard(11), b"first bytes");
    early.peer.abort_for(early.association, b"key not authorized");
    early.program.shutdown(Shutdown::Write).unwrap();
    assert_eq!(early.read_to_end().unwrap(), b"first bytes");
    assert_eq!(early.client.status().fallbacks[&FallbackReason::NotAuthorized], 1);
}

#[test]
fn what_is_reset_before_an_answer_goes_on_over_tcp() {
    let mut early = Early::connect(Network::new(), b"first bytes");
    assert_eq!(early.heard(11), b"first bytes");
    early.peer.mux.reset(early.flow);
    early.program.shutdown(Shutdown::Write).unwrap();
    assert_eq!(early.read_to_end().unwrap(), b"first bytes");
}

/// What a program has written may have been read by the service, unless it has written nothing.
#[test]
fn with_its_association_an_early_connection_is_lost_once_the_program_has_written() {
    let mut early = Early::connect(Network::new(), b"first bytes");
    assert_eq!(early.heard(11), b"first bytes");
    early.peer.abort(early.association);
    assert_eq!(early.read_to_end().unwrap_err().kind(), ErrorKind::ConnectionReset);
    let mut early = Early::connect(Network::new(), b"");
    early.peer.abort(early.association);
    until("plain TCP", || {
        drop(early.client.replies(1));
        (early.counter("stack_early_opens_refused") == 1).then_some(())
    });
    early.program.write_all(b"more").unwrap();
    early.program.shutdown(Shutdown::Write).unwrap();
    assert_eq!(early.read_to_end().unwrap(), b"more");
}

#[test]
fn a_service_that_has_gone_meanwhile_resets_the_connection() {
    let mut early = Early::connect(Network::new(), b"first bytes");
    early.peer.mux.refuse(early.flow, Refusal::Errno(libc::ECONNREFUSED as u16));
    let failure = early.read_to_end().unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::ConnectionReset);
}

/// The program is connected as soon as the server has shown its key; the server knows the client's later.
#[test]
fn a_client_that_is_not_authorized_goes_on_over_tcp_with_its_first_bytes() {
    let network = Network::new();
    let folder = Folder::new(network);
    let ours = folder.files("client");
    let destination = service(network.server()[0], echo);
    let (_server, theirs, _list) = server_with_list(network, &folder, destination);
    let mut config = StackConfig { keys: Some(ours), ..client(network, Encrypt::Opportunistic) };
    config.carrying.tcp_race = true;
    let mut client = VirtualHost::new(config);
    client.open(1, destination);
    let is_accepted = |reply: &Reply| matches!(reply, Reply::Accepted { .. });
    until("a connection", || client.replies(1).into_iter().find(is_accepted));
    let program = client.attach(1);
    let exchanged = std::thread::spawn(move || exchange(program, pattern(100_000, 1)));
    until("the end", || {
        drop(client.replies(1));
        exchanged.is_finished().then_some(())
    });
    assert_eq!(exchanged.join().unwrap(), pattern(100_000, 1));
    assert_eq!(counter(&theirs.status(), "stack_peers_not_authorized"), 1);
    let status = client.status();
    assert_eq!(status.fallbacks[&FallbackReason::NotAuthorized], 1);
    assert_eq!(counter(&status, "stack_opens_early"), 1);
}
