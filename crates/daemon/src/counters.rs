//! Counts of everything that was refused, dropped or went another way.

use manypath_control::status::FallbackReason;
use std::collections::BTreeMap;

/// Event counts by name, and fallbacks by reason.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    events: BTreeMap<&'static str, u64>,
    fallbacks: BTreeMap<FallbackReason, u64>,
    flows: BTreeMap<&'static str, u64>,
    datagrams: BTreeMap<&'static str, u64>,
}

impl Counters {
    pub(crate) fn count(&mut self, name: &'static str) {
        *self.events.entry(name).or_default() += 1;
    }

    pub(crate) fn count_fallback(&mut self, reason: FallbackReason) {
        *self.fallbacks.entry(reason).or_default() += 1;
    }

    /// Keeps the counts of an association's flows when the association goes.
    pub(crate) fn add_flows(&mut self, entries: Vec<(&'static str, u64)>) {
        for (name, count) in entries {
            *self.flows.entry(name).or_default() += count;
        }
    }

    /// The same of its datagrams.
    pub(crate) fn add_datagrams(&mut self, entries: Vec<(&'static str, u64)>) {
        for (name, count) in entries {
            *self.datagrams.entry(name).or_default() += count;
        }
    }

    /// Counts of datagrams of associations that are gone.
    pub(crate) const fn past_datagrams(&self) -> &BTreeMap<&'static str, u64> {
        &self.datagrams
    }

    /// Counts of flows of associations that are gone.
    pub(crate) const fn past_flows(&self) -> &BTreeMap<&'static str, u64> {
        &self.flows
    }

    pub(crate) const fn events(&self) -> &BTreeMap<&'static str, u64> {
        &self.events
    }

    pub(crate) const fn fallbacks(&self) -> &BTreeMap<FallbackReason, u64> {
        &self.fallbacks
    }
}
