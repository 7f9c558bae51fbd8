//! What a stack says to who tells the kernel beforehand: connects that wait already, listening sockets that
//! nobody has announced yet, peers that come only when their names are known.

use crate::common::peer::{Answer, Peer};
use crate::common::{Host, LIMIT, Launcher, Network, Table, counter, echo, exchange, service};
use manypath_control::{Listener, Reply, Request, Transport, Way};
use manypath_daemon::{DEFAULT_UDP_PORT, Locals, StackConfig};
use manypath_engine::{AssociationId, Config};
use manypath_flow::{ADAPTATION, Refusal};
use manypath_net::UdpPort;
use socket2::{Domain, Socket, Type};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

const BUSY: Answer = Answer::Refused(Refusal::Busy);
const NOT_ALLOWED: Answer = Answer::Refused(Refusal::NotAllowed);

/// A host whose programs are in a cgroup, and a peer of it.
struct Site {
    network: Network,
    _server: Host,
    redirector: Option<Launcher>,
}

impl Site {
    fn new() -> Self {
        let network = Network::new();
        let (server, redirector) = Host::with_redirector(network.server_config(&[]));
        Self { network, _server: server, redirector: Some(redirector) }
    }

    fn redirector(&self) -> &Launcher {
        self.redirector.as_ref().expect("it is there")
    }

    fn listener(&self) -> TcpListener {
        TcpListener::bind((self.network.server()[0], 0)).unwrap()
    }

    fn announce(&self, id: u64, listener: &TcpListener) {
        let addr = listener.local_addr().unwrap();
        let copy = OwnedFd::from(listener.try_clone().unwrap());
        let inode = File::from(copy).metadata().unwrap().ino();
        let listener = Listener { addr, v6_only: false, inode, program: "test".to_owned() };
        self.redirector().send(&Request::Listen { id, listener });
    }

    /// A listener that the stack offers to peers.
    fn offered(&self) -> TcpListener {
        let listener = self.listener();
        self.announce(1, &listener);
        assert_eq!(self.redirector().receive(), Reply::Offered { id: 1 });
        listener
    }

    fn expect(&self) {
        self.redirector().send(&Request::Expect { id: 0 });
        assert_eq!(self.redirector().receive(), Reply::Offered { id: 0 });
    }

    fn peer(&self) -> (Peer, AssociationId) {
        let mut peer = Peer::client(self.network.client()[0]);
        let id = peer.establish(SocketAddr::new(self.network.server()[0], DEFAULT_UDP_PORT));
        (peer, id)
    }

    /// Takes the word of a peer that is to be led here, and of the way to it before; where from, where to, and who.
    fn arriving(&self) -> (SocketAddr, SocketAddr, SocketAddr) {
        let Reply::WayFrom { from, to, way: Some(_) } = self.redirector().receive() else {
            panic!("nothing of the way")
        };
        let Reply::Arriving { from: told, to: there, client } = self.redirector().receive() else {
            panic!("nobody arrives")
        };
        assert_eq!((told, there), (from, to));
        (from, to, client)
    }

    /// The way of a connection that was led here.
    fn way(&self, (from, to): (SocketAddr, SocketAddr)) -> Option<Way> {
        self.redirector().send(&Request::WayFrom { from, to });
        let Reply::WayFrom { from: told, to: there, way } = self.redirector().receive() else {
            panic!("nothing of the way")
        };
        assert_eq!((told, there), (from, to));
        way
    }

    fn look(&self) -> u64 {
        let Reply::Look { id } = self.redirector().receive() else { panic!("no look") };
        id
    }
}

/// Asks for a flow while `act` plays the redirector; what became of the flow.
fn ask(peer: &mut Peer, id: AssociationId, to: SocketAddr, act: impl FnOnce()) -> Answer {
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| peer.open(id, to).1);
        act();
        asked.join().unwrap()
    })
}

#[test]
fn a_socket_that_was_not_announced_yet_is_looked_for_before_the_peer_is_answered() {
    let site = Site::new();
    site.expect();
    let (mut peer, id) = site.peer();
    let listener = site.listener();
    let to = listener.local_addr().unwrap();
    let answer = ask(&mut peer, id, to, || {
        let look = site.look();
        site.announce(1, &listener);
        assert_eq!(site.redirector().receive(), Reply::Offered { id: 1 });
        site.redirector().send(&Request::Looked { id: look });
        let (from, to, _) = site.arriving();
        site.redirector().send(&Request::Noted { from, to });
    });
    assert_eq!(answer, Answer::Opened);
    assert_eq!(counter(&site.redirector().status(), "stack_listeners_looked_for"), 1);
}

