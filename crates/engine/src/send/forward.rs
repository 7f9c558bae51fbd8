//! Advanced.Peer.Ack.Point and the FORWARD-TSN or I-FORWARD-TSN that tells it to the peer (RFC 3758 section 3.5 rules
//! A1, C1 to C5, A5 and F2; RFC 8260 section 2.3.1). It owns the point and what was told of it, and reads the table of
//! TSNs.

use super::Sender;
use super::outstanding::Outstanding;
use super::queue::Number;
use crate::path::{ChunkState, PathId, Paths};
use crate::time::Instant;
use crate::tsn::Tsn64;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use manypath_wire::chunk::{
    ForwardTsn, IForwardTsn, SkippedMessage, SkippedMessages, SkippedStream, SkippedStreams, types,
};
use manypath_wire::{Chunk, Mid, PacketWriter, Ssn, StreamId};

/// A chunk that skips nothing: header and new cumulative TSN.
const EMPTY_LEN: usize = 8;

/// Where the peer's cumulative TSN is to be moved, and what was done about it.
#[derive(Debug)]
pub(crate) struct Forward {
    /// Advanced.Peer.Ack.Point.
    point: Tsn64,
    /// The highest point that was told, when that may be repeated, and over which path it went.
    told: Option<(Tsn64, Instant, PathId)>,
    /// Whether points were told over different paths.
    moved: bool,
    due: bool,
}

impl Forward {
    pub(super) fn new(last: Tsn64) -> Self {
        Self { point: last, told: None, moved: false, due: false }
    }

    /// Moves the point past what is abandoned (C1, C2). If that is news it is to be told (C3). With
    /// `repeat`, when a SACK has arrived, it is to be told again if that was done a round trip ago or
    /// earlier (F2).
    pub(super) fn advance(&mut self, now: Instant, repeat: bool, outstanding: &Outstanding) {
        let cum = outstanding.cum();
        self.point = self.point.max(cum);
        let mut next = self.point.next();
        while let Some(chunk) = outstanding.get(next) {
            match chunk.record.state {
                ChunkState::Abandoned => self.point = next,
                // The receiver has it: it will go on from there by itself.
                ChunkState::Released => {}
                ChunkState::InFlight | ChunkState::Lost | ChunkState::Acked => break,
            }
            next = next.next();
        }
        let point = self.point;
        let again =
            |(told, again, _): (Tsn64, Instant, PathId)| point > told || (repeat && now >= again);
        self.due = point > cum && (self.due || self.told.is_none_or(again));
    }

    /// T3-rtx has expired (A5). True if nothing but the answer to a FORWARD-TSN was awaited.
    pub(super) fn on_timeout(&mut self, outstanding: &Outstanding) -> bool {
        let open = self.point > outstanding.cum();
        self.due |= open;
        open && outstanding.is_quiet()
    }

    /// The messages that the peer is to skip, at most `limit`, and the TSN up to which they are all
    /// (C4).
    fn skipped(
        &self,
        limit: usize,
        outstanding: &Outstanding,
        interleaving: bool,
    ) -> (Tsn64, Skipped) {
        let cum = outstanding.cum();
        let mut skipped = Skipped::new();
        let mut point = cum;
        for ahead in 1..=self.point.since(cum) {
            let tsn = cum.plus(ahead);
            let Some(chunk) = outstanding.get(tsn) else { break };
            let fragment = &chunk.fragment;
            // Unordered messages have no number in DATA.
            let numbered = !fragment.unordered || interleaving;
            if numbered && chunk.record.state == ChunkState::Abandoned {
                let key = (fragment.stream, fragment.unordered);
                if !skipped.contains_key(&key) && skipped.len() >= limit {
                    break;
                }
                skipped.insert(key, fragment.number);
            }
            point = tsn;
        }
        (point, skipped)
    }

    /// The path that is known to have carried the last one.
    pub(super) fn proven_path(&self) -> Option<PathId> {
        self.told.filter(|_| !self.moved).map(|(_, _, path)| path)
    }
}

/// The last message that is skipped, per stream and kind.
type Skipped = BTreeMap<(StreamId, bool), Number>;

impl Sender {
    /// Whether the peer is to be told to skip something.
    pub(crate) fn is_forward_due(&self) -> bool {
        self.forward.due && self.forward.point > self.outstanding.cum()
    }

    /// Appends the FORWARD-TSN or I-FORWARD-TSN that is due, for path `id`. Returns false without
    /// room.
    pub(crate) fn write_forward(
        &mut self,
        now: Instant,
        id: PathId,
        paths: &mut Paths,
        packet: &mut PacketWriter<'_>,
    ) -> bool {
        let interleaving = self.queue.is_interleaving();
        let (kind, item) = if interleaving {
            (types::I_FORWARD_TSN, 8)
        } else {
            (types::FORWARD_TSN, ForwardTsn::ITEM_LEN)
        };
        let Some(room) = packet.room_for(kind).checked_sub(EMPTY_LEN) else { return false };
        let forward = &mut self.forward;
        let (point, skipped) = forward.skipped(room / item, &self.outstanding, interleaving);
        let is_told = point > self.outstanding.cum() && push(point, &skipped, interleaving, packet);
        if !is_told {
            return false;
        }
        let Some(path) = paths.get(id) else { return true };
        let again = now + path.rtt().smoothed().unwrap_or(path.rtt().rto());
        forward.moved = forward.told.is_some_and(|(_, _, before)| before != id);
        forward.told = Some((point, again, id));
        forward.due = false;
        // Rule C5.
        if paths.iter().all(|path| path.flight().t3().is_none())
            && let Some(path) = paths.get_mut(id)
        {
            path.subflow_mut().restart_t3(now);
        }
        true
    }
}

fn push(
    point: Tsn64,
    skipped: &Skipped,
    interleaving: bool,
    packet: &mut PacketWriter<'_>,
) -> bool {
    let cum_tsn = point.wire();
    if interleaving {
        let items: Vec<_> = skipped
            .iter()
            .filter_map(|((stream, unordered), number)| {
                let mid = as_mid(*number)?;
                Some(SkippedMessage { stream: *stream, unordered: *unordered, mid })
            })
            .collect();
        let skipped = SkippedMessages::from_slice(&items);
        return packet.push(&Chunk::IForwardTsn(IForwardTsn { cum_tsn, skipped })).is_ok();
    }
    let items: Vec<_> = skipped
        .iter()
        .filter_map(|((stream, _), number)| {
            Some(SkippedStream { stream: *stream, ssn: as_ssn(*number)? })
        })
        .collect();
    let skipped = SkippedStreams::from_slice(&items);
    packet.push(&Chunk::ForwardTsn(ForwardTsn { cum_tsn, skipped })).is_ok()
}

fn as_mid(number: Number) -> Option<Mid> {
    match number {
        Number::Mid(mid, _) => Some(mid),
        Number::Ssn(_) => None,
    }
}

fn as_ssn(number: Number) -> Option<Ssn> {
    match number {
        Number::Ssn(ssn) => Some(ssn),
        Number::Mid(..) => None,
    }
}
