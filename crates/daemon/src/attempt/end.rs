//! The end of an attempt: a relay, a failure, or nobody waits any more.

use super::{Attempt, AttemptId, Client, Sctp, Tcp};
use crate::association::RelayId;
use crate::connection::{Carrier, Ends};
use crate::log;
use crate::relay::Relay;
use crate::socket::Socket;
use crate::stack::Stack;
use crate::tcp_relay::TcpRelay;
use crate::token::Source;
use manypath_control::Reply;
use std::io;
use std::os::fd::OwnedFd;
use tracing::{info, warn};

impl Stack {
    /// The launcher hands over the program's connection.
    pub(crate) fn on_attach(&mut self, client: Client, fd: OwnedFd) {
        let Some(id) = self.base.core.control.attempt(client) else {
            return self.base.core.count("attaches_too_late");
        };
        let Some(attempt) = self.attempts.remove(&id) else { return };
        if let Err(error) = self.attach(id, attempt, fd) {
            self.base.core.count("attaches_failed");
            warn!(target: log::CONNECTION, "a connection could not be taken over: {error}");
            self.report_closed(RelayId(id.0));
        }
    }

    fn attach(&mut self, id: AttemptId, attempt: Attempt, fd: OwnedFd) -> io::Result<()> {
        let relay = RelayId(id.0);
        let ends = Ends::To(attempt.open.destination);
        match (attempt.sctp, attempt.tcp) {
            (Sctp::Opened { association, flow }, _) => {
                let token = Source::Relay(relay.0).token();
                let socket = Socket::new(fd, &self.base.core.registry, token)
                    .inspect_err(|_| self.base.reset_flow(association, flow))?;
                let joined = Relay::new(association, flow, socket).with(&attempt.options);
                self.start_relay(relay, joined);
                self.begin_connection(relay, ends, Carrier::Sctp(association));
            }
            (_, Tcp::Promised(far)) => {
                let near =
                    Socket::new(fd, &self.base.core.registry, Source::Near(relay.0).token())?;
                self.tcp_relays.insert(relay, TcpRelay::new(near, far));
                self.begin_connection(relay, ends, Carrier::Tcp(attempt.fallback));
                self.base.core.count("tcp_relays_started");
                self.ready.insert(relay);
            }
            (Sctp::Opening { association, flow, .. }, tcp) => {
                crate::attempt::race::drop_tcp(&mut self.base.core, tcp);
                self.base.reset_flow(association, flow);
                return Err(io::Error::other("it was not promised"));
            }
            (Sctp::Failed, tcp) => {
                crate::attempt::race::drop_tcp(&mut self.base.core, tcp);
                return Err(io::Error::other("it was not promised"));
            }
        }
        Ok(())
    }

    /// Neither the program nor its launcher waits for the connect any more.
    pub(crate) fn cancel_attempt(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        if let Sctp::Opening { association, flow, .. } | Sctp::Opened { association, flow } =
            attempt.sctp
        {
            self.base.reset_flow(association, flow);
        }
        self.base.core.count("opens_cancelled");
        self.forget_attempt(id);
    }

    pub(crate) fn on_attach_timer(&mut self, id: AttemptId) {
        if self.attempts.contains_key(&id) {
            self.base.core.count("attaches_missed");
            self.cancel_attempt(id);
        }
    }

    /// The destination cannot be reached: this is final.
    pub(super) fn fail(&mut self, id: AttemptId, errno: i32) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let (client, destination) = (attempt.client, attempt.open.destination);
        self.base.core.count("opens_failed");
        let error = io::Error::from_raw_os_error(errno);
        info!(target: log::CONNECTION, "connection to {destination}: failed: {error}");
        self.forget_attempt(id);
        self.base.core.reply(client.control, Reply::Failed { id: client.id, errno });
    }

    pub(super) fn forget_attempt(&mut self, id: AttemptId) {
        if let Some(attempt) = self.attempts.remove(&id) {
            self.base.core.control.forget(attempt.client);
            crate::attempt::race::drop_tcp(&mut self.base.core, attempt.tcp);
        }
    }

    /// Tells the launcher that a relay of its is over.
    pub(crate) fn report_closed(&mut self, relay: RelayId) {
        self.on_led_over(relay);
        if let Some(client) = self.base.core.control.client_of(AttemptId(relay.0)) {
            self.base.core.control.forget(client);
            self.base.core.reply(client.control, Reply::Closed { id: client.id });
        }
    }
}