#[test]
fn a_socket_of_nobody_stays_out_of_reach() {
    let site = Site::new();
    site.expect();
    let (mut peer, id) = site.peer();
    let listener = site.listener();
    let to = listener.local_addr().unwrap();
    let look = || site.redirector().send(&Request::Looked { id: site.look() });
    assert_eq!(ask(&mut peer, id, to, look), NOT_ALLOWED);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_redirector_that_does_not_answer_holds_a_peer_for_half_a_second() {
    let site = Site::new();
    site.expect();
    let (mut peer, id) = site.peer();
    let listener = site.listener();
    let begun = Instant::now();
    assert_eq!(peer.open(id, listener.local_addr().unwrap()).1, NOT_ALLOWED);
    assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
}

#[test]
fn a_redirector_that_ends_holds_nobody() {
    let mut site = Site::new();
    site.expect();
    let (mut peer, id) = site.peer();
    let listener = site.listener();
    let to = listener.local_addr().unwrap();
    let redirector = site.redirector.take().unwrap();
    let answer = ask(&mut peer, id, to, || {
        assert!(matches!(redirector.receive(), Reply::Look { .. }));
        drop(redirector);
    });
    assert_eq!(answer, NOT_ALLOWED);
}

/// A peer that heard "not allowed" would not ask again for a minute.
#[test]
fn where_nobody_listens_yet_a_peer_is_told_to_ask_again() {
    let site = Site::new();
    site.expect();
    let (mut peer, id) = site.peer();
    let listener = site.listener();
    let to = listener.local_addr().unwrap();
    drop(listener);
    assert_eq!(peer.open(id, to).1, BUSY);
}

/// A peer that was led to a listener: its connection as the program has accepted it.
fn led(site: &Site, peer: &mut Peer, id: AssociationId) -> TcpStream {
    let listener = site.offered();
    let answer = ask(peer, id, listener.local_addr().unwrap(), || {
        let (from, to, client) = site.arriving();
        assert_eq!(client.ip(), site.network.client()[0]);
        // Long enough for a connection that does not wait.
        std::thread::sleep(Duration::from_millis(100));
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        site.redirector().send(&Request::Noted { from, to });
    });
    assert_eq!(answer, Answer::Opened);
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(false).unwrap();
    accepted.set_read_timeout(Some(LIMIT)).unwrap();
    accepted
}

/// Who comes next to ask for the name of the client would hear a local address.
#[test]
fn names_are_noted_before_a_peer_comes_and_it_goes_with_who_knows_them() {
    let mut site = Site::new();
    site.expect();
    let (mut peer, id) = site.peer();
    let mut accepted = led(&site, &mut peer, id);
    drop(site.redirector.take());
    assert_eq!(accepted.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_redirector_that_is_going_to_end_hears_when_no_peer_is_left() {
    let site = Site::new();
    site.expect();
    let (mut peer, id) = site.peer();
    let mut accepted = led(&site, &mut peer, id);
    site.redirector().send(&Request::Resign);
    assert!(matches!(site.redirector().receive(), Reply::Left { .. }));
    assert_eq!(site.redirector().receive(), Reply::Resigned);
    accepted.set_nonblocking(true).unwrap();
    assert_eq!(accepted.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let to = accepted.local_addr().unwrap();
    // Nobody vouches for it any more, whoever listens there.
    let _listener = TcpListener::bind(to).unwrap();
    let look = || site.redirector().send(&Request::Looked { id: site.look() });
    assert_eq!(ask(&mut peer, id, to, look), NOT_ALLOWED);
}

/// What the program asks of its socket the kernel must answer as soon as it has accepted.
#[test]
fn the_way_to_a_peer_is_told_before_it_comes_and_when_asked_until_it_goes() {
    let site = Site::new();
    site.expect();
    let (mut peer, id) = site.peer();
    let accepted = led(&site, &mut peer, id);
    let ends = (accepted.peer_addr().unwrap(), accepted.local_addr().unwrap());
    let way = site.way(ends).expect("a way");
    assert!(way.mss >= 1000 && way.mtu > way.mss && way.window_bytes > 0, "{way:?}");
    assert_eq!(site.way((ends.1, ends.0)), None, "nobody's");
    peer.abort(id);
    assert_eq!(site.redirector().receive(), Reply::Left { from: ends.0, to: ends.1 });
    assert_eq!(site.way(ends), None);
}

/// It has noted a name for it, and would keep that for ever.
#[test]
fn a_redirector_hears_that_a_peer_has_gone_which_was_to_come() {
    let site = Site::new();
    site.expect();
    let (mut peer, id) = site.peer();
    let listener = site.offered();
    peer.ask(id, listener.local_addr().unwrap());
    let (from, to, _) = site.arriving();
    peer.abort(id);
    site.redirector().wait_for("its end", |status| status.associations.is_empty());
    site.redirector().send(&Request::Noted { from, to });
    assert_eq!(site.redirector().receive(), Reply::Left { from, to });
    assert_eq!(counter(&site.redirector().status(), "stack_dials_dropped"), 1);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// It would be taken for the client.
#[test]
fn nobody_else_can_come_from_where_a_peer_is_announced_to_come_from() {
    let site = Site::new();
    site.expect();
    let (mut peer, id) = site.peer();
    let listener = site.offered();
    let answer = ask(&mut peer, id, listener.local_addr().unwrap(), || {
        let (from, to, _) = site.arriving();
        let intruder = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        intruder.set_reuse_address(true).unwrap();
        assert_eq!(intruder.bind(&from.into()).unwrap_err().kind(), ErrorKind::AddrInUse);
        site.redirector().send(&Request::Noted { from, to });
    });
    assert_eq!(answer, Answer::Opened);
}

#[test]
fn a_redirector_that_takes_no_note_of_a_peer_does_not_hold_it_for_ever() {
    let site = Site::new();
    site.expect();
    let (mut peer, id) = site.peer();
    let listener = site.offered();
    assert_eq!(peer.open(id, listener.local_addr().unwrap()).1, BUSY);
    let (from, to, _) = site.arriving();
    assert_eq!(site.redirector().receive(), Reply::Left { from, to });
    let status = site.redirector().status();
    assert_eq!(counter(&status, "stack_dial_denied_launcher_silent"), 1);
}

/// Peers elsewhere must have room to wait.
#[test]
fn few_flows_of_one_address_wait_at_a_time() {
    let site = Site::new();
    site.expect();
    let listener = site.listener();
    let to = listener.local_addr().unwrap();
    let client = site.network.client()[0];
    let config = || Config { port: 0, adaptation: Some(ADAPTATION), ..Config::default() };
    let mut peers: Vec<_> =
        (1..4).map(|seed| Peer::seeded(client, UdpPort::Ephemeral, config(), seed)).collect();
    let remote = SocketAddr::new(site.network.server()[0], DEFAULT_UDP_PORT);
    let ids: Vec<_> = peers.iter_mut().map(|peer| peer.establish(remote)).collect();
    for (peer, id) in peers.iter_mut().zip(ids) {
        for _ in 0..16 {
            peer.ask(id, to);
        }
    }
    // 48 have asked. Those that wait are refused in another way, half a second later.
    for _ in 0..32 {
        site.look();
    }
    site.redirector().wait_for("the refusals", |status| {
        counter(status, "stack_dial_denied_too_many_waiting") == 16
    });
}

/// Takes the word that a connect which waits may be completed, and of its way before.
fn accepted(redirector: &Launcher, id: u64) -> Transport {
    let told = redirector.receive();
    assert!(matches!(told, Reply::Way { id: of, way: Some(_) } if of == id), "{told:?}");
    let Reply::Accepted { transport, .. } = redirector.receive() else { panic!("not accepted") };
    transport
}

#[test]
fn a_connect_that_waits_is_carried() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[destination]));
    let (_client, mut redirector) = Host::with_redirector(network.client_config());
    let id = redirector.open_waiting(destination);
    assert_eq!(redirector.receive(), Reply::Pending { id });
    assert_eq!(accepted(&redirector, id), Transport::Sctp);
    assert_eq!(exchange(redirector.attach(id), vec![7; 70]), vec![7; 70]);
}

/// It cannot go back to the kernel; the next one need not come.
#[test]
fn a_connect_that_waits_is_relayed_where_there_is_no_sctp_and_the_next_is_left_to_the_kernel() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let (_client, mut redirector) = Host::with_redirector(network.client_config());
    for known in [false, true] {
        let id = redirector.open_waiting(destination);
        assert_eq!(redirector.receive(), Reply::Pending { id });
        let Reply::Plain { destination: plain, for_ms } = redirector.receive() else {
            panic!("it was not said that plain TCP is all there is")
        };
        assert_eq!(plain, destination);
        assert!((50_000..=60_000).contains(&for_ms), "{for_ms}");
        assert_eq!(accepted(&redirector, id), Transport::TcpRelay, "{known}");
        assert_eq!(exchange(redirector.attach(id), vec![7; 70]), vec![7; 70]);
        assert_eq!(redirector.receive(), Reply::Closed { id });
    }
    redirector.send(&Request::ForgetPeers { addr: None, port: None });
    assert_eq!(redirector.receive(), Reply::Changed);
    assert!(matches!(redirector.receive(), Reply::Forgotten { count: 1 }));
}

/// The kernel would refuse the next one: only the stack knows the uplink that plain TCP would take.
#[test]
fn where_the_uplink_of_plain_tcp_matters_the_stack_is_asked_each_time() {
    let network = Network::new();
    let destination = service(network.server()[0], echo);
    let table = Table::new(network, "remote enable never-metered=on\n");
    // The source address of the route to all addresses of loopback.
    let locals = Locals::List(vec![Ipv4Addr::LOCALHOST.into()]);
    let config = StackConfig { locals, rules: table.file(), ..network.client_config() };
    // A peer that refuses is remembered.
    let _server = Host::start(network.server_config(&[]));
    let (_client, mut redirector) = Host::with_redirector(config);
    for _ in 0..2 {
        let id = redirector.open_waiting(destination);
        assert_eq!(redirector.receive(), Reply::Pending { id });
        assert_eq!(accepted(&redirector, id), Transport::TcpRelay);
        assert_eq!(exchange(redirector.attach(id), vec![7; 70]), vec![7; 70]);
        assert_eq!(redirector.receive(), Reply::Closed { id });
    }
}
