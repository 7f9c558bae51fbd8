//! Messages that the user gets in parts. RFC 9260 section 6.9: "If the data receiver runs out of buffer
//! space while still waiting for more fragments to complete the reassembly of the message, it SHOULD
//! dispatch part of its inbound message through a partial delivery API".
//!
//! A message is begun when it is the next of its stream and either has as many bytes in sequence as
//! the user has named (`Config::partial_delivery_point`), or fills the buffer alone: nothing else could
//! be read and no hole could be filled to make room. From then on parts are smaller, so that the
//! window never closes.

use super::interleaved::Dropped;
use super::receiver::Receiver;
use crate::config::Config;
use crate::event::{Message, PartialMessage};
use crate::tsn::Tsn64;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Of the buffer, what a part of a message that was begun is worth waiting for.
const LATER_SHARE: u32 = 4;

/// How many bytes in sequence make a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    /// Of a message of which the user has got nothing.
    pub(super) first: usize,
    /// Of one that was begun.
    pub(super) later: usize,
}

impl Thresholds {
    /// What holds for a message.
    pub(super) fn of(self, begun: bool) -> usize {
        if begun { self.later } else { self.first }
    }
}

/// What the user has got in parts.
#[derive(Debug)]
pub(super) struct PartialDelivery {
    thresholds: Thresholds,
    /// Messages of which the user has read something and may read more, by their first TSNs.
    begun: BTreeMap<u32, PartialMessage>,
    /// Those of which the user will not get the rest.
    aborted: Vec<PartialMessage>,
    /// Whether anything more can arrive.
    over: bool,
}

impl PartialDelivery {
    pub(super) fn new(config: &Config) -> Self {
        let first = config.partial_delivery_point.max(1);
        let later = first.min(config.receive_buffer / LATER_SHARE) as usize;
        let thresholds = Thresholds { first: first as usize, later };
        Self { thresholds, begun: BTreeMap::new(), aborted: Vec::new(), over: false }
    }

    pub(super) fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// The user has read `message`, or a part of it.
    pub(super) fn on_read(&mut self, message: &Message) {
        if message.more {
            self.begun.insert(message.tsn.0, PartialMessage::of(message));
        } else if !self.begun.is_empty() {
            self.begun.remove(&message.tsn.0);
        }
    }
}

impl Receiver {
    /// Messages of which the user will not get the rest, since the last call.
    pub(crate) fn take_aborted_parts(&mut self) -> Vec<PartialMessage> {
        core::mem::take(&mut self.partial.aborted)
    }

    /// Nothing arrives any more: of messages that are not complete nothing is left to be read. The others stay readable,
    /// or nobody wants to read them any more.
    pub(crate) fn end_partial_delivery(&mut self, stays_readable: bool) {
        self.partial.over = true;
        let ended = if stays_readable { self.reassembly.ended() } else { BTreeSet::new() };
        let is_cut_off = |tsn: u32| !ended.contains(&tsn);
        let Dropped { bytes, chunks } =
            self.reassembly.drop_parts(|message| is_cut_off(message.tsn.0));
        self.window.release(bytes, chunks);
        let begun = core::mem::take(&mut self.partial.begun);
        let (cut_off, begun): (BTreeMap<_, _>, _) =
            begun.into_iter().partition(|(tsn, _)| is_cut_off(*tsn));
        self.partial.begun = begun;
        self.partial.aborted.extend(cut_off.into_values());
    }

    /// Chunk `tsn` was taken: a part may be large enough, or must do.
    pub(super) fn deliver_parts(&mut self, tsn: Tsn64) {
        let thresholds = self.partial.thresholds;
        if self.interleaved.is_none() {
            self.reassembly.deliver_part_with(tsn, thresholds);
        }
        self.deliver_part_if_short();
    }

    /// Makes room where nothing else can.
    pub(super) fn deliver_part_if_short(&mut self) {
        if self.window.is_short() {
            self.deliver_what_is_there();
        }
    }

    /// Gives the user a part of the message that holds most, unless there is something to read or a
    /// hole to be filled. Returns whether there is anything to read.
    pub(super) fn deliver_what_is_there(&mut self) -> bool {
        if !(self.is_readable() || self.partial.over || self.tracker.has_gap()) {
            let cum = self.tracker.cum();
            match &mut self.interleaved {
                Some(interleaved) => {
                    let part = interleaved.take_largest_part();
                    part.into_iter()
                        .for_each(|(part, tsns)| self.reassembly.push_ready(part, &tsns));
                }
                None => self.reassembly.deliver_part_before(cum),
            }
            self.note_deliverable();
        }
        self.is_readable()
    }

    /// Messages have been given up of which parts were handed out.
    pub(super) fn abort_parts(&mut self) {
        let mut broken = self.reassembly.take_broken();
        if let Some(interleaved) = &mut self.interleaved {
            broken.append(&mut interleaved.take_broken());
        }
        for tsn in broken {
            let Dropped { bytes, chunks } =
                self.reassembly.drop_parts(|message| message.tsn == tsn);
            self.window.release(bytes, chunks);
            self.partial.aborted.extend(self.partial.begun.remove(&tsn.0));
        }
    }
}

#[cfg(test)]
#[path = "partial_delivery_tests.rs"]
mod tests;
