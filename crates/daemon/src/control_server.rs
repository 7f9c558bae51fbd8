//! The stack's end of the control connections.

use crate::attempt::{AttemptId, Client, Control, Lookup, Open};
use crate::base::protection;
use crate::config::StackConfig;
use crate::core::Core;
use crate::datagrams::Program;
use crate::doors::DoorNews;
use crate::keeper::Keeper;
use crate::log;
use crate::services::ListenerId;
use crate::settings::Settings;
use crate::stack::Stack;
use crate::timers::Timer;
use crate::token::Source;
use manypath_control::{
    ControlError, ControlListener, ControlSocket, Incoming, Reply, Request, Role, Traffic, VERSION,
    is_spoken, runtime, written_for,
};
use manypath_engine::Duration;
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use tracing::warn;

/// Mode of the socket file: its owner only. Whoever may talk to a stack may end it.
pub(crate) const SOCKET_MODE: u32 = 0o600;
/// Requests taken from one connection before others have their turn.
const REQUESTS_PER_TURN: usize = 64;
/// Replies that may wait for a caller who does not read; then the connection is dropped.
const MAX_WAITING: usize = 16 << 10;
/// After what pause callers are looked for again for whom there was no descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Most connections at a time.
const MAX_CONNECTIONS: usize = 4096;

#[derive(Debug)]
struct Connection {
    socket: ControlSocket,
    /// Whether the other side has said hello in a language that we speak.
    welcome: bool,
    /// Which one.
    version: u32,
    /// Whether its end may end the stack.
    owner: bool,
    /// Who is at the other side, once it has said hello.
    role: Option<Role>,
    waiting: VecDeque<(Reply, Option<OwnedFd>)>,
    /// Whether the poll tells when there is room for what waits.
    awaits_room: bool,
    /// What its connections that have ended have moved.
    traffic: Traffic,
}

/// All control connections and the connects that they asked for.
#[derive(Debug, Default)]
pub(crate) struct ControlServer {
    listener: Option<ControlListener>,
    /// The second name, by which launchers find the stack that serves.
    door: Option<ControlListener>,
    /// A third one, of a server that also carries programs.
    programs: Option<ControlListener>,
    connections: BTreeMap<u64, Connection>,
    /// Connections whose requests have not all been read.
    pub(crate) unread: BTreeSet<u64>,
    /// Connections that are to be dropped.
    broken: BTreeSet<u64>,
    /// Connections where something waits now, or nothing any more.
    changed: BTreeSet<u64>,
    last: u64,
    attempts: BTreeMap<Client, AttemptId>,
    clients: BTreeMap<AttemptId, Client>,
    to_doors: VecDeque<DoorNews>,
}

impl ControlServer {
    pub(crate) fn open(config: &mut StackConfig, registry: &Registry) -> io::Result<Self> {
        let mut server = Self::default();
        if let Some(fd) = config.process.control.take() {
            server.add(ControlSocket::adopt(fd)?, true, registry)?;
        }
        if let Some(directory) = &config.process.runtime_dir {
            server.listener = Some(listen(
                &runtime::loop_path(directory, std::process::id(), config.loop_index()),
                registry,
                Source::ControlListener,
            )?);
        }
        Ok(server)
    }

    pub(crate) fn add(
        &mut self,
        socket: ControlSocket,
        owner: bool,
        registry: &Registry,
    ) -> io::Result<u64> {
        socket.set_nonblocking(true)?;
        self.last += 1;
        let token = Source::Control(self.last).token();
        registry.register(&mut SourceFd(&socket.as_raw_fd()), token, Interest::READABLE)?;
        let (welcome, role, version) = (false, None, VERSION);
        let (waiting, awaits_room, traffic) = Default::default();
        let connection =
            Connection { socket, welcome, version, owner, role, waiting, awaits_room, traffic };
        self.connections.insert(self.last, connection);
        self.unread.insert(self.last);
        Ok(self.last)
    }

    /// Listens under a second name.
    pub(crate) fn open_door(&mut self, path: &Path, registry: &Registry) -> io::Result<()> {
        self.door = Some(listen(path, registry, Source::Door)?);
        Ok(())
    }

    /// Listens for launchers of programs under a third name.
    pub(crate) fn open_for_programs(&mut self, path: &Path, registry: &Registry) -> io::Result<()> {
        self.programs = Some(listen(path, registry, Source::Door)?);
        Ok(())
    }

    /// Gives the second and third name up.
    pub(crate) fn close_door(&mut self, registry: &Registry) {
        for name in [self.door.take(), self.programs.take()].into_iter().flatten() {
            let _ = registry.deregister(&mut SourceFd(&name.as_raw_fd()));
        }
    }

    pub(crate) const fn has_door(&self) -> bool {
        self.door.is_some()
    }

