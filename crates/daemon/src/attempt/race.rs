//! Plain TCP beside SCTP, for connects that cannot go back to the program's own socket, and for those to hosts of which
//! nothing is known.
//!
//! The latter begin at once. Once TCP is connected, the host has a little more time to answer the INIT ([`Grace`]). The
//! service hears of a TCP connection only when it is used: the kernel defers the last packet of the handshake until there
//! is data, or we ask for it, and a reset before that leaves nothing for the service to accept.

use super::{Attempt, Attempts, Sctp, Tcp, unspecified_like};
use crate::base::Base;
use crate::core::Core;
use crate::ids::AttemptId;
use crate::socket::{Socket, connect};
use crate::timers::Timer;
use crate::token::Source;
use manypath_control::Transport;
use manypath_engine::{AssociationId, Duration, InitRepetition, Instant};
use mio::event::Event;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// How much longer than TCP a host of which nothing is known may take to answer an INIT: a process answers there instead of
/// the kernel. A sixth of the time that TCP took, so that the program is connected within another quarter, or 8 ms if that is
/// more. Each such host in a row halves the grace of the next ones: most hosts have no manypath, and a web page may name
/// dozens of them at once. A host that answers restores it. The service of the first one within a second does not hear of
/// a connection that SCTP carries.
#[derive(Debug, Default)]
pub(crate) struct Grace {
    late_in_a_row: u32,
    /// When the first one of the hosts of this second was asked, and how many were.
    asked: Option<(Instant, u32)>,
}

impl Grace {
    const CROWD: u32 = 8;
    const SECOND: Duration = Duration::from_secs(1);
    const PART: u32 = 6;
    const SHORT_WAY: Duration = Duration::from_millis(8);
    const MIN: Duration = Duration::from_millis(2);

    /// Whether the service need not hear yet of a connect that begins. Otherwise the kernel completes the handshake by itself:
    /// what a later answer takes, a server adds to the least round trip of the connection. It takes the answer to its tail
    /// loss probe for one to an earlier packet then (RFC 8985 section 6.2), and repairs what a queue has cut off after a
    /// timeout only.
    fn is_quiet(&mut self, now: Instant, new_host: bool) -> bool {
        let (since, hosts) = self.asked_lately(now).unwrap_or((now, 0));
        let hosts = hosts + u32::from(new_host);
        self.asked = Some((since, hosts));
        hosts <= 1
    }

    /// Whether so many hosts are asked at once that the kernel had better connect to further ones: a web page has dozens of
    /// them, and most have no manypath. They get an INIT, too, so that the next connect to one that answers is carried.
    pub(super) fn is_crowd(&self, now: Instant) -> bool {
        self.asked_lately(now).is_some_and(|(_, hosts)| hosts >= Self::CROWD)
    }

    fn asked_lately(&self, now: Instant) -> Option<(Instant, u32)> {
        self.asked.filter(|(since, _)| now.since(*since) < Self::SECOND)
    }

    /// After TCP has taken `tcp` to connect.
    fn after(&self, tcp: Duration) -> Duration {
        let whole = (tcp / Self::PART).max(Self::SHORT_WAY);
        (whole / 2_u32.pow(self.late_in_a_row)).max(Self::MIN)
    }

    /// When the INIT is sent a second time: one that leaves after TCP is connected cannot be answered in time. None while
    /// hosts without manypath are the rule.
    fn copy_after(&self) -> Option<Duration> {
        let shortest = self.after(Duration::ZERO);
        (shortest > Self::MIN).then_some(shortest / 4)
    }

    /// A host has not answered when TCP is connected.
    fn note_late(&mut self) {
        self.late_in_a_row = (self.late_in_a_row + 1).min(8);
    }

    pub(crate) const fn note_answer(&mut self) {
        (self.late_in_a_row, self.asked) = (0, None);
    }
}

impl Attempts {
    /// Tries plain TCP from the start: nobody knows whether the host has manypath.
    pub(super) fn race(&mut self, base: &mut Base, id: AttemptId) {
        let Some(attempt) = self.all.get_mut(&id) else { return };
        let Sctp::Opening { association, .. } = attempt.sctp else { return };
        attempt.raced = true;
        attempt.quiet = self.grace.is_quiet(base.core.now, begins(base, association, attempt));
        if let Some(after) = self.grace.copy_after() {
            base.core.after(after, Timer::InitCopy(association));
        }
        base.core.count("tcp_races");
        self.start_tcp(base, id);
        self.hurry_race(base, id);
    }

