//! Sockets of two hosts, packets between them by hand.

use bytes::Bytes;
use manypath_engine::{Config, Duration, Endpoint, Instant, LocalAddress, PacketBatch, PathAddr};
use manypath_sockets::constants::*;
use manypath_sockets::layout::Structure;
use manypath_sockets::structures::{sctp_assoc_change, sctp_event};
use manypath_sockets::{Errno, Host, Outbound, SendInfo, SocketId, Sockets, Style};
use std::net::{IpAddr, SocketAddr};

pub(crate) struct Side {
    pub(crate) endpoint: Endpoint,
    pub(crate) sockets: Sockets,
}

/// Two hosts with two addresses each: 10.0.1.x and 10.0.2.x.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) sides: [Side; 2],
    /// An address to which nothing gets.
    pub(crate) dead: Option<IpAddr>,
}

pub(crate) const PORT: u16 = 4000;

pub(crate) fn address(net: u8, host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, net, host as u8 + 1], PORT))
}

fn side(host: usize) -> Side {
    let mut endpoint = Endpoint::new(Config::production(), [host as u8; 32]);
    let ips = [1, 2].map(|net| address(net, host).ip());
    for (interface, ip) in (1..).zip(ips) {
        let addr = SocketAddr::new(ip, 9899);
        endpoint.add_local_address(LocalAddress { addr, prefix_len: 24, interface, mtu: 1500 });
    }
    Side { endpoint, sockets: Sockets::new(ips.to_vec(), 9899, 0) }
}

impl Pair {
    /// The client's socket and the server's accepted one, connected.
    pub(crate) fn connected(&mut self) -> (SocketId, SocketId) {
        let (client, listener) = self.sockets(Style::OneToOne);
        self.connect(client, address(1, 1)).unwrap();
        (client, self.with(1, |sockets, _| sockets.accept(listener)).unwrap())
    }

    pub(crate) fn new() -> Self {
        Self { now: Instant::from_nanos(1), sides: [side(0), side(1)], dead: None }
    }

    /// Both hosts have programs for Linux.
    pub(crate) fn following_linux() -> Self {
        let sides = [0, 1].map(|host| {
            let Side { endpoint, sockets } = side(host);
            Side { endpoint, sockets: sockets.following_linux() }
        });
        Self { sides, ..Self::new() }
    }

