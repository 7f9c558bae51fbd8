//! What is asked for on the control connections: which room answers.

use super::Stack;
use crate::attempt::{Lookup, Open};
use crate::base::protection;
use crate::control_server::serves_programs;
use crate::datagrams::Program;
use crate::ids::{Client, ListenerId};
use crate::log;
use crate::service;
use crate::services::{NotServed, may_serve, offered};
use crate::settings::Settings;
use manypath_control::{ControlError, Incoming, Listener, Reply, Request, Role, written_for};
use std::io;
use std::os::fd::OwnedFd;
use tracing::warn;

/// Requests taken from one connection before others have their turn.
const REQUESTS_PER_TURN: usize = 64;

impl Stack {
    /// Answers what has come in on the control connections.
    pub(super) fn serve_control(&mut self) {
        for id in std::mem::take(&mut self.base.core.control.unread) {
            self.serve_connection(id);
        }
        self.drop_broken();
        self.services.inject_delayed(&mut self.base);
    }

    fn serve_connection(&mut self, id: u64) {
        for _ in 0..REQUESTS_PER_TURN {
            let Some(received) = self.base.core.control.receive(id) else { return };
            match received {
                Ok(Incoming::Message(request, fd)) => {
                    self.on_request(id, request, fd);
                    self.drop_broken();
                }
                Ok(Incoming::Closed) => return self.drop_control(id),
                Err(error) if error.is_would_block() => return,
                Err(error) => {
                    self.base.core.count("control_protocol_errors");
                    warn!(target: log::CONTROL, "control connection dropped: {error}");
                    return self.drop_control(id);
                }
            }
        }
        self.base.core.control.unread.insert(id);
    }

    fn on_request(&mut self, id: u64, request: Request, fd: Option<OwnedFd>) {
        let Some((_, welcome)) = self.base.core.control.greeting_of(id) else { return };
        if !welcome && !matches!(request, Request::Hello { .. }) {
            self.base.core.count("control_protocol_errors");
            return self.drop_control(id);
        }
        let (base, client) = (&mut self.base, |open| Client { control: id.into(), id: open });
        let listener = |number| ListenerId { control: id, id: number };
        match request {
            Request::Hello { version, role } => self.on_hello(id, version, role),
            Request::Open { id: open, destination, source, blocking } => {
                let wanted = Open { source, blocking, ..Open::to(destination) };
                self.attempts.on_open(base, client(open), wanted);
            }
            Request::OpenWaiting { id: open, destination, source } => {
                let wanted = Open { source, waiting: true, ..Open::to(destination) };
                self.attempts.on_open(base, client(open), wanted);
            }
            Request::Cancel { id: open } => {
                self.datagrams.cancel(base, client(open));
                self.attempts.cancel_of(base, client(open));
            }
            Request::Attach { id: open } => match fd {
                Some(fd) => self.attempts.on_attach(base, &mut self.relays, client(open), fd),
                None => self.attempts.on_attach_without_socket(base, client(open)),
            },
            Request::OpenDatagrams { id: open, destination, source } => {
                let attempts = &self.attempts;
                self.datagrams.on_open(base, attempts, client(open), destination, source);
            }
            Request::AttachDatagrams { id: open, program, inode, connected } => match fd {
                Some(fd) => {
                    let program = Program { addr: program, inode, connected };
                    self.datagrams.on_attach(base, client(open), program, fd);
                }
                None => base.core.count("attaches_without_socket"),
            },
            Request::DatagramLine => match fd {
                Some(fd) => self.datagrams.add_line(base, id, fd),
                None => base.core.count("attaches_without_socket"),
            },
            Request::Told { id: open } => self.datagrams.on_told(client(open)),
            Request::Options { id: open, options } => {
                self.relays.on_socket_options(base, client(open), &options);
            }
            Request::Way { id: open } => {
                let way = self.attempts.way_of(base, &self.relays, client(open));
                base.core.reply(id, Reply::Way { id: open, way });
            }
            Request::WayFrom { from, to } => {
                let way = self.services.way_from(base, &self.relays, from, to);
                base.core.reply(id, Reply::WayFrom { from, to, way });
            }
            Request::Listen { id: number, listener: described } => {
                self.on_listen(listener(number), described);
            }
            Request::Withdraw { id: number } => self.services.on_withdraw(base, listener(number)),
            // Programs may listen at any time: peers are to find this stack before.
            Request::Expect { id: number } => {
                let served = self.try_to_serve(self.base.core.rules.may_offer_some());
                self.base.core.reply(id, offered(number, served));
            }
            Request::Looked { id: look } => {
                self.services.on_looked(base, &mut self.relays, id, look)
            }
            Request::Resign => {
                self.services.leave_listeners(base, &mut self.relays, id);
                base.core.reply(id, Reply::Resigned);
            }
            Request::Noted { from, to } => self.services.listeners.note(id, from, to),
            Request::Tally { id: number, plain } => {
                self.services.listeners.on_tally(listener(number), plain)
            }
            Request::Traffic => {
                let traffic = self.services.traffic_of(base, &self.relays, id);
                base.core.reply(id, Reply::Traffic(traffic));
            }
            Request::Status => self.send_status(id),
            Request::Watch => self.watch.on_watch(base, id),
            Request::Reload => {
                let done = self.reload().map(|rules| Reply::Reloaded { rules });
                self.base.core.reply(id, done.unwrap_or_else(|why| Reply::Refused { why }));
            }
            Request::ForgetPeers { addr, port } => {
                let count = self.attempts.peers.flush(addr, port)
                    + self.datagrams.services.flush(addr, port);
                self.attempts.peers.forget_kept(&mut base.core, addr, port);
                base.core.control.tell_redirectors();
                base.core.reply(id, Reply::Forgotten { count });
            }
            Request::Stop => self.stop(),
            Request::TakeOver => self.succession.on_take_over(base, id),
            Request::Line { local } => match fd {
                Some(fd) => self.succession.on_lent_line(base, id, local, fd),
                None => base.core.count("attaches_without_socket"),
            },
            Request::TakenOver => self.give_way(id),
        }
    }

