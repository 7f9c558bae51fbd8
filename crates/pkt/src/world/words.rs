//! Packets in words, for people.

use super::Sent;
use manypath_engine::{Instant, PathAddr};
use manypath_wire::{Chunk, Packet};

/// The chunks of a packet.
pub(super) fn chunks(bytes: &[u8]) -> String {
    let packet = Packet::without_checksum(bytes).map_or_else(|| Packet::parse(bytes), Ok);
    let Ok(packet) = packet else { return "no SCTP packet".into() };
    let one = |chunk: Result<Chunk<'_>, manypath_wire::ParseError>| match chunk {
        Ok(chunk) => chunk.to_string(),
        Err(error) => format!("{error}"),
    };
    let chunks: Vec<_> = packet.chunks().map(one).collect();
    chunks.join("; ")
}

/// A packet that was sent, with its time.
pub(super) fn sent(sent: &Sent) -> String {
    format!("{:.3} s: {}", seconds(sent.at), chunks(&sent.bytes))
}

/// A point in time.
pub(crate) fn seconds(at: Instant) -> f64 {
    at.since(Instant::ZERO).as_secs_f64()
}

/// Prints a packet as it passes.
pub(super) fn trace(at: Instant, arrow: char, path: PathAddr, bytes: &[u8]) {
    let remote = path.remote.ip();
    println!("     {:9.6} {arrow} {remote} {}", seconds(at), chunks(bytes));
}