    /// The host has answered over SCTP, which decides alone from now on: the service must not hear of the other connection.
    pub(super) fn end_race(&mut self, base: &mut Base, id: AttemptId) {
        let Some(attempt) = self.all.get_mut(&id).filter(|attempt| attempt.raced) else {
            return;
        };
        attempt.raced = false;
        let tcp = std::mem::replace(&mut attempt.tcp, Tcp::NotStarted);
        drop_tcp(&mut base.core, tcp);
    }

    /// Plain TCP has an answer, or none will come: SCTP has little more time.
    fn hurry_race(&mut self, base: &mut Base, id: AttemptId) {
        let now = base.core.now;
        let Some(attempt) = self.all.get_mut(&id).filter(|attempt| attempt.raced) else {
            return;
        };
        let Sctp::Opening { association, .. } = attempt.sctp else { return };
        if matches!(attempt.tcp, Tcp::Connected(_) | Tcp::Failed(_)) {
            let grace = self.grace.after(now.since(attempt.begun));
            base.core.timers.unset(attempt.patience.1, Timer::Fallback(id));
            // Not the earlier end: a way on which TCP takes longer than that is as long for the INIT.
            attempt.patience.1 = now + grace;
            base.core.timers.set(attempt.patience.1, Timer::Fallback(id));
            // Further connects to the same host say nothing of others.
            if begins(base, association, attempt) {
                self.grace.note_late();
            }
        }
    }

    pub(crate) fn on_head_start_timer(&mut self, base: &mut Base, id: AttemptId) {
        let Some(attempt) = self.all.get(&id) else { return };
        if base.core.now < attempt.patience.0 {
            return;
        }
        if let Sctp::Opening { association, received, .. } = attempt.sctp {
            // A peer that has answered decides alone: no useless connection to its service.
            if base.core.packets_received(association) > received {
                return;
            }
            if !self.waits_for_route(base, id) {
                self.start_tcp(base, id);
            }
        }
    }

    pub(super) fn start_tcp(&mut self, base: &Base, id: AttemptId) {
        let is_forbidden = self.is_tcp_forbidden(base, id);
        let Some(attempt) = self.all.get_mut(&id) else { return };
        if !matches!(attempt.tcp, Tcp::NotStarted) {
            return;
        }
        if is_forbidden {
            attempt.tcp = Tcp::Failed(libc::ENETUNREACH);
            return;
        }
        let token = Source::Far(id.0).token();
        let (open, quietly) = (attempt.open, attempt.quiet && !attempt.early);
        let socket = connect_from(open.source, open.destination, quietly)
            .and_then(|fd| Socket::to_another_host(fd, &base.core.registry, token));
        attempt.tcp = match socket {
            Ok(socket) => Tcp::Connecting(socket),
            Err(error) => Tcp::Failed(errno(&error)),
        };
    }

    pub(crate) fn on_race_event(&mut self, base: &mut Base, id: u64, event: &Event) {
        let id = AttemptId(id);
        let Some(attempt) = self.all.get_mut(&id) else { return };
        match std::mem::replace(&mut attempt.tcp, Tcp::NotStarted) {
            Tcp::Connecting(mut socket) => {
                socket.on_event(event);
                match socket.is_connected() {
                    Ok(true) => {
                        attempt.tcp = Tcp::Connected(socket);
                        self.reached.note(id, attempt);
                    }
                    Ok(false) => attempt.tcp = Tcp::Connecting(socket),
                    Err(error) => {
                        attempt.tcp = Tcp::Failed(errno(&error));
                        socket.reset(&base.core.registry);
                    }
                }
                self.hurry_race(base, id);
                self.on_fallback_timer(base, id);
                self.settle_race(base, id);
            }
            Tcp::Connected(mut socket) => {
                socket.on_event(event);
                attempt.tcp = Tcp::Connected(socket);
            }
            Tcp::Promised(mut socket) => {
                socket.on_event(event);
                attempt.tcp = Tcp::Promised(socket);
            }
            other @ (Tcp::NotStarted | Tcp::Failed(_)) => attempt.tcp = other,
        }
    }

