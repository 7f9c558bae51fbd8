//! The end of an attempt: a relay, a failure, or nobody waits any more.

use super::{Attempt, AttemptId, Client, Control, Sctp, Tcp};
use crate::association::RelayId;
use crate::attempt::Attempts;
use crate::base::Base;
use crate::log;
use crate::relays::Relay;
use crate::relays::TcpRelay;
use crate::relays::{Carrier, Ends};
use crate::socket::Socket;
use crate::stack::Stack;
use crate::token::Source;
use manypath_control::Reply;
use mio::Token;
use socket2::SockRef;
use std::io;
use std::os::fd::OwnedFd;
use tracing::{info, warn};

impl Stack {
    /// The launcher hands over the program's connection.
    pub(crate) fn on_attach(&mut self, client: Client, fd: OwnedFd) {
        let Some(id) = self.base.core.control.attempt(client) else {
            return self.base.core.count("attaches_too_late");
        };
        let Some(attempt) = self.attempts.all.remove(&id) else { return };
        if let Err(error) = self.attach(id, attempt, fd) {
            self.base.core.count("attaches_failed");
            warn!(target: log::CONNECTION, "a connection could not be taken over: {error}");
            self.services.report_closed(&mut self.base, RelayId(id.0));
        }
    }

    fn attach(&mut self, id: AttemptId, attempt: Attempt, fd: OwnedFd) -> io::Result<()> {
        let relay = RelayId(id.0);
        let ends = Ends::To(attempt.open.destination);
        match (attempt.sctp, attempt.tcp) {
            (Sctp::Opened { association, flow }, _) => {
                let token = Source::Relay(relay.0).token();
                let socket = self
                    .near(attempt.client, fd, token)
                    .inspect_err(|_| self.base.reset_flow(association, flow))?;
                let joined = Relay::new(association, flow, socket).with(&attempt.options);
                self.relays.start(&mut self.base, relay, joined);
                self.relays.begin_connection(&self.base, relay, ends, Carrier::Sctp(association));
            }
            (_, Tcp::Promised(far)) => {
                let near = self.near(attempt.client, fd, Source::Near(relay.0).token())?;
                self.relays.start_plain(relay, TcpRelay::new(near, far));
                self.relays.begin_connection(
                    &self.base,
                    relay,
                    ends,
                    Carrier::Tcp(attempt.fallback),
                );
                self.base.core.count("tcp_relays_started");
            }
            (Sctp::Opening { association, flow, .. }, tcp) => {
                super::race::drop_tcp(&mut self.base.core, tcp);
                self.base.reset_flow(association, flow);
                return Err(io::Error::other("it was not promised"));
            }
            (Sctp::Failed, tcp) => {
                super::race::drop_tcp(&mut self.base.core, tcp);
                return Err(io::Error::other("it was not promised"));
            }
        }
        Ok(())
    }
}

impl Stack {
    /// A launcher hands over sockets of this host; a client of a door may be on another one.
    fn near(&self, client: Client, fd: OwnedFd, token: Token) -> io::Result<Socket> {
        let registry = &self.base.core.registry;
        let remote = (client.control == Control::Doors)
            .then(|| SockRef::from(&fd).peer_addr())
            .transpose()?;
        match remote.and_then(|remote| remote.as_socket()) {
            Some(remote) => Socket::towards(remote, fd, registry, token),
            None => Socket::new(fd, registry, token),
        }
    }
}

impl Attempts {
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
            base.core.control.forget(attempt.client);
            super::race::drop_tcp(&mut base.core, attempt.tcp);
        }
    }
}