    fn on_hello(&mut self, id: u64, version: u32, role: Role) {
        if !self.base.core.control.on_hello(id, version, role) {
            self.base.core.count("control_versions_refused");
            self.drop_control(id);
        }
    }

    fn on_listen(&mut self, id: ListenerId, listener: Listener) {
        let wanted = self.base.core.rules.may_offer(listener.addr);
        let room = self.services.listeners.has_room();
        let served = room.and_then(|()| self.try_to_serve(wanted));
        self.services.on_listen(&mut self.base, id, listener, served);
    }

    /// Is there for the peers of listeners, if some are `wanted`.
    fn try_to_serve(&mut self, wanted: bool) -> Result<(), NotServed> {
        if may_serve(&mut self.base, wanted)? {
            self.open_sockets()
                .map_err(|error| (error.to_string(), error.kind() == io::ErrorKind::AddrInUse))?;
        }
        Ok(())
    }

    /// Reads rules, settings, path policies and keys of peers again, and says what came of it in counters and log.
    pub(super) fn reload(&mut self) -> Result<usize, String> {
        let result = self.read_again();
        service::note_reload(&mut self.base.core, &result);
        result
    }

    /// All, or nothing when one is wrong.
    fn read_again(&mut self) -> Result<usize, String> {
        let rules = self.base.core.rules.read().map_err(|e| e.to_string())?;
        let paths = self.base.core.path_policies.read().map_err(|e| e.to_string())?;
        let trust = self.base.keys.trust_mut().map(|trust| trust.read_peers());
        let peers = trust.transpose().map_err(|e| e.to_string())?.flatten();
        let values = Settings::values(&self.base.core.config);
        self.settings.apply(&mut self.base.core.config).map_err(|e| e.to_string())?;
        let before = self.base.core.rules.adopt(rules);
        // Which keys are needed follows from settings and rules.
        if let Err(error) = protection::load_keys(&mut self.base) {
            Settings::restore(&mut self.base.core.config, &values);
            self.base.core.rules.adopt(before);
            return Err(error.to_string());
        }
        self.adopt_settings();
        self.base.core.adopt_path_policies(paths);
        if let Some((trust, peers)) = self.base.keys.trust_mut().zip(peers) {
            trust.adopt(peers);
        }
        protection::offer_keys(&mut self.base);
        if self.services.listeners.need_sockets(&self.base)
            && let Err(error) = self.open_sockets()
        {
            self.base.core.count("doors_not_opened");
            warn!(target: log::STACK, "listening sockets stay plain TCP: {error}");
        }
        self.attempts.relays.find(&mut self.base.core, Lookup::Beside);
        self.services.listen_direct(&mut self.base);
        self.base.core.control.tell_redirectors();
        Ok(self.base.core.rules.len())
    }

    /// Drops callers to whom nothing can be written. Whatever waited for them to hear of it waits no longer.
    pub(super) fn drop_broken(&mut self) {
        while let Some((id, is_full)) = self.base.core.control.next_broken() {
            if is_full {
                self.base.core.count("control_callers_that_do_not_read");
            }
            self.drop_control(id);
            self.services.inject_delayed(&mut self.base);
        }
    }

    /// The caller has gone. Its relays go on; what it had only asked for is forgotten.
    pub(super) fn drop_control(&mut self, id: u64) {
        let Some((role, owner)) = self.base.core.control.remove(id, &self.base.core.registry)
        else {
            return;
        };
        if self.succession.on_control_gone(&mut self.base, &mut self.services, id) {
            self.stop();
        }
        self.watch.forget(id);
        for (client, attempt) in self.base.core.control.attempts_of(id) {
            self.attempts.cancel(&mut self.base, attempt);
            self.base.core.control.forget(client);
        }
        self.datagrams.end_of(&mut self.base, &mut self.scratch, id);
        if role == Some(Role::Redirector) {
            self.services.leave_listeners(&mut self.base, &mut self.relays, id);
            self.services.drop_looks(&mut self.base, &mut self.relays, id);
        } else if self.services.listeners.forget_launcher(id) {
            self.services.listen_direct(&mut self.base);
        }
        if self.base.core.config.process.shared.is_some() {
            return self.sharing.watch(&mut self.base.core);
        }
        let ends = match self.base.core.config.process.listeners_only {
            true => serves_programs(role) && !self.base.core.control.has_launchers(),
            false => owner,
        };
        // The connections of peers keep one that another process has taken over from.
        if ends
            && self.base.core.config.process.exit_when_drained
            && !self.base.core.phase.is_succeeded()
        {
            self.drain();
        }
    }

    fn send_status(&mut self, id: u64) {
        let Some((version, _)) = self.base.core.control.greeting_of(id) else { return };
        let report = written_for(version, &self.status());
        match report.map_err(ControlError::from).and_then(|report| manypath_control::parts(&report))
        {
            Ok(parts) => {
                parts
                    .into_iter()
                    .for_each(|part| self.base.core.reply(id, Reply::StatusPart(part)));
            }
            Err(error) => warn!(target: log::CONTROL, "no status report: {error}"),
        }
    }
}
