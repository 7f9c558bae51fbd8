//! Key exchanges that are begun and not completed (docs/key-management.md).

use super::peer::{Event, Extras, Peer};
use super::{Words, craft, other};
use serde_json::{Value, json};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Messages of key management.
const RECORDS: u32 = 4242;
/// The DTLS Connection Index of the first keys, before the records of a message.
const INDEX: u8 = 3;
/// Times that slow ones send a little more, and the pause between them.
const ROUNDS: usize = 8;
const PAUSE: Duration = Duration::from_millis(500);

/// What an association does when it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It sends nothing.
    Never,
    /// It sends a ClientHello byte by byte, and not to its end.
    Slowly,
    /// It sends half of a ClientHello.
    Partly,
    /// It sends a whole one, to which the server makes keys and signs, and does not answer.
    Stalled,
    /// It sends what is no TLS.
    Garbage,
}

const MANNERS: [Manner; 5] =
    [Manner::Never, Manner::Slowly, Manner::Partly, Manner::Stalled, Manner::Garbage];

/// `exchanges SERVER COUNT ADDRESSES FIRST`: that many associations from each address, which behave in all manners in turn.
/// Whether the server has answered one of those that stall.
pub(super) fn exchanges(server: SocketAddr, words: &mut Words) -> io::Result<(Value, Vec<Peer>)> {
    let (count, addresses, first): (u16, u8, u8) = (words.next()?, words.next()?, words.next()?);
    let begun = Instant::now();
    let (mut kept, mut refused) = (Vec::new(), 0);
    for address in first..first + addresses {
        let socket = UdpSocket::bind((other(address), 0))?;
        socket.connect(server)?;
        for number in 0..count {
            let extras = Extras { protect: true, ..Extras::default() };
            let peer = Peer::from_port(socket.try_clone()?, 20_000 + number, &extras)?;
            let Some(mut peer) = peer else {
                refused += 1;
                continue;
            };
            let manner = MANNERS[kept.len() % MANNERS.len()];
            begin(manner, &mut peer)?;
            kept.push((manner, peer));
        }
    }
    let answered = is_answered((other(first), 0).into(), server)?;
    let seconds = begun.elapsed().as_secs_f64();
    for round in 0..ROUNDS {
        std::thread::sleep(PAUSE);
        for (_, peer) in kept.iter_mut().filter(|(manner, _)| *manner == Manner::Slowly) {
            peer.data(0, RECORDS, &[INDEX, client_hello()[1 + round]])?;
        }
    }
    let kept: Vec<_> = kept.into_iter().map(|(_, peer)| peer).collect();
    Ok((
        json!({ "kept": kept.len(), "refused": refused, "answered": answered, "seconds": seconds }),
        kept,
    ))
}

/// Whether the server answers a ClientHello: else the attack would show nothing.
fn is_answered(source: SocketAddr, server: SocketAddr) -> io::Result<bool> {
    let extras = Extras { protect: true, ..Extras::default() };
    let Some(mut peer) = Peer::connect(source, server, &extras)? else { return Ok(false) };
    begin(Manner::Stalled, &mut peer)?;
    for _ in 0..10 {
        let events = peer.step(Duration::from_millis(200))?;
        if events.iter().any(|event| matches!(event, Event::Data { ppid: RECORDS, .. })) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn begin(manner: Manner, peer: &mut Peer) -> io::Result<()> {
    let hello = client_hello();
    let records = match manner {
        Manner::Never => return Ok(()),
        Manner::Slowly => hello[..1].to_vec(),
        Manner::Partly => hello[..hello.len() / 2].to_vec(),
        Manner::Stalled => hello,
        Manner::Garbage => (0..64).flat_map(|_| craft::random().to_be_bytes()).collect(),
    };
    peer.data(0, RECORDS, &[&[INDEX], &records[..]].concat())
}

/// A record with a ClientHello that any server of manypath answers (RFC 8446 section 4.1.2): one cipher suite, one key
/// share of X25519, raw public keys at both ends.
fn client_hello() -> Vec<u8> {
    let random: Vec<u8> = (0..8).flat_map(|_| craft::random().to_be_bytes()).collect();
    let share = [&[0x00, 0x1d, 0, 32][..], &random].concat();
    let extensions = [
        extension(43, &[2, 0x03, 0x04]),
        extension(10, &[0, 2, 0x00, 0x1d]),
        extension(13, &[0, 2, 0x08, 0x07]),
        extension(51, &with_length(&share)),
        extension(19, &[1, 2]),
        extension(20, &[1, 2]),
    ]
    .concat();
    let mut body = vec![0x03, 0x03];
    body.extend(&random);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend(with_length(&extensions));
    let message = [&[1, 0][..], &with_length(&body)].concat();
    [&[22, 3, 1][..], &with_length(&message)].concat()
}

fn extension(number: u16, content: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes()[..], &with_length(content)].concat()
}

/// Behind its length in two octets.
fn with_length(content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).unwrap_or(u16::MAX);
    [&len.to_be_bytes()[..], content].concat()
}