    pub(crate) fn with<T>(
        &mut self,
        host: usize,
        act: impl FnOnce(&mut Sockets, &mut Host<'_>) -> T,
    ) -> T {
        let Side { endpoint, sockets } = &mut self.sides[host];
        act(sockets, &mut Host { now: self.now, endpoint })
    }

    /// Packets and events until there are none.
    pub(crate) fn settle(&mut self) {
        for _ in 0..1000 {
            let mut packets = Vec::new();
            for host in 0..2 {
                packets.extend(self.drain(host));
            }
            if packets.is_empty() {
                return;
            }
            for (to, path, bytes) in packets {
                self.sides[to].endpoint.handle_packet(self.now, path, &bytes);
            }
        }
        panic!("it does not come to rest");
    }

    pub(crate) fn drain(&mut self, host: usize) -> Vec<(usize, PathAddr, Vec<u8>)> {
        self.with(host, |sockets, host| {
            sockets.handle_timeout(host);
            while let Some((id, event)) = host.endpoint.poll_event() {
                sockets.on_event(host, id, event);
            }
        });
        let mut all = Vec::new();
        let mut batch = PacketBatch::new(16);
        while let Some(sent) = self.sides[host].endpoint.poll_transmit(self.now, &mut batch) {
            for packet in batch.bytes().chunks(sent.segment_size.max(1)) {
                let path = PathAddr { local: sent.path.remote, remote: sent.path.local };
                if Some(path.local.ip()) != self.dead {
                    all.push((1 - host, path, packet.to_vec()));
                }
            }
        }
        all
    }

    /// So much time passes, timer by timer.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.settle();
            let timers = |side: &Side| [side.endpoint.poll_timeout(), side.sockets.timeout()];
            let due = self.sides.iter().flat_map(timers).flatten().min();
            let Some(due) = due.filter(|due| *due <= until) else { break };
            self.now = self.now.max(due);
            for side in &mut self.sides {
                side.endpoint.handle_timeout(self.now);
            }
        }
        self.now = until;
    }

    /// A socket of host 1 that listens at [`PORT`], and one of host 0.
    pub(crate) fn sockets(&mut self, style: Style) -> (SocketId, SocketId) {
        let listener = self.with(1, |sockets, host| {
            let id = sockets.open(style, false);
            sockets.bind(id, SocketAddr::from(([0; 4], PORT))).unwrap();
            sockets.listen(host, id, 2).unwrap();
            id
        });
        (self.with(0, |sockets, _| sockets.open(style, false)), listener)
    }

    /// Connects the client's socket with one of the server that has a window of 3000 bytes.
    pub(crate) fn connected_with_small_window(&mut self, client: SocketId) -> SocketId {
        let listener = self.with(1, |sockets, host| {
            let id = sockets.open(Style::OneToOne, false);
            let (option, small) = ((libc::SOL_SOCKET, libc::SO_RCVBUF), 3000i32.to_ne_bytes());
            sockets.set_option(host, id, option, &small).unwrap();
            sockets.bind(id, address(1, 1)).unwrap();
            sockets.listen(host, id, 2).unwrap();
            id
        });
        self.connect(client, address(1, 1)).unwrap();
        self.with(1, |sockets, _| sockets.accept(listener)).unwrap()
    }

    pub(crate) fn send(
        &mut self,
        host: usize,
        id: SocketId,
        to: &[SocketAddr],
        text: &str,
    ) -> Result<usize, Errno> {
        let data = Bytes::copy_from_slice(text.as_bytes());
        let message = Outbound { to: to.to_vec(), info: SendInfo::default(), data };
        self.with(host, |sockets, host| sockets.send(host, id, message))
    }

    /// What comes next: text, or the type of a notification.
    pub(crate) fn next(&mut self, host: usize, id: SocketId) -> Result<String, Errno> {
        let received = self.with(host, |sockets, host| sockets.receive(host, id, 4096, false))?;
        if received.flags & MSG_NOTIFICATION == 0 {
            return Ok(String::from_utf8_lossy(&received.data).into_owned());
        }
        let change = sctp_assoc_change::decode_short(&received.data);
        Ok(match i32::from(change.sac_type) {
            SCTP_ASSOC_CHANGE => format!("change to {}", change.sac_state),
            SCTP_SHUTDOWN_EVENT => "shutdown".into(),
            SCTP_SENDER_DRY_EVENT => "dry".into(),
            other => format!("{other:#x}"),
        })
    }

    /// Binds to one address, and listens.
    pub(crate) fn listen_at(&mut self, host: usize, at: SocketAddr) -> Result<SocketId, Errno> {
        self.with(host, |sockets, host| {
            let id = sockets.open(Style::OneToMany, false);
            sockets.bind(id, at)?;
            sockets.listen(host, id, 5)?;
            Ok(id)
        })
    }

    pub(crate) fn connect(&mut self, client: SocketId, to: SocketAddr) -> Result<(), Errno> {
        let number = self.with(0, |sockets, host| sockets.connect(host, client, &[to]))?;
        self.settle();
        self.with(0, |sockets, _| sockets.connection(client, number))
    }

    /// The peer's addresses as host 0 knows them.
    pub(crate) fn peer_addresses(&mut self, id: SocketId) -> Vec<SocketAddr> {
        self.with(0, |sockets, host| sockets.peer_addresses(host, id, 0)).unwrap()
    }

    pub(crate) fn subscribe(&mut self, host: usize, id: SocketId, kinds: &[i32]) {
        for kind in kinds {
            let event = sctp_event { se_type: *kind as u16, se_on: 1, ..Default::default() };
            let option = (libc::IPPROTO_SCTP, SCTP_EVENT);
            self.with(host, |sockets, host| sockets.set_option(host, id, option, &event.encode()))
                .unwrap();
        }
    }
}

/// An option of host 0's socket, set or asked for.
pub(crate) fn option<S: Structure>(
    pair: &mut Pair,
    id: SocketId,
    name: i32,
    asked: &S,
) -> Result<S, Errno> {
    let option = (libc::IPPROTO_SCTP, name);
    let found = pair.with(0, |sockets, host| sockets.option(host, id, option, &asked.encode()))?;
    Ok(S::decode(&found).unwrap())
}

pub(crate) fn set<S: Structure>(
    pair: &mut Pair,
    id: SocketId,
    name: i32,
    value: &S,
) -> Result<(), Errno> {
    let option = (libc::IPPROTO_SCTP, name);
    pair.with(0, |sockets, host| sockets.set_option(host, id, option, &value.encode()))
}

/// An option of host 0's socket, set as it stands in memory.
pub(crate) fn set_raw(pair: &mut Pair, id: SocketId, name: i32, value: &[u8]) -> Result<(), Errno> {
    let option = (libc::IPPROTO_SCTP, name);
    pair.with(0, |sockets, host| sockets.set_option(host, id, option, value))
}

/// The same, asked for.
pub(crate) fn option_raw(
    pair: &mut Pair,
    id: SocketId,
    name: i32,
    asked: &[u8],
) -> Result<Vec<u8>, Errno> {
    let option = (libc::IPPROTO_SCTP, name);
    pair.with(0, |sockets, host| sockets.option(host, id, option, asked))
}
