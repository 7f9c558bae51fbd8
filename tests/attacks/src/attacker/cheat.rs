//! Receivers that lie, and storms of requests.

use super::Words;
use super::peer::{Event, Extras, Peer};
use manypath_wire::chunk::{Chunk, GapBlock, GapBlocks, Heartbeat, ReConfig};
use manypath_wire::parameter::{AddStreams, OutgoingSsnReset, Parameter, Parameters};
use manypath_wire::{StreamId, Tsn};
use serde_json::{Value, json};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The round trip time that paced receivers make by waiting.
const ROUND: Duration = Duration::from_millis(20);
/// How often the acknowledgement of one packet is cut up.
const DIVISION: usize = 8;

/// An association with a download that has begun.
fn downloading(server: SocketAddr, words: &mut Words) -> io::Result<Peer> {
    let (port, source): (u16, IpAddr) = (words.next()?, words.next()?);
    let peer = Peer::connect((source, 0).into(), server, &Extras::default())?;
    let mut peer = peer.ok_or_else(|| io::Error::other("the server refused"))?;
    peer.open((server.ip(), port).into(), (source, 4711).into())?;
    peer.say("GET /large HTTP/1.0\r\n\r\n")?;
    Ok(peer)
}

/// `optimistic SERVER PORT SOURCE`: acknowledges what was not sent.
pub(super) fn optimistic(server: SocketAddr, words: &mut Words) -> io::Result<Value> {
    let mut peer = downloading(server, words)?;
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until && !peer.ended {
        let begun = peer.data > 5000;
        peer.step(ROUND)?;
        let ahead = if begun { 100_000 } else { 0 };
        peer.sack(peer.cumulative().wrapping_add(ahead), GapBlocks::EMPTY)?;
    }
    Ok(json!({ "ended": peer.ended, "data": peer.data }))
}

/// `paced SERVER PORT SOURCE MANNER ROUNDS`: how much comes within so many round trips.
pub(super) fn paced(server: SocketAddr, words: &mut Words) -> io::Result<Value> {
    let mut peer = downloading(server, words)?;
    let (manner, rounds): (String, u32) = (words.next()?, words.next()?);
    for _ in 0..rounds {
        let (before, until) = (peer.cumulative(), Instant::now() + ROUND);
        while Instant::now() < until {
            peer.step(until.saturating_duration_since(Instant::now()))?;
        }
        let arrived = peer.cumulative().wrapping_sub(before);
        match manner.as_str() {
            // Everything but the first is reported, and withdrawn at once.
            "renege" if arrived > 1 => {
                let end = u16::try_from(arrived).unwrap_or(u16::MAX);
                let gaps = [GapBlock { start: 2, end }];
                peer.sack(before, GapBlocks::from_slice(&gaps))?;
                peer.sack(before, GapBlocks::EMPTY)?;
                peer.sack(peer.cumulative(), GapBlocks::EMPTY)?;
            }
            "once" | "renege" => peer.sack(peer.cumulative(), GapBlocks::EMPTY)?,
            "divide" => acknowledge(&mut peer, before, arrived, DIVISION)?,
            _ => acknowledge(&mut peer, before, arrived, 1)?,
        }
    }
    Ok(
        json!({ "data": peer.data, "sent": peer.sent, "received": peer.received, "ended": peer.ended }),
    )
}

/// Each packet by so many SACKs.
fn acknowledge(peer: &mut Peer, before: u32, arrived: u32, times: usize) -> io::Result<()> {
    for number in 1..=arrived {
        for _ in 0..times {
            peer.sack(before.wrapping_add(number), GapBlocks::EMPTY)?;
        }
    }
    Ok(())
}

/// `storm SERVER PORT SOURCE KIND COUNT`: requests within an association that downloads.
pub(super) fn storm(server: SocketAddr, words: &mut Words) -> io::Result<Value> {
    let (port, source): (u16, IpAddr) = (words.next()?, words.next()?);
    let (kind, count): (String, u32) = (words.next()?, words.next()?);
    let peer = Peer::connect((source, 0).into(), server, &Extras::default())?;
    let mut peer = peer.ok_or_else(|| io::Error::other("the server refused"))?;
    let (sent, received) = (peer.sent, peer.received);
    for number in 0..count {
        request(&mut peer, &kind, number)?;
        if number % 64 == 63 {
            while !peer.step(Duration::from_micros(100))?.is_empty() {}
        }
    }
    while !peer.step(Duration::from_millis(200))?.is_empty() {}
    let (sent, received) = (peer.sent - sent, peer.received - received);
    // Whether the association still serves.
    peer.open((server.ip(), port).into(), (source, 4711).into())?;
    peer.say("GET /small HTTP/1.0\r\n\r\n")?;
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until && !peer.ended && peer.data < 5000 {
        let events = peer.step(ROUND)?;
        if events.iter().any(|event| matches!(event, Event::Data { .. })) {
            peer.sack(peer.cumulative(), GapBlocks::EMPTY)?;
        }
    }
    Ok(
        json!({ "sent": sent, "received": received, "ended": peer.ended, "served": peer.data >= 5000 }),
    )
}

fn request(peer: &mut Peer, kind: &str, number: u32) -> io::Result<()> {
    let request = peer.first().wrapping_add(number);
    let streams = [StreamId(0), StreamId(1)];
    let reset = Parameter::OutgoingSsnReset(OutgoingSsnReset {
        request,
        response: 0,
        last_tsn: Tsn(peer.first().wrapping_sub(1)),
        streams: manypath_wire::parameter::StreamIds::from_slice(&streams),
    });
    let parameter = match kind {
        "heartbeats" => {
            return peer.send(&[Chunk::Heartbeat(Heartbeat { info: &number.to_be_bytes() })]);
        }
        "resets" => reset,
        _ => Parameter::AddOutgoingStreams(AddStreams { request, count: 1000 }),
    };
    let bytes = super::craft::parameters(&[parameter]);
    peer.send(&[Chunk::ReConfig(ReConfig { parameters: Parameters::from_bytes(&bytes) })])
}
