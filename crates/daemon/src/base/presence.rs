//! Whether a peer is still there, when its host says that nobody listens at its port.
//!
//! A process that is killed says no goodbye. Its host answers for it, by ICMP port unreachable. A packet filter that
//! rejects says exactly the same, and TCP takes that for a passing error (RFC 1122 section 4.2.3.9). So such a message
//! only raises a doubt: all paths are asked each second, and the association is given up
//!
//! * at once if the answer is an ABORT: another process has taken the peer's place;
//! * after a second without a packet if it carries no connection, because then nobody loses one. Connects that have
//!   not been answered go on as plain TCP, and do so earlier;
//! * after `unreachable_patience` without a packet otherwise. Programs then see a reset, as they would with TCP once
//!   the peer has died.
//!
//! The host answers only what it is asked. A program that waits for its peer sends nothing, so when its
//! association has fallen quiet the peer is asked after a second, and again whenever that has lasted as
//! long again, until the HEARTBEATs of all paths come as often: death is found out in about the time that
//! had been quiet before it.

use super::{Base, Setup};
use crate::core::Core;
use crate::log;
use crate::timers::Timer;
use manypath_engine::{AssociationId, Duration, Instant, PathAddr, PathState};
use std::collections::BTreeSet;
use std::net::IpAddr;
use tracing::info;

/// How long an association with flows is quiet before its peer is asked.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Silence after which the HEARTBEATs of the paths are enough.
const LAST_LOOK: Duration = Duration::from_secs(16);

/// Since when nothing has moved on an association, and when its peer is asked about that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiet {
    since: Instant,
    look_at: Option<Instant>,
}

impl Quiet {
    pub(crate) const fn new(since: Instant) -> Self {
        Self { since, look_at: None }
    }
}

/// How often a peer in doubt is asked, and how long it may be silent, beyond two of its round trips, if it carries no
/// connection.
const GRACE: Duration = Duration::from_secs(1);

/// A peer's host has said that nobody listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubt {
    since: Instant,
    /// Packets that had come from the peer by then.
    received: u64,
}

/// The associations with peers whose hosts have said since the last call that nobody listens.
pub(crate) fn take_closed(base: &mut Base) -> Vec<AssociationId> {
    let closed = base.core.driver.take_closed_ports();
    if closed.is_empty() {
        return Vec::new();
    }
    let is_closed = |id: &AssociationId| {
        let paths = base.core.paths_of(*id).into_iter();
        raises_doubt(paths.map(|path| (path.addr, path.state)), &closed)
    };
    base.all.keys().copied().filter(is_closed).collect()
}

/// Asks whether the peer is still there. How many packets it has sent so far, if that was not in doubt before.
pub(crate) fn doubt(base: &mut Base, id: AssociationId) -> Option<u64> {
    let (since, received) = (base.core.now, base.core.packets_received(id));
    let association = base.all.get_mut(&id)?;
    // During setup the engine itself takes the message at its word.
    if association.setup == Setup::Connecting || association.doubted.is_some() {
        return None;
    }
    association.doubted = Some(Doubt { since, received });
    base.core.ask_in_doubt(id);
    Some(received)
}

impl Base {
    pub(crate) fn on_presence_timer(&mut self, id: AssociationId) {
        let received = self.core.packets_received(id);
        let Some(association) = self.all.get_mut(&id) else { return };
        let doubt = association.doubted.take_if(|doubt| doubt.received == received);
        association.doubted = doubt;
        let Some(doubt) = doubt else { return };
        let silent = self.core.now.since(doubt.since);
        if association.carries_connections()
            && silent < self.core.config.limits.unreachable_patience
        {
            return self.core.ask_in_doubt(id);
        }
        association.doubted = None;
        if self.core.has_active_path(id) {
            return;
        }
        self.core.count("peers_gone");
        info!(
            target: log::ASSOCIATION,
            "association {}: given up: the peer's host reports that nobody listens, and nothing has come for {} s",
            id.0, silent.as_secs(),
        );
        self.core.abort(id, b"nobody listens");
    }

