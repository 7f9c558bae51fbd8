//! What comes over a path: when DATA has come last, and what of the way back SACKs for it may take.

use super::returns::Returns;
use crate::time::Instant;

/// What has come over a path, and the SACKs that went back.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// When DATA came last, duplicates included.
    last_data: Option<Instant>,
    /// When data came last, until it has been looked after that there may come more.
    watched: Option<Instant>,
    /// When a SACK was sent last.
    last_sack: Option<Instant>,
    /// What SACKs may take of the way back.
    returns: Returns,
}

impl Arrivals {
    /// A packet of `len` bytes with DATA of the peer has come.
    pub(super) fn on_data(&mut self, now: Instant, len: usize) {
        self.last_data = Some(now);
        self.returns.earn(len);
    }

    /// When DATA came last, duplicates included.
    pub(crate) fn last_data(&self) -> Option<Instant> {
        self.last_data
    }

    /// It is to be looked after that more data may come.
    pub(crate) fn watch(&mut self, now: Instant) {
        self.watched = Some(now);
    }

    /// When data came last, if that is watched.
    pub(crate) fn watched(&self) -> Option<Instant> {
        self.watched
    }

    /// That is not watched any more.
    pub(crate) fn end_watch(&mut self) {
        self.watched = None;
    }

    /// A SACK has left in `len` bytes.
    pub(crate) fn on_sack_sent(&mut self, now: Instant, len: usize) {
        self.last_sack = Some(now);
        self.returns.spend(len);
    }

    /// When a SACK was sent last.
    pub(crate) fn last_sack(&self) -> Option<Instant> {
        self.last_sack
    }

    /// By how much SACKs have taken more of the way back than they may.
    pub(crate) fn sack_debt(&self) -> u32 {
        self.returns.missing()
    }
}
