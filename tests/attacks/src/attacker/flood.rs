//! As many packets as are wanted, at a rate.

use super::{Words, craft, other};
use manypath_wire::cause::Causes;
use manypath_wire::chunk::{Abort, Chunk, CookieEcho};
use serde_json::{Value, json};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Packets that are made beforehand, and sockets from which they come.
const PACKETS: usize = 4096;
const SOURCES: u8 = 50;
/// Threads that send: one is too slow where the machine has other work.
const SENDERS: u32 = 3;

/// What the packets leave through.
enum Way {
    Udp(Vec<UdpSocket>, SocketAddr),
    Raw(Socket, SockAddr),
}

impl Way {
    /// A packet that the kernel does not take is lost, as on a network.
    fn send(&self, number: usize, bytes: &[u8]) {
        let _lost = match self {
            Self::Udp(sockets, to) => sockets[number % sockets.len()].send_to(bytes, to),
            Self::Raw(socket, to) => socket.send_to(bytes, to),
        };
    }
}

/// `flood SERVER KIND RATE SECONDS SOURCE`: SOURCE is the attacker's own address where it gives no others.
pub(super) fn flood(server: SocketAddr, words: &mut Words) -> io::Result<Value> {
    let (kind, rate, seconds): (String, f64, f64) = (words.next()?, words.next()?, words.next()?);
    let source: Ipv4Addr = words.next()?;
    let IpAddr::V4(target) = server.ip() else {
        return Err(io::Error::other("floods go over IPv4"));
    };
    let packets: Vec<_> =
        (0..PACKETS).map(|_| made(&kind, server.port(), (target, source))).collect();
    let way = match kind.as_str() {
        "icmp" => {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
            Way::Raw(socket, SocketAddr::from((target, 0)).into())
        }
        "abort" => {
            let sockets = (0..SOURCES).map(|_| UdpSocket::bind((source, 0)));
            Way::Udp(sockets.collect::<io::Result<_>>()?, server)
        }
        _ => {
            let sockets = (0..SOURCES).map(|host| UdpSocket::bind((other(host + 1), 0)));
            Way::Udp(sockets.collect::<io::Result<_>>()?, server)
        }
    };
    let begun = Instant::now();
    let length = Duration::from_secs_f64(seconds);
    let part = || pour(&way, &packets, rate / f64::from(SENDERS), length);
    let sent: usize = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(part)).collect();
        senders.into_iter().filter_map(|sender| sender.join().ok()).sum()
    });
    Ok(json!({ "sent": sent, "rate": sent as f64 / begun.elapsed().as_secs_f64() }))
}

/// `sink ADDRESS`: reads what comes there and throws it away, as fast as a program can that does nothing else.
pub(super) fn sink(address: SocketAddr) -> io::Result<Value> {
    let socket = UdpSocket::bind(address)?;
    std::thread::spawn(move || while socket.recv(&mut [0; 2048]).is_ok() {});
    Ok(json!({ "reads": address.to_string() }))
}

/// Sends at this rate for this time; returns how many packets it sent.
fn pour(way: &Way, packets: &[Vec<u8>], rate: f64, length: Duration) -> usize {
    let (begun, mut sent) = (Instant::now(), 0);
    while begun.elapsed() < length {
        let due = (begun.elapsed().as_secs_f64() * rate) as usize;
        // An attacker that was not scheduled for long does not catch up in one burst.
        let last = due.min(sent + (rate / 5.0) as usize);
        for number in sent..last {
            way.send(number, &packets[number % packets.len()]);
        }
        sent = last;
        std::thread::sleep(Duration::from_micros(500));
    }
    sent
}

fn made(kind: &str, udp_port: u16, hosts: (Ipv4Addr, Ipv4Addr)) -> Vec<u8> {
    let number = craft::random();
    let port = 49152 + u16::try_from(number % 16000).unwrap_or(0);
    let cookie: Vec<u8> = (0..24).flat_map(|_| craft::random().to_be_bytes()).collect();
    match kind {
        "garbage" => cookie,
        "ootb" => craft::packet(port, number, &[Chunk::ShutdownAck]),
        "cookie" => {
            let echo = CookieEcho { cookie: &cookie };
            craft::packet(port, number, &[Chunk::CookieEcho(echo)])
        }
        "abort" => {
            let abort = Abort { tag_reflected: false, causes: Causes::EMPTY };
            craft::packet(port, number, &[Chunk::Abort(abort)])
        }
        "icmp" => unreachable_report(udp_port, hosts, number),
        _ => {
            let bytes =
                craft::parameters(&[manypath_wire::Parameter::AdaptationIndication(craft::FLOWS)]);
            craft::init(port, number, 100_000, &bytes)
        }
    }
}

/// An ICMP message about a packet that the server is said to have sent to the client.
fn unreachable_report(udp_port: u16, hosts: (Ipv4Addr, Ipv4Addr), number: u32) -> Vec<u8> {
    let (server, client) = hosts;
    let (code, mtu) = [(1, 0), (3, 0), (4, 68), (4, 576), (4, 1280)][number as usize % 5];
    let mut quoted = vec![0x45, 0, 5, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
    quoted.extend(server.octets());
    quoted.extend(client.octets());
    let sum = checksum(&quoted);
    quoted[10..12].copy_from_slice(&sum);
    for field in [udp_port, 32768 + u16::try_from(number % 28000).unwrap_or(0), 1260, 0] {
        quoted.extend(field.to_be_bytes());
    }
    quoted.extend(craft::SERVICE.to_be_bytes());
    quoted.extend((49152 + u16::try_from(number % 16000).unwrap_or(0)).to_be_bytes());
    quoted.extend(number.to_be_bytes());
    let mut message = vec![3, code, 0, 0, 0, 0];
    message.extend(u16::to_be_bytes(mtu));
    message.extend(quoted);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum);
    message
}

/// The checksum of IP and ICMP (RFC 1071) over an even number of bytes.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    (!u16::try_from(folded).unwrap_or(0)).to_be_bytes()
}
