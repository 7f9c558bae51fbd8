//! Deadlines of the stack, kept in order. A deadline is not taken back: whoever set it looks,
//! when it comes, whether it still means something.

use crate::association::RelayId;
use crate::attempt::AttemptId;
use crate::datagrams::DatagramId;
use crate::stack::Stack;
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
    /// The launcher has had its time to hand over the program's connection.
    Attach(AttemptId),
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
    /// The state of a gateway is to be printed.
    StatusLine,
    /// The service manager is to be told how the stack is.
    Service,
    /// What was learnt about peers is to be kept.
    SavePeers,
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

    pub(crate) fn next(&self) -> Option<Instant> {
        self.set.first().map(|(at, _)| *at)
    }

    /// Takes one timer whose time has come.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Timer> {
        self.next().filter(|at| *at <= now)?;
        self.set.pop_first().map(|(_, timer)| timer)
    }
}

impl Stack {
    pub(crate) fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::HeadStart(id) => self.on_head_start_timer(id),
            Timer::Route(id) => self.on_route_timer(id),
            Timer::InitCopy(id) => self.base.core.on_init_copy_timer(id),
            Timer::Answer(_) => self.follow_answers(),
            Timer::Fallback(id) => self.on_fallback_timer(id),
            Timer::Attach(id) => self.on_attach_timer(id),
            Timer::Patience(id) => self.on_patience_timer(id),
            Timer::Idle(id) => self.base.on_idle_timer(id),
            Timer::DatagramFallback(id) => self.on_datagram_fallback(id),
            Timer::Datagrams => self.on_datagrams_timer(),
            Timer::Rescan => self.on_rescan_timer(),
            Timer::Network => self.on_network_timer(),
            Timer::Presence(id) => self.base.on_presence_timer(id),
            Timer::Quiet(id) => self.base.on_quiet_timer(id),
            Timer::Listeners => self.on_listeners_timer(),
            Timer::Look => self.answer_looked(),
            Timer::Waiting => self.on_waiting_timer(),
            Timer::Delayed => self.give_up_delayed(),
            Timer::AcceptControl => self.base.core.accept_control(),
            Timer::Callers => self.accept_callers(),
            Timer::StatusLine => self.on_status_line_timer(),
            Timer::Service => self.on_service_timer(),
            Timer::SavePeers => self.peers.save(&mut self.base.core),
            Timer::Watch => self.on_watch_timer(),
            Timer::Drain => self.on_drain_timer(),
            Timer::Deserted => self.on_deserted_timer(),
            Timer::Successor => self.on_successor_timer(),
        }
    }
}
