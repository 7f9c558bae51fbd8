//! Which stream goes next (RFC 8260 section 3), one scheduler per file, chosen by name in `kind`.
//!
//! A scheduler knows the streams that have something to send, and of each what comes first. Whether
//! a stream may use the path that asks is the business of `schedule::path`: it is asked by `may`.
//! Without I-DATA a message that was begun must be finished before anything else is sent; the queue
//! sees to that and asks a scheduler only between messages.

mod fair_capacity;
mod fcfs;
mod kind;
mod priority;
mod round_robin;
mod round_robin_packet;
mod sparse_first;
mod stream_set;
mod weighted_fair;

use fair_capacity::FairCapacity;
use fcfs::Fcfs;
use priority::Priority;
use round_robin::RoundRobin;
use round_robin_packet::RoundRobinPacket;
use sparse_first::SparseFirst;
use weighted_fair::WeightedFair;

use crate::config::StreamOptions;
use crate::path::PathId;
use core::fmt::Debug;
use manypath_wire::StreamId;

/// What a stream has to send first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// Number of the message in the order in which messages were given by the user.
    pub(crate) arrival: u64,
    /// Bytes that leave before another stream can be chosen.
    pub(crate) len: usize,
}

/// Something of a stream has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Departure {
    /// Where the stream is one of those that share the turns of a single path.
    pub(crate) lane: Lane,
    /// Bytes that have left since the stream was chosen.
    pub(crate) bytes: usize,
    /// What the stream has to send now.
    pub(crate) next: Option<Head>,
}

/// Streams that take turns with each other: those of one path if streams are tied to paths,
/// otherwise all.
pub(crate) type Lane = Option<PathId>;

/// Chooses among streams.
pub(crate) trait StreamScheduler: Debug + Send {
    /// `stream` had nothing to send and has now.
    fn add(&mut self, stream: StreamId, head: Head);
    /// The stream that is to send next, of those that `may`.
    fn next(&self, lane: Lane, may: &dyn Fn(StreamId) -> bool) -> Option<StreamId>;
    /// Something of `stream` has left.
    fn on_sent(&mut self, stream: StreamId, departure: Departure);
    /// Whether `stream` has something to send and goes before bulk data because that is little.
    fn is_sparse(&self, _stream: StreamId) -> bool {
        false
    }
    /// How many streams are sparse.
    fn sparse(&self) -> usize {
        0
    }
    /// Whether all streams have parts of the whole, whichever paths they are tied to: then [`Self::owed`] finds who has
    /// too little, and streams of different paths share one lane.
    fn has_common_parts(&self) -> bool {
        false
    }
    /// The stream that is to send next, of those that `may`, if it has so much less than its part that it goes before
    /// `own`, whose turn it is.
    fn owed(&self, _own: StreamId, _may: &dyn Fn(StreamId) -> bool) -> Option<StreamId> {
        None
    }
    /// `stream`, which has `head` to send first, was given more: so many bytes wait on it now.
    fn on_more(&mut self, _stream: StreamId, _head: Head, _waiting: usize) {}
    /// What `stream` had to send was dropped.
    fn remove(&mut self, stream: StreamId);
    /// The user has other wishes for `stream`.
    fn set_options(&mut self, _stream: StreamId, _options: StreamOptions) {}
    /// A packet is complete.
    fn on_packet_end(&mut self) {}
    /// Nothing waits, and nothing has for a while: memory for what does is given back.
    fn release_memory(&mut self) {}
}

#[cfg(test)]
pub(crate) mod testing;
