//! Attackers that want the server's memory or its associations.

use super::peer::{Event, Extras, Peer};
use super::{Words, craft, other};
use serde_json::{Value, json};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// User data of each chunk that is hoarded.
const CHUNK: [u8; 1200] = [0x5a; 1200];

/// `associations SERVER COUNT ADDRESSES`: that many from each address, which all stay.
pub(super) fn associations(
    server: SocketAddr,
    words: &mut Words,
) -> io::Result<(Value, Vec<Peer>)> {
    let (count, addresses): (u16, u8) = (words.next()?, words.next()?);
    let (mut kept, mut refused) = (Vec::new(), 0);
    for address in 1..=addresses {
        let socket = UdpSocket::bind((other(address), 0))?;
        socket.connect(server)?;
        for number in 0..count {
            let extras = Extras::default();
            match Peer::from_port(socket.try_clone()?, 20_000 + number, &extras)? {
                Some(peer) => kept.push(peer),
                None => refused += 1,
            }
        }
    }
    Ok((json!({ "kept": kept.len(), "refused": refused }), kept))
}

/// `hoard SERVER ASSOCIATIONS BYTES SOURCE`: each sends that much behind a hole that stays.
pub(super) fn hoard(server: SocketAddr, words: &mut Words) -> io::Result<(Value, Vec<Peer>)> {
    let (count, bytes, source): (u16, usize, IpAddr) =
        (words.next()?, words.next()?, words.next()?);
    let mut kept = Vec::new();
    for _ in 0..count {
        let Some(mut peer) = Peer::connect((source, 0).into(), server, &Extras::default())? else {
            continue;
        };
        peer.skip();
        for number in 0..bytes / CHUNK.len() {
            peer.data(2, 0x6d50_0101, &CHUNK)?;
            // The server is not to lose them: this is about its memory.
            if number % 16 == 15 {
                std::thread::sleep(Duration::from_micros(200));
                peer.step(Duration::from_micros(1))?;
            }
        }
        kept.push(peer);
    }
    let sent: u64 = kept.iter().map(|peer| peer.sent).sum();
    let ended = kept.iter().filter(|peer| peer.ended).count();
    Ok((json!({ "kept": kept.len() - ended, "ended": ended, "sent": sent }), kept))
}

/// `never-ack SERVER ASSOCIATIONS PORT SOURCE`: each asks for a large file, and acknowledges nothing of it.
pub(super) fn never_ack(server: SocketAddr, words: &mut Words) -> io::Result<(Value, Vec<Peer>)> {
    let (count, port, source): (u16, u16, IpAddr) = (words.next()?, words.next()?, words.next()?);
    let (mut kept, mut served) = (Vec::new(), 0);
    for _ in 0..count {
        let Some(mut peer) = Peer::connect((source, 0).into(), server, &Extras::default())? else {
            continue;
        };
        peer.open((server.ip(), port).into(), (source, 4711).into())?;
        peer.say("GET /large HTTP/1.0\r\n\r\n")?;
        for _ in 0..20 {
            let events = peer.step(Duration::from_millis(20))?;
            if events.iter().any(|event| matches!(event, Event::Data { .. })) {
                served += 1;
                break;
            }
        }
        kept.push(peer);
    }
    Ok((json!({ "kept": kept.len(), "served": served }), kept))
}

/// `camp SERVER SOURCE VICTIM`: associations that give the victim's address as one of their own.
pub(super) fn camp(server: SocketAddr, words: &mut Words) -> io::Result<(Value, Vec<Peer>)> {
    let (source, victim): (IpAddr, Ipv4Addr) = (words.next()?, words.next()?);
    let mut kept = Vec::new();
    let socket = UdpSocket::bind((source, 9899))?;
    socket.connect(server)?;
    for _ in 0..100 {
        let extras = Extras { addresses: &[victim], ..Extras::default() };
        let port = 49152 + u16::try_from(craft::random() % 16000).unwrap_or(0);
        kept.extend(Peer::from_port(socket.try_clone()?, port, &extras)?);
    }
    Ok((json!({ "kept": kept.len() }), kept))
}
