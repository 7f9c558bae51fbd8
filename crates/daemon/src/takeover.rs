//! One server takes over from another without an end of connections: after an upgrade, or when it is started anew.
//!
//! ```text
//! predecessor ◀─ TakeOver ── successor     a control connection: that of the door, or one that the manager kept
//!             ── Lent, UDP sockets ──▶
//!             ◀─ Line, for each socket ──  from now on it hears of its own packets over the lines
//!             ◀─ TakenOver ──              the door has the successor's name; everything new is the successor's
//! ```
//!
//! No state of associations changes hands, so that versions need to agree on little: these messages and the lines
//! (`crates/net/src/lent.rs`). The predecessor goes on with its associations until their connections have ended, and
//! peers may open more on them until an association is without one for a moment. When the successor dies, it reads its
//! sockets again and is the server once more.
//!
//! Of a server with several engine loops, each loop takes over from the one with its number, by itself.

use crate::base::Base;
use crate::carriers;
use crate::config::{Encapsulation, MAX_LOOPS, StackConfig};
use crate::core::Core;
use crate::log;
use crate::services::Services;
use crate::timers::Timer;
use manypath_control::{
    ControlClient, ControlError, ControlSocket, Incoming, Reply, Request, Role, anchor, manager,
    runtime,
};
use manypath_engine::Duration;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use tracing::{info, warn};

/// How long connections may go on beside a successor.
pub(crate) const MAX_AFTERLIFE: Duration = Duration::from_secs(86_400);
/// How long a service manager may take to start the successor.
const MAX_WAIT: Duration = Duration::from_secs(90);
/// How long a predecessor may take for an answer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// The server before this one, which goes on with its connections.
#[derive(Debug)]
pub(crate) struct Predecessor {
    client: ControlClient,
    /// The addresses of its sockets that are read here.
    sockets: Vec<SocketAddr>,
}

/// Who comes after this server.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    /// The server before this one, while it goes on with its connections.
    predecessor: Option<Predecessor>,
    /// The control connection of the successor.
    by: Option<u64>,
    /// Whether it has taken over.
    done: bool,
    /// Whether it reads sockets of this one.
    lent: bool,
    /// The control connection that the service manager keeps for the next process; its end means that there will be
    /// none.
    kept: Option<u64>,
    /// Whether the manager's main process has ended.
    alone: bool,
}

impl Succession {
    /// Ends the server before this one as this one is ended.
    pub(crate) fn stop_predecessor(&self) {
        if let Some(predecessor) = &self.predecessor {
            predecessor.stop();
        }
    }

    /// Whether the name by which the server is found is another one's.
    pub(crate) const fn has_begun(&self) -> bool {
        self.by.is_some()
    }
}

impl Predecessor {
    /// Asks the server that `config` names, if there is one, for its sockets, which become those of `config`.
    pub(crate) fn ask(config: &mut StackConfig) -> Option<Self> {
        let kept = config.process.replace.as_mut().map(std::mem::take)?.into_iter();
        let lines = kept
            .map(ControlSocket::adopt)
            .chain(door(config, config.loop_index()).map(|it| ControlSocket::connect(&it)));
        for line in lines {
            match line.map_err(Into::into).and_then(ask) {
                Ok((client, lent)) => return Some(Self::adopt(client, lent, config)),
                Err(ControlError::Closed) => {}
                Err(error) if is_absent(&error) => {}
                Err(error) => {
                    info!(target: log::STACK, "not taken over from a server before: {error}");
                }
            }
        }
        None
    }

    /// Sockets at other ports stay where they are.
    fn adopt(
        client: ControlClient,
        lent: Vec<(SocketAddr, OwnedFd)>,
        config: &mut StackConfig,
    ) -> Self {
        let ports = [config.beside_ports(), vec![config.udp_port]].concat();
        let mut sockets = Vec::new();
        for (local, fd) in lent.into_iter().filter(|(local, _)| ports.contains(&local.port())) {
            config.process.sockets.push(fd);
            sockets.push(local);
        }
        Self { client, sockets }
    }

