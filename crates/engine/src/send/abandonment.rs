//! What is known of messages that may be given up and of those that were (RFC 3758 section 4.1; RFC 7496 section 3):
//! what the user wants of its streams, which chunks may be given up, and what the user is told. `abandon` gives them
//! up.

use super::Outgoing;
use super::outstanding::SentChunk;
use super::queue::Fragment;
use super::reliability::{Abandoned, Failed, ReliabilityPolicy, Terms};
use crate::config::{Config, Reliability, StreamClass, StreamOptions};
use crate::path::ChunkState;
use crate::tsn::Tsn64;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use manypath_wire::StreamId;

/// What the sender knows about messages that may be given up, and about those that were.
#[derive(Debug)]
pub(crate) struct Abandonment {
    /// What holds for messages that are queued without a word about it, per stream and for the
    /// others.
    streams: BTreeMap<StreamId, Reliability>,
    others: Reliability,
    /// The peer follows when messages of which a part was sent are given up.
    agreed: bool,
    /// Chunks sent that may be given up.
    perishable: usize,
    /// First chunks of messages with a priority, the least important last; of equal ones the oldest.
    by_priority: BTreeSet<(u32, u64, Tsn64)>,
    /// Messages given up of which the user does not know yet.
    failed: Vec<Failed>,
    counts: BTreeMap<(StreamId, ReliabilityPolicy), Abandoned>,
    /// The cumulative TSN has passed abandoned chunks.
    passed: bool,
}

impl Abandonment {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            streams: BTreeMap::new(),
            others: config.reliability,
            agreed: false,
            perishable: 0,
            by_priority: BTreeSet::new(),
            failed: Vec::new(),
            counts: BTreeMap::new(),
            passed: false,
        }
    }

    /// What holds for messages of which nothing is said is as in `other`, and so is what was counted.
    pub(super) fn adopt_defaults(&mut self, other: &Self) {
        self.streams.clone_from(&other.streams);
        self.others = other.others;
        self.counts.clone_from(&other.counts);
    }

    /// A chunk is sent for the first time.
    pub(super) fn on_sent(&mut self, tsn: Tsn64, fragment: &Fragment) {
        self.perishable += usize::from(fragment.terms != Terms::Reliable);
        if let Some(order) = priority_order(tsn, fragment) {
            self.by_priority.insert(order);
        }
    }

    /// The cumulative TSN has passed a chunk.
    pub(super) fn on_gone(&mut self, tsn: Tsn64, chunk: &SentChunk) {
        self.perishable -= usize::from(chunk.fragment.terms != Terms::Reliable);
        self.passed |= chunk.record.state == ChunkState::Abandoned;
        self.forget_priority(tsn, &chunk.fragment);
    }

    /// Whether the cumulative TSN has passed abandoned chunks since the last call.
    pub(super) fn take_passed(&mut self) -> bool {
        core::mem::take(&mut self.passed)
    }

    /// A chunk can make no room any more.
    pub(super) fn forget_priority(&mut self, tsn: Tsn64, fragment: &Fragment) {
        if let Some(order) = priority_order(tsn, fragment) {
            self.by_priority.remove(&order);
        }
    }

    /// The first chunks of messages that are less important than `priority`, without one of all that have one, with
    /// their priorities, the least important first.
    pub(super) fn below(&self, priority: Option<u32>) -> impl Iterator<Item = (u32, Tsn64)> {
        let less = move |other: u32| priority.is_none_or(|priority| other > priority);
        let all = self.by_priority.iter().rev().filter(|_| self.agreed);
        all.take_while(move |(other, ..)| less(*other)).map(|(other, _, tsn)| (*other, *tsn))
    }

    /// A message was given up.
    pub(super) fn note(&mut self, message: Outgoing, terms: Terms, sent: bool) {
        let Some(policy) = terms.policy() else { return };
        let counts = self.counts.entry((message.stream, policy)).or_default();
        counts.sent += u64::from(sent);
        counts.unsent += u64::from(!sent);
        self.failed.push(Failed { message, policy, sent });
    }

    /// The messages given up since the last call.
    pub(crate) fn take_failed(&mut self) -> Vec<Failed> {
        core::mem::take(&mut self.failed)
    }

    /// The peer follows when messages of which a part was sent are given up.
    pub(super) fn agree(&mut self) {
        self.agreed = true;
    }

    /// Whether messages of which a part was sent may be given up.
    pub(crate) fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// Whether anything that was sent may be given up.
    pub(super) fn has_perishable(&self) -> bool {
        self.agreed && self.perishable > 0
    }

    /// What holds from now on for messages of `stream`, or of all streams for which nothing was said,
    /// that are queued without a word about it.
    pub(crate) fn set_reliability(&mut self, stream: Option<StreamId>, reliability: Reliability) {
        match stream {
            Some(stream) => drop(self.streams.insert(stream, reliability)),
            None => self.others = reliability,
        }
    }

    /// What holds for messages of `stream`, which has these options, that are queued without a word about it.
    pub(super) fn reliability(&self, stream: StreamId, options: StreamOptions) -> Reliability {
        let set = self.streams.get(&stream).copied();
        set.or_else(|| worth(options)).unwrap_or(self.others)
    }

    /// How many messages of `stream`, or of all, were given up by `policy`, or by any.
    pub(crate) fn count(
        &self,
        stream: Option<StreamId>,
        policy: Option<ReliabilityPolicy>,
    ) -> Abandoned {
        let wanted = |(of, by): &(StreamId, ReliabilityPolicy)| {
            stream.is_none_or(|stream| stream == *of) && policy.is_none_or(|policy| policy == *by)
        };
        let counts = self.counts.iter().filter(|(key, _)| wanted(key));
        counts.fold(Abandoned::default(), |sum, (_, Abandoned { unsent, sent })| Abandoned {
            unsent: sum.unsent + unsent,
            sent: sum.sent + sent,
        })
    }
}

/// How long messages of a realtime stream are worth something.
fn worth(options: StreamOptions) -> Option<Reliability> {
    let lifetime = options.max_delay.filter(|_| options.class == StreamClass::Realtime)?;
    Some(Reliability::Lifetime(lifetime))
}

/// The place of a message in the order of priorities, if the fragment is its first.
fn priority_order(tsn: Tsn64, fragment: &Fragment) -> Option<(u32, u64, Tsn64)> {
    let Terms::Priority(priority) = fragment.terms else { return None };
    let age = u64::MAX - tsn.since(Tsn64::initial(manypath_wire::Tsn(0)).before());
    fragment.begin.then_some((priority, age, tsn))
}