    /// Whether a caller has been sent everything that it is to be told. One that has gone needs no
    /// telling.
    pub(crate) fn has_heard(&self, control: u64) -> bool {
        self.connections.get(&control).is_none_or(|connection| connection.waiting.is_empty())
    }

    pub(crate) fn has_launchers(&self) -> bool {
        self.connections.values().any(Connection::serves_programs)
    }

    /// Whether anybody is there, or may say in a moment who he is.
    pub(crate) fn has_callers(&self) -> bool {
        let tool = |connection: &Connection| connection.role == Some(Role::Cli);
        self.connections.values().any(|connection| !tool(connection))
    }

    /// The second name.
    pub(crate) const fn second_name(&self) -> Option<&ControlListener> {
        self.door.as_ref()
    }

    /// The connections on whose other side programs are.
    pub(crate) fn launchers(&self) -> Vec<u64> {
        let all = self.connections.iter().filter(|(_, one)| one.serves_programs());
        all.map(|(id, _)| *id).collect()
    }

    /// The connections whose programs get their names from the kernel.
    pub(crate) fn redirectors(&self) -> Vec<u64> {
        self.connections.keys().copied().filter(|id| self.is_redirector(*id)).collect()
    }

    /// Whether a redirector is at the other end of this control connection.
    pub(crate) fn is_redirector(&self, control: impl Into<Control>) -> bool {
        let Control::Line(control) = control.into() else { return false };
        let role = self.connections.get(&control).and_then(|connection| connection.role);
        role == Some(Role::Redirector)
    }

    pub(crate) fn remember(&mut self, client: Client, attempt: AttemptId) {
        self.attempts.insert(client, attempt);
        self.clients.insert(attempt, client);
    }

    pub(crate) fn forget(&mut self, client: Client) {
        if let Some(attempt) = self.attempts.remove(&client) {
            self.clients.remove(&attempt);
        }
    }

    pub(crate) fn attempt(&self, client: Client) -> Option<AttemptId> {
        self.attempts.get(&client).copied()
    }

    pub(crate) fn client_of(&self, attempt: AttemptId) -> Option<Client> {
        self.clients.get(&attempt).copied()
    }

    pub(crate) fn on_event(&mut self, id: u64) {
        self.unread.insert(id);
        self.flush(id);
    }

    /// Queues a reply; it goes out as soon as the caller reads. One that has gone is dropped by the loop.
    pub(crate) fn reply(&mut self, control: u64, reply: Reply, fd: Option<OwnedFd>) {
        if let Some(connection) = self.connections.get_mut(&control) {
            connection.waiting.push_back((reply, fd));
            self.flush(control);
        }
    }

    /// Tells the doors what a connection of theirs has moved.
    pub(crate) fn tell_doors(&mut self, news: DoorNews) {
        self.to_doors.push_back(news);
    }

    pub(crate) fn next_door_news(&mut self) -> Option<DoorNews> {
        self.to_doors.pop_front()
    }

    fn flush(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.flush().is_err() || connection.waiting.len() > MAX_WAITING {
            self.broken.insert(id);
        } else if connection.awaits_room == connection.waiting.is_empty() {
            self.changed.insert(id);
        }
    }

    /// Lets the poll tell when callers read on, as long as something waits for them.
    pub(crate) fn follow_rooms(&mut self, registry: &Registry) {
        for id in std::mem::take(&mut self.changed) {
            if let Some(connection) = self.connections.get_mut(&id)
                && connection.follow_room(registry, id).is_err()
            {
                self.broken.insert(id);
            }
        }
    }

    /// What the kernel was told of plain TCP holds no longer.
    pub(crate) fn tell_redirectors(&mut self) {
        for redirector in self.redirectors() {
            self.reply(redirector, Reply::Changed, None);
        }
    }

    fn remove(&mut self, id: u64, registry: &Registry) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        self.unread.remove(&id);
        let _ = registry.deregister(&mut SourceFd(&connection.socket.as_raw_fd()));
        Some(connection)
    }

    /// Whoever waits at any of the names, or what keeps him from being taken in.
    fn next_caller(&self) -> Option<io::Result<ControlSocket>> {
        let names = [&self.listener, &self.door, &self.programs].into_iter().flatten();
        let mut callers = names.map(ControlListener::accept);
        callers.find(
            |caller| !matches!(caller, Err(error) if error.kind() == io::ErrorKind::WouldBlock),
        )
    }

    /// What the connections of a launcher have moved that have ended.
    pub(crate) fn traffic_mut(&mut self, control: u64) -> Option<&mut Traffic> {
        self.connections.get_mut(&control).map(|connection| &mut connection.traffic)
    }

    /// The connects that were asked for on a connection and are known yet.
    pub(crate) fn attempts_of(&self, control: u64) -> Vec<(Client, AttemptId)> {
        let control = control.into();
        let all = Client { control, id: 0 }..=Client { control, id: u64::MAX };
        self.attempts.range(all).map(|(client, attempt)| (*client, *attempt)).collect()
    }
}