    /// Whether it is still there.
    pub(crate) fn is_there(&self) -> bool {
        let said = self.client.receive();
        said.is_ok() || said.is_err_and(|error| error.is_would_block())
    }

    /// Ends it as this one is ended. It may have ended before.
    pub(crate) fn stop(&self) {
        let _ = self.client.stop();
    }
}

/// Where a loop of a server is found that has the port.
fn door(config: &StackConfig, index: usize) -> Option<PathBuf> {
    let (directory, namespace) =
        (config.process.runtime_dir.as_ref()?, runtime::network_namespace().ok()?);
    Some(runtime::loop_door_path(directory, namespace, config.udp_port, index))
}

/// How many engine loops the server has that is to be taken over from, if there is one: each is taken over by one loop,
/// because the kernel goes on to choose among as many sockets.
#[must_use]
pub fn loops_to_replace(config: &StackConfig) -> Option<usize> {
    let is_there =
        |index: &usize| door(config, *index).is_some_and(|it| ControlSocket::connect(&it).is_ok());
    let count = (0..MAX_LOOPS).take_while(is_there).count();
    (config.process.replace.is_some() && count > 0).then_some(count)
}

fn is_absent(error: &ControlError) -> bool {
    let absent = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    matches!(error, ControlError::Io(error) if absent.contains(&error.kind()))
}

type Lent = Vec<(SocketAddr, OwnedFd)>;

fn ask(socket: ControlSocket) -> Result<(ControlClient, Lent), ControlError> {
    socket.set_nonblocking(false)?;
    socket.set_receive_timeout(Some(PATIENCE))?;
    let client = ControlClient::start(socket, Role::Cli)?;
    client.check_welcome(&client.receive()?)?;
    client.send(&Request::TakeOver, None)?;
    let mut lent = Lent::new();
    loop {
        match client.socket().receive()? {
            Incoming::Message(Reply::Lent { local, left }, Some(fd)) => {
                lent.push((local, fd));
                if left == 0 {
                    return Ok((client, lent));
                }
            }
            Incoming::Message(Reply::Refused { why }, _) => return Err(ControlError::Refused(why)),
            Incoming::Message(..) => {
                return Err(ControlError::Unexpected("no answer to a takeover"));
            }
            Incoming::Closed => return Err(ControlError::Closed),
        }
    }
}

/// The successor's side.
impl Succession {
    /// Takes over what the predecessor has lent.
    pub(crate) fn take_over(
        &mut self,
        base: &mut Base,
        predecessor: Option<Predecessor>,
    ) -> io::Result<()> {
        let Some(predecessor) = predecessor else { return Ok(()) };
        for (local, line) in base.core.driver.pass_strays_on(&predecessor.sockets)? {
            let request = Request::Line { local };
            predecessor.client.send(&request, Some(line.as_fd())).map_err(io::Error::other)?;
        }
        predecessor.client.send(&Request::TakenOver, None).map_err(io::Error::other)?;
        predecessor.client.socket().set_nonblocking(true)?;
        let pid = predecessor.client.socket().peer_credentials()?.pid;
        let line =
            format_args!("takes over from process {pid}, which goes on with its connections");
        base.core.config.say_once(line);
        base.core.count("took_over");
        self.predecessor = Some(predecessor);
        Ok(())
    }

    /// Gives the service manager a line for the next process.
    pub(crate) fn keep_line(&mut self, base: &mut Base) {
        if !base.core.config.process.anchored {
            return;
        }
        let kept = ControlSocket::pair().and_then(|(ours, theirs)| {
            let id = base.core.control.add(ours, false, &base.core.registry)?;
            manager::store(theirs.as_fd());
            Ok(id)
        });
        match kept {
            Ok(id) => self.kept = Some(id),
            Err(error) => {
                warn!(target: log::STACK, "the next restart will end all connections: {error}")
            }
        }
    }

    /// Whether there is no predecessor any more whose packets pass here.
    pub(crate) fn is_last(&mut self) -> bool {
        self.predecessor.take_if(|predecessor| !predecessor.is_there());
        self.predecessor.is_none()
    }
}