    /// Whether plain TCP may be tried beside SCTP, and has neither connected nor failed.
    pub(super) fn is_tcp_undecided(&self, id: AttemptId) -> bool {
        let racing = |attempt: &&Attempt| {
            let may_race = attempt.raced || !attempt.open.blocking;
            may_race && attempt.by_relay.is_none() && !attempt.options.is_sctp_only()
        };
        self.all
            .get(&id)
            .filter(racing)
            .is_some_and(|attempt| matches!(attempt.tcp, Tcp::NotStarted | Tcp::Connecting(_)))
    }

    /// Uses the outcome of plain TCP, once SCTP has failed.
    pub(super) fn settle_race(&mut self, base: &mut Base, id: AttemptId) {
        let Some(attempt) = self.all.get_mut(&id) else { return };
        if attempt.sctp != Sctp::Failed {
            return;
        }
        match std::mem::replace(&mut attempt.tcp, Tcp::NotStarted) {
            Tcp::Connected(socket) => {
                let (client, peer) = (attempt.client, attempt.open.destination);
                let (local, is_told) = (socket.local_addr(), attempt.early);
                let local = local.unwrap_or_else(|_| unspecified_like(peer));
                socket.acknowledge();
                attempt.tcp = Tcp::Promised(socket);
                if !is_told {
                    self.promise(base, id, client, Transport::TcpRelay, local, peer);
                }
            }
            Tcp::Failed(errno) => self.fail(base, id, errno),
            other @ (Tcp::NotStarted | Tcp::Connecting(_) | Tcp::Promised(_)) => {
                attempt.tcp = other;
            }
        }
    }
}

impl Core {
    pub(crate) fn on_init_copy_timer(&mut self, id: AssociationId) {
        if self.repeat_init(id, InitRepetition::Copy) {
            self.count("init_copies");
        }
    }
}

pub(super) fn drop_tcp(core: &mut Core, tcp: Tcp) {
    match tcp {
        Tcp::Connecting(socket) => socket.reset(&core.registry),
        // The service has not heard of it, if the handshake was deferred; otherwise it has nothing to read from it.
        Tcp::Connected(socket) => {
            core.count("tcp_races_lost");
            socket.reset(&core.registry);
        }
        Tcp::Promised(socket) => {
            core.count("tcp_races_lost");
            socket.close(&core.registry);
        }
        Tcp::NotStarted | Tcp::Failed(_) => {}
    }
}

/// Connects from the address that the program chose, and from its port unless the program's own
/// socket occupies it.
pub(super) fn connect_from(
    source: Option<SocketAddr>,
    to: SocketAddr,
    quietly: bool,
) -> io::Result<OwnedFd> {
    match connect(source, to, quietly) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            connect(source.map(|source| SocketAddr::new(source.ip(), 0)), to, quietly)
        }
        result => result,
    }
}

/// Whether this connect is the one for which the association was begun.
fn begins(base: &Base, association: AssociationId, attempt: &Attempt) -> bool {
    base.get(&association).is_some_and(|one| one.begun == attempt.begun)
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn an_init_is_copied_while_hosts_answer_and_early_in_the_grace() {
        let mut grace = Grace::default();
        for copy in [Some(ms(2)), Some(ms(1)), None] {
            assert_eq!(grace.copy_after(), copy);
            grace.note_late();
        }
        grace.note_answer();
        assert_eq!(grace.copy_after(), Some(ms(2)));
    }

    #[test]
    fn the_grace_is_a_part_of_the_round_trip_and_shrinks_while_nobody_answers() {
        let mut grace = Grace::default();
        assert_eq!((grace.after(ms(120)), grace.after(ms(40))), (ms(20), ms(8)));
        grace.note_late();
        assert_eq!((grace.after(ms(120)), grace.after(ms(40))), (ms(10), ms(4)));
        (0..100).for_each(|_| grace.note_late());
        assert_eq!((grace.after(ms(120)), grace.after(ms(40))), (ms(2), ms(2)));
        grace.note_answer();
        assert_eq!(grace.after(ms(120)), ms(20));
    }
}