impl Connection {
    /// Whether programs depend on the other side.
    fn serves_programs(&self) -> bool {
        matches!(self.role, Some(Role::Launcher | Role::Redirector))
    }

    /// Sends what waits, as far as the caller reads. An error ends the connection.
    fn flush(&mut self) -> Result<(), ControlError> {
        while let Some((reply, fd)) = self.waiting.front() {
            let fd = fd.as_ref().map(AsFd::as_fd);
            let sent = match self.version {
                VERSION => self.socket.send(reply, fd),
                older => self.socket.send(&written_for(older, reply)?, fd),
            };
            match sent {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(error) if error.is_would_block() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Lets the poll tell when the caller reads on only as long as something waits: it reads after nearly every reply,
    /// which would wake the stack for nothing.
    fn follow_room(&mut self, registry: &Registry, id: u64) -> io::Result<()> {
        self.awaits_room = !self.waiting.is_empty();
        let writable = self.awaits_room.then_some(Interest::WRITABLE);
        let interest = writable.map_or(Interest::READABLE, |it| it | Interest::READABLE);
        let token = Source::Control(id).token();
        registry.reregister(&mut SourceFd(&self.socket.as_raw_fd()), token, interest)
    }
}

/// Whether the error is one of the caller that was to be accepted, not of the next one.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted)
}

fn listen(path: &Path, registry: &Registry, source: Source) -> io::Result<ControlListener> {
    let bound = match Keeper::current() {
        Some(keeper) => keeper.bind(path),
        None => ControlListener::bind(path, SOCKET_MODE),
    };
    let listener = bound.map_err(|error| {
        io::Error::new(error.kind(), format!("control socket {}: {error}", path.display()))
    })?;
    listener.set_nonblocking(true)?;
    let readable = Interest::READABLE;
    registry.register(&mut SourceFd(&listener.as_raw_fd()), source.token(), readable)?;
    Ok(listener)
}

impl Core {
    /// Takes callers in, at all names.
    pub(crate) fn accept_control(&mut self) {
        while let Some(caller) = self.control.next_caller() {
            match caller {
                Ok(socket) if !socket.is_of_owner_or_root() => {
                    self.count("control_connections_of_other_users");
                }
                Ok(socket) if self.control.connections.len() < MAX_CONNECTIONS => {
                    if self.control.add(socket, false, &self.registry).is_err() {
                        self.count("control_connections_failed");
                    }
                }
                Ok(_) => self.count("control_connections_refused"),
                Err(error) if is_passing(&error) => {
                    self.count("control_connections_failed");
                }
                // No descriptor or no memory: whoever waits is not announced again by the poll.
                Err(_) => {
                    self.count("control_connections_delayed");
                    self.after(ACCEPT_PAUSE, Timer::AcceptControl);
                    return;
                }
            }
        }
    }

    pub(crate) fn reply(&mut self, to: impl Into<Control>, reply: Reply) {
        match to.into() {
            Control::Line(control) => self.control.reply(control, reply, None),
            Control::Doors => self.control.tell_doors(DoorNews::Reply(reply)),
            Control::Onward => self.to_onward.push_back(reply),
        }
    }
}

impl Stack {
    /// Answers what has come in on the control connections.
    pub(crate) fn serve_control(&mut self) {
        for id in std::mem::take(&mut self.base.core.control.unread) {
            self.serve_connection(id);
        }
        self.drop_broken();
        self.services.inject_delayed(&mut self.base);
    }

    fn serve_connection(&mut self, id: u64) {
        for _ in 0..REQUESTS_PER_TURN {
            let Some(connection) = self.base.core.control.connections.get(&id) else { return };
            match connection.socket.receive::<Request>() {
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
        let Some(connection) = self.base.core.control.connections.get_mut(&id) else { return };
        if !connection.welcome && !matches!(request, Request::Hello { .. }) {
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
                if let Some(attempt) = base.core.control.attempt(client(open)) {
                    self.attempts.cancel(base, attempt);
                }
            }
            Request::Attach { id: open } => match fd {
                Some(fd) => self.on_attach(client(open), fd),
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
                let way = self.way_of(client(open));
                self.base.core.reply(id, Reply::Way { id: open, way });
            }
            Request::WayFrom { from, to } => {
                let way = self.services.way_from(base, &self.relays, from, to);
                base.core.reply(id, Reply::WayFrom { from, to, way });
            }
            Request::Listen { id: number, listener: described } => {
                self.on_listen(listener(number), described);
            }
            Request::Withdraw { id: number } => self.services.on_withdraw(base, listener(number)),
            Request::Expect { id: number } => self.on_expect(listener(number)),
            Request::Looked { id: look } => {
                self.services.on_looked(base, &mut self.relays, id, look)
            }
            Request::Resign => {
                self.services.leave_listeners(base, &mut self.relays, id);
                base.core.reply(id, Reply::Resigned);
            }
            Request::Noted { from, to } => self.services.listeners.note(id, from, to),
            Request::Tally { id: number, plain } => self.services.on_tally(listener(number), plain),
            Request::Traffic => {
                let traffic = self.relays.traffic_of(base, &self.services, id);
                base.core.reply(id, Reply::Traffic(traffic));
            }
            Request::Status => self.send_status(id),
            Request::Watch => self.watch.on_watch(base, id),
            Request::Reload => self.on_reload(id),
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
            Request::TakenOver => self.on_taken_over(id),
        }
    }

    fn on_reload(&mut self, id: u64) {
        let reply = match self.reload_counted() {
            Ok(count) => Reply::Reloaded { rules: count },
            Err(why) => Reply::Refused { why },
        };
        self.base.core.reply(id, reply);
    }

    /// Reads rules, settings, path policies and keys of peers again: all, or nothing when one is wrong.
    pub(crate) fn reload(&mut self) -> Result<usize, String> {
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
        self.review_listeners();
        self.attempts.find_relays(&mut self.base.core, Lookup::Beside);
        self.services.listen_direct(&mut self.base);
        self.base.core.control.tell_redirectors();
        Ok(self.base.core.rules.len())
    }

    fn on_hello(&mut self, id: u64, version: u32, role: Role) {
        let namespace = runtime::network_namespace().unwrap_or_default();
        let spoken = if is_spoken(version) { version } else { VERSION };
        let pid = std::process::id();
        let welcome = Reply::Welcome { version: spoken, pid, namespace, counts_traffic: true };
        self.base.core.reply(id, welcome);
        let control = &mut self.base.core.control;
        let connection = control.connections.get_mut(&id);
        let Some(connection) = connection.filter(|_| !control.broken.contains(&id)) else { return };
        if version != spoken {
            self.base.core.count("control_versions_refused");
            return self.drop_control(id);
        }
        connection.welcome = true;
        connection.version = version;
        connection.role = Some(role);
        if connection.owner && role == Role::Cli {
            warn!(target: log::CONTROL, "the control connection of a launcher is used by a tool");
        }
    }

    /// Drops callers to whom nothing can be written. Whatever waited for them to hear of it waits no longer.
    pub(crate) fn drop_broken(&mut self) {
        while let Some(id) = self.base.core.control.broken.pop_first() {
            let waiting = self.base.core.control.connections.get(&id).map(|one| one.waiting.len());
            if waiting.is_some_and(|waiting| waiting > MAX_WAITING) {
                self.base.core.count("control_callers_that_do_not_read");
            }
            self.drop_control(id);
            self.services.inject_delayed(&mut self.base);
        }
    }

    /// The caller has gone. Its relays go on; what it had only asked for is forgotten.
    pub(crate) fn drop_control(&mut self, id: u64) {
        let Some(connection) = self.base.core.control.remove(id, &self.base.core.registry) else {
            return;
        };
        self.on_control_gone(id);
        self.watch.forget(id);
        for (client, attempt) in self.base.core.control.attempts_of(id) {
            self.attempts.cancel(&mut self.base, attempt);
            self.base.core.control.forget(client);
        }
        self.datagrams.end_of(&mut self.base, &mut self.scratch, id);
        if connection.role == Some(Role::Redirector) {
            self.services.leave_listeners(&mut self.base, &mut self.relays, id);
            self.services.drop_looks(&mut self.base, &mut self.relays, id);
        } else if self.services.listeners.forget_launcher(id) {
            self.services.listen_direct(&mut self.base);
        }
        if self.base.core.config.process.shared.is_some() {
            return self.watch_deserted();
        }
        let ends = match self.base.core.config.process.listeners_only {
            true => connection.serves_programs() && !self.base.core.control.has_launchers(),
            false => connection.owner,
        };
        // The connections of peers keep one that another process has taken over from.
        if ends
            && self.base.core.config.process.exit_when_drained
            && !self.base.core.phase.is_succeeded()
        {
            self.drain(self.base.core.config.limits.drain_timeout);
        }
    }

    fn send_status(&mut self, id: u64) {
        let Some(connection) = self.base.core.control.connections.get(&id) else { return };
        let report = written_for(connection.version, &self.status());
        match report.and_then(|report| manypath_control::parts(&report)) {
            Ok(parts) => {
                parts
                    .into_iter()
                    .for_each(|part| self.base.core.reply(id, Reply::StatusPart(part)));
            }
            Err(error) => warn!(target: log::CONTROL, "no status report: {error}"),
        }
    }
}
