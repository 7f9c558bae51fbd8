//! Deadlines of the stack, kept in order. A deadline need not be taken back: whoever set it looks,
//! when it comes, whether it still means something. One that every connect sets is taken back, so that it wakes nobody
//! for nothing.

use crate::ids::{AttemptId, DatagramId, RelayId};
use manypath_engine::{AssociationId, Instant};
use std::collections::BTreeSet;

/// What is to be looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// A non-blocking connect begins its plain TCP connection.
    HeadStart(AttemptId),
    /// Plain TCP may have the route again for which it waits.
    Route(AttemptId),
    /// The INIT to a host of which nothing is known may be lost.
    InitCopy(AssociationId),
    /// A peer at the end of a short path has had its time to answer.
    Answer(AssociationId),
    /// The peer of a connect has had its time to answer.
    Fallback(AttemptId),
    /// The keys of an association are late, or old.
    Keys(AssociationId),
    /// A key that seals tickets is over.
    TicketKeys,
    /// A program's patience with a silent peer may be at its end.
    Patience(RelayId),
    /// An association without flows may have to go.
    Idle(AssociationId),
    /// A peer whose host says that nobody listens has had its time to prove it wrong.
    Presence(AssociationId),
    /// An association with flows may have been quiet for some time.
    Quiet(AssociationId),
    /// The peer of a program that wants to send datagrams has had its time to answer.
    DatagramFallback(DatagramId),
    /// Flows of datagrams may be idle, and sockets of programs gone.
    Datagrams,
    /// Local addresses are looked at although nothing was heard of them.
    Rescan,
    /// Local addresses are looked at because something was heard.
    Network,
    /// Listeners may have gone.
    Listeners,
    /// Redirectors have had their time to look for listeners.
    Look,
    /// Relays have waited for what the rate of their peer allows.
    Rates,
    /// Flows of peers have waited for what they wait for.
    Waiting,
    /// Launchers have had their time to take note of a connection.
    Delayed,
    /// Launchers that share the stack may have stayed away for long.
    Deserted,
    /// Control callers may wait for whom there was no descriptor.
    AcceptControl,
    /// TCP clients of a gateway may wait for whom there was no descriptor, or no time.
    Callers,
    /// Clients may wait at the doors for whom there was no descriptor, or no time.
    DoorListeners,
    /// A client of a door has had its time.
    DoorClient(u64),
    /// Datagrams of a door's client were left to be read, or destinations may be idle.
    DoorDatagrams(u64),
    /// Packets of peers were left to be read.
    Ping(u64),
    /// The state of a gateway is to be printed.
    StatusLine,
    /// The service manager is to be told how the stack is.
    Service,
    /// What was learnt about peers is to be kept.
    SavePeers,
    /// Path policies may hold from now on, or no longer.
    Hours,
    /// Interfaces with a budget may have used it up.
    Budgets,
    /// Quotas of peers are looked at.
    Quotas,
    /// This host may have to register at a relay.
    Register,
    /// The ends of a flow through a relay ask for each other at the addresses that it has told them.
    Punch(DatagramId),
    /// Flows through relays may not be needed any more.
    Ways,
    /// A relay has had its time to lead to a host.
    Search,
    /// Names of relays are looked up again.
    RelayNames,
    /// Those who watch paths are to be told.
    Watch,
    /// Whether a draining stack still makes progress.
    Drain,
    /// A successor should have come by now.
    Successor,
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, timer: Timer) {
        self.set.insert((at, timer));
    }

    /// Takes a deadline back, if it is still to come.
    pub(crate) fn unset(&mut self, at: Instant, timer: Timer) {
        self.set.remove(&(at, timer));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.set.first().map(|(at, _)| *at)
    }

    /// Takes one timer whose time has come.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Timer> {
        self.next().filter(|at| *at <= now)?;
        self.set.pop_first().map(|(_, timer)| timer)
    }

    #[cfg(test)]
    pub(crate) fn count(&self, timer: Timer) -> usize {
        self.set.iter().filter(|(_, set)| *set == timer).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manypath_engine::Duration;

    #[test]
    fn a_deadline_that_is_taken_back_does_not_come_and_others_do() {
        let (mut timers, soon) = (Timers::default(), Instant::ZERO + Duration::from_millis(1));
        let [one, other] = [1, 2].map(|id| Timer::Fallback(AttemptId(id)));
        timers.set(soon, one);
        timers.set(soon, other);
        timers.unset(soon, one);
        timers.unset(Instant::ZERO, other);
        assert_eq!(
            (timers.next(), timers.pop(soon), timers.pop(soon)),
            (Some(soon), Some(other), None)
        );
    }
}