    /// Something moves on the association.
    pub(crate) fn note_activity(&mut self, id: AssociationId) {
        let first = self.core.now + FIRST_LOOK;
        let Some(association) = self.all.get_mut(&id) else { return };
        let Quiet { since, look_at } = &mut association.quiet;
        *since = self.core.now;
        if look_at.is_none_or(|at| at > first) {
            *look_at = Some(first);
            self.core.timers.set(first, Timer::Quiet(id));
        }
    }

    pub(crate) fn on_quiet_timer(&mut self, id: AssociationId) {
        let now = self.core.now;
        let Some(association) = self.all.get_mut(&id) else { return };
        // There may have been an earlier timer.
        if association.quiet.look_at.is_none_or(|at| now < at) {
            return;
        }
        association.quiet.look_at = None;
        let (since, unused) = (association.quiet.since, association.is_unused());
        let quiet = now.since(since);
        if unused || quiet > LAST_LOOK {
            return;
        }
        let next = if quiet < FIRST_LOOK { since + FIRST_LOOK } else { now + quiet };
        association.quiet.look_at = Some(next);
        self.core.timers.set(next, Timer::Quiet(id));
        if quiet >= FIRST_LOOK {
            self.core.driver.endpoint_mut().request_heartbeat(now, id, None);
        }
    }
}

impl Core {
    fn ask_in_doubt(&mut self, id: AssociationId) {
        let wait = GRACE + self.longest_round_trip(id) * 2;
        self.after(wait, Timer::Presence(id));
        self.ask_everywhere(id);
    }

    /// Asks on every path that has ever worked, so that the host can answer for each.
    pub(crate) fn ask_everywhere(&mut self, id: AssociationId) {
        let paths = self.paths_of(id).into_iter();
        let confirmed = paths.filter(|path| path.state != PathState::Unconfirmed);
        let remotes: BTreeSet<IpAddr> = confirmed.map(|path| path.addr.remote.ip()).collect();
        for remote in remotes {
            self.driver.endpoint_mut().request_heartbeat(self.now, id, Some(remote));
        }
    }

    pub(crate) fn longest_round_trip(&self, id: AssociationId) -> Duration {
        let paths = self.paths_of(id).into_iter();
        paths.filter_map(|path| path.srtt).max().unwrap_or_default()
    }

    /// Whether what was sent over each path has remained without an answer.
    pub(crate) fn is_silent(&self, id: AssociationId) -> bool {
        !self.paths_of(id).is_empty() && !self.has_active_path(id)
    }

    fn has_active_path(&self, id: AssociationId) -> bool {
        let mut paths = self.paths_of(id).into_iter();
        paths.any(|path| path.state == PathState::Active)
    }
}

/// Whether nobody listens any more at a pair of addresses that has been one of the association's. One that
/// was never confirmed may reach another host, or an interface to which the peer's socket is not bound.
fn raises_doubt(
    mut paths: impl Iterator<Item = (PathAddr, PathState)>,
    closed: &BTreeSet<PathAddr>,
) -> bool {
    paths.any(|(addr, state)| state != PathState::Unconfirmed && closed.contains(&addr))
}

#[cfg(test)]
mod tests {
    use super::raises_doubt;
    use manypath_engine::{PathAddr, PathState};
    use std::net::SocketAddr;

    #[test]
    fn a_closed_port_at_a_pair_that_was_never_confirmed_raises_no_doubt() {
        let pair = |host| {
            let remote = SocketAddr::from(([10, 0, 0, host], 9899));
            PathAddr { local: SocketAddr::from(([10, 0, 0, 1], 9899)), remote }
        };
        let closed = [pair(2)].into();
        let doubt =
            |other| raises_doubt([(pair(3), PathState::Active), other].into_iter(), &closed);
        assert!(!doubt((pair(2), PathState::Unconfirmed)));
        for state in [PathState::Active, PathState::PotentiallyFailed, PathState::Inactive] {
            assert!(doubt((pair(2), state)), "{state:?}");
        }
    }
}