/// The predecessor's side.
impl Succession {
    pub(crate) fn on_take_over(&mut self, base: &mut Base, id: u64) {
        let copies = match (self.why_not_to_lend(base), base.core.driver.copies()) {
            (Some(why), _) => Err(why.to_owned()),
            (None, Ok(copies)) if copies.is_empty() => Err("no socket is open".to_owned()),
            (None, copies) => copies.map_err(|error| error.to_string()),
        };
        let copies = match copies {
            Ok(copies) => copies,
            Err(why) => return base.core.reply(id, Reply::Refused { why }),
        };
        self.by = Some(id);
        // The name and the ports are the successor's from now on.
        base.core.driver.stop_listening();
        base.core.control.close_door(&base.core.registry);
        let count = copies.len();
        for (index, (local, fd)) in copies.into_iter().enumerate() {
            base.core.control.reply(id, Reply::Lent { local, left: count - index - 1 }, Some(fd));
        }
    }

    fn why_not_to_lend(&self, base: &Base) -> Option<&'static str> {
        if base.core.config.encapsulation == Encapsulation::Native {
            Some("SCTP without UDP encapsulation is not handed over")
        } else if base.core.config.gateway.is_some() || !base.core.config.accept {
            Some("it does not serve peers, or is a gateway")
        } else if self.has_begun() {
            Some("another process has taken over already")
        } else if !base.core.phase.serves_peers() {
            Some("it is ending")
        } else {
            None
        }
    }

    pub(crate) fn on_lent_line(
        &mut self,
        base: &mut Base,
        id: u64,
        local: SocketAddr,
        line: OwnedFd,
    ) {
        if self.by != Some(id) {
            return base.core.count("lines_refused");
        }
        match base.core.driver.lend(local, line) {
            Ok(true) => self.lent = true,
            Ok(false) | Err(_) => base.core.count("lines_refused"),
        }
    }

    /// Everything new is the successor's. Whether it is one.
    pub(crate) fn on_taken_over(&mut self, id: u64) -> bool {
        let is_it = self.by == Some(id);
        self.done |= is_it;
        is_it
    }

    /// The other end of a control connection has gone. Whether this process is to end.
    pub(crate) fn on_control_gone(
        &mut self,
        base: &mut Base,
        services: &mut Services,
        id: u64,
    ) -> bool {
        if self.by == Some(id) && !self.done {
            self.by = None;
            serve_again(base, services);
        }
        if self.kept != Some(id) {
            return false;
        }
        // The manager keeps no line to this process: the service was stopped for good, or it keeps none at all.
        self.kept = None;
        if !self.alone {
            info!(target: log::STACK, "the service manager keeps no line: a restart ends all connections");
        }
        self.alone && base.core.phase.serves_peers()
    }

    /// Whether the successor has gone without a successor of its own: then this is the server again.
    pub(crate) fn recovers(&mut self, base: &mut Base, services: &mut Services) -> bool {
        // A successor at other ports has none of them.
        if !self.done || !self.lent || base.core.driver.has_lent() {
            return false;
        }
        warn!(target: log::STACK, "the process that took over has ended: this one serves again");
        base.core.count("successors_lost");
        (self.by, self.done, self.lent) = (None, false, false);
        if self.alone {
            base.core.after(MAX_WAIT, Timer::Successor);
        }
        serve_again(base, services);
        true
    }

    /// SIGTERM, where the connections may outlive the manager's main process: that ends, and this process goes on
    /// until the next one takes over, or the manager drops the line that it has kept.
    pub(crate) fn detach(&mut self, core: &mut Core) -> bool {
        let may = self.kept.is_some() && !self.alone;
        if !may || !core.phase.serves_peers() {
            return false;
        }
        info!(target: log::STACK, "goes on until another process takes over");
        self.alone = true;
        core.after(MAX_WAIT, Timer::Successor);
        anchor::let_go();
        true
    }

    /// Whether a successor should have come by now.
    pub(crate) const fn is_overdue(&self) -> bool {
        self.alone && !self.done
    }
}

fn serve_again(base: &mut Base, services: &mut Services) {
    carriers::listen(&mut base.core);
    services.name_door(base);
}
