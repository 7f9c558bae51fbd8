//! The end of an attempt: a relay, a failure, or nobody waits any more.

use super::{Attempt, Attempts, Sctp, Tcp};
use crate::base::Base;
use crate::ids::{AttemptId, Client, Control, RelayId};
use crate::log;
use crate::relays::{Carrier, Early, Ends, Relay, Relays, TcpRelay};
use crate::socket::Socket;
use crate::token::Source;
use manypath_control::{Reply, Way};
use mio::{Registry, Token};
use socket2::SockRef;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tracing::{info, warn};

impl Attempts {
    /// The launcher hands over the program's connection.
    pub(crate) fn on_attach(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        client: Client,
        fd: OwnedFd,
    ) {
        let Some(id) = base.core.control.attempt(client) else {
            // It has failed meanwhile: the program is not to see an end in good order.
            let _ = SockRef::from(&fd).set_linger(Some(Duration::ZERO));
            return base.core.count("attaches_too_late");
        };
        let Some(attempt) = self.all.remove(&id) else { return };
        if let Err(error) = attach(base, relays, id, attempt, fd) {
            base.core.count("attaches_failed");
            warn!(target: log::CONNECTION, "a connection could not be taken over: {error}");
            base.core.tell_closed(id);
        }
    }

    /// The way of a connection that is attached or about to be; `None` when it is none of ours, or over.
    pub(crate) fn way_of(&self, base: &Base, relays: &Relays, client: Client) -> Option<Way> {
        let id = base.core.control.attempt(client)?;
        relays.way_of(base, RelayId(id.0)).or_else(|| self.way_promised(base, id))
    }

    /// Nobody waits for a connect any more, if it is still under way.
    pub(crate) fn cancel_of(&mut self, base: &mut Base, client: Client) {
        if let Some(attempt) = base.core.control.attempt(client) {
            self.cancel(base, attempt);
        }
    }

    /// Neither the program nor its launcher waits for the connect any more.
    pub(crate) fn cancel(&mut self, base: &mut Base, id: AttemptId) {
        let Some(attempt) = self.all.get(&id) else { return };
        if let Sctp::Opening { association, flow, .. } | Sctp::Opened { association, flow } =
            attempt.sctp
        {
            base.reset_flow(association, flow);
        }
        base.core.count("opens_cancelled");
        self.forget(base, id);
    }

    /// The socket that a launcher has handed over was lost, because this process has no descriptor for it. That was its
    /// last copy, so the kernel has reset the program's connection.
    pub(crate) fn on_attach_without_socket(&mut self, base: &mut Base, client: Client) {
        base.core.count("attaches_without_socket");
        let Some(id) = base.core.control.attempt(client).filter(|id| self.all.contains_key(id))
        else {
            return;
        };
        self.cancel(base, id);
        base.core.reply(client.control, Reply::Closed { id: client.id });
    }

    /// The destination cannot be reached: this is final.
    pub(super) fn fail(&mut self, base: &mut Base, id: AttemptId, errno: i32) {
        let Some(attempt) = self.all.get(&id) else { return };
        let (client, destination) = (attempt.client, attempt.open.destination);
        base.core.count("opens_failed");
        let error = io::Error::from_raw_os_error(errno);
        info!(target: log::CONNECTION, "connection to {destination}: failed: {error}");
        self.forget(base, id);
        base.core.reply(client.control, Reply::Failed { id: client.id, errno });
    }

    pub(super) fn forget(&mut self, base: &mut Base, id: AttemptId) {
        if let Some(attempt) = self.all.remove(&id) {
            attempt.stop_clocks(&mut base.core.timers, id);
            base.core.control.forget(attempt.client);
            super::race::drop_tcp(&mut base.core, attempt.tcp);
        }
    }
}

fn attach(
    base: &mut Base,
    relays: &mut Relays,
    id: AttemptId,
    attempt: Attempt,
    fd: OwnedFd,
) -> io::Result<()> {
    let relay = RelayId(id.0);
    let ends = Ends::To(attempt.open.destination);
    let plainly = |far, base: &mut Base, relays: &mut Relays, fd| {
        let token = Source::Near(relay.0).token();
        let near = near(&base.core.registry, attempt.client, fd, token)?;
        relays.start_plain(relay, TcpRelay::new(near, far));
        relays.begin_connection(base, relay, ends, Carrier::Tcp(attempt.fallback));
        base.core.count("tcp_relays_started");
        io::Result::Ok(())
    };
    let is_answered = matches!(attempt.sctp, Sctp::Opened { .. });
    match (attempt.sctp, attempt.tcp) {
        // Where the peer has not answered yet, it gets what the program writes meanwhile.
        (Sctp::Opened { association, flow } | Sctp::Opening { association, flow, .. }, _)
            if is_answered || attempt.early =>
        {
            let token = Source::Relay(relay.0).token();
            let socket = near(&base.core.registry, attempt.client, fd, token)
                .inspect_err(|_| base.reset_flow(association, flow))?;
            let joined = Relay::new(association, flow, socket).with(&attempt.options);
            let early = (!is_answered).then(|| Early::of(attempt.open.source));
            relays.start(base, relay, joined.before_answer(early));
            relays.begin_connection(base, relay, ends, Carrier::Sctp(association));
        }
        (_, Tcp::Promised(far)) => plainly(far, base, relays, fd)?,
        // The peer has refused it after the program was connected.
        (Sctp::Failed, Tcp::Connecting(far) | Tcp::Connected(far)) if attempt.early => {
            plainly(far, base, relays, fd)?
        }
        (sctp, tcp) => {
            super::race::drop_tcp(&mut base.core, tcp);
            if let Sctp::Opening { association, flow, .. } = sctp {
                base.reset_flow(association, flow);
            }
            return Err(io::Error::other("it was not promised"));
        }
    }
    Ok(())
}

/// A launcher hands over sockets of this host; a client of a door may be on another one.
fn near(registry: &Registry, client: Client, fd: OwnedFd, token: Token) -> io::Result<Socket> {
    let remote =
        (client.control == Control::Doors).then(|| SockRef::from(&fd).peer_addr()).transpose()?;
    match remote.and_then(|remote| remote.as_socket()) {
        Some(remote) => Socket::towards(remote, fd, registry, token),
        None => Socket::new(fd, registry, token),
    }
}
