//! The stack's end of the control connections.

use crate::config::StackConfig;
use crate::counters::Counters;
use crate::ids::{AttemptId, Client, Control};
use crate::keeper::{Keeper, SOCKET_MODE};
use crate::log;
use crate::token::Source;
use manypath_control::{
    ControlError, ControlListener, ControlSocket, Incoming, Reply, Request, Role, Traffic, VERSION,
    is_spoken, runtime, written_for,
};
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use tracing::warn;

/// Replies that may wait for a caller who does not read; then the connection is dropped.
const MAX_WAITING: usize = 16 << 10;
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

/// What the client side tells the doors: the answers that a launcher would get, and what a connection has moved.
#[derive(Debug)]
pub(crate) enum DoorNews {
    Reply(Reply),
    /// A connection has ended. Whether it was carried over SCTP, and what it has sent and received.
    Moved(u64, bool, (u64, u64)),
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
        self.connections.values().any(|one| serves_programs(one.role))
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
        let all = self.connections.iter().filter(|(_, one)| serves_programs(one.role));
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

    /// Forgets a caller that has gone: who it was, and whether its end may end the stack.
    pub(crate) fn remove(&mut self, id: u64, registry: &Registry) -> Option<(Option<Role>, bool)> {
        let connection = self.connections.remove(&id)?;
        self.unread.remove(&id);
        let _ = registry.deregister(&mut SourceFd(&connection.socket.as_raw_fd()));
        Some((connection.role, connection.owner))
    }

    /// Takes callers in, at all names. False if some wait for whom there is no descriptor or no memory: the poll does
    /// not announce them again.
    pub(crate) fn accept(&mut self, registry: &Registry, counters: &mut Counters) -> bool {
        while let Some(caller) = self.next_caller() {
            let refused = match caller {
                Ok(socket) if !socket.is_of_owner_or_root() => "control_connections_of_other_users",
                Ok(socket) if self.connections.len() < MAX_CONNECTIONS => {
                    match self.add(socket, false, registry) {
                        Ok(_) => continue,
                        Err(_) => "control_connections_failed",
                    }
                }
                Ok(_) => "control_connections_refused",
                Err(error) if is_passing(&error) => "control_connections_failed",
                Err(_) => {
                    counters.count("control_connections_delayed");
                    return false;
                }
            };
            counters.count(refused);
        }
        true
    }

    /// The next request on a connection that has not gone, with its descriptor.
    pub(crate) fn receive(&self, id: u64) -> Option<Result<Incoming<Request>, ControlError>> {
        self.connections.get(&id).map(|connection| connection.socket.receive())
    }

    /// Which version of the messages the caller speaks, and whether it has said hello, if it is still there.
    pub(crate) fn greeting_of(&self, id: u64) -> Option<(u32, bool)> {
        self.connections.get(&id).map(|connection| (connection.version, connection.welcome))
    }

    /// A caller says who it is, and in which version it speaks. False if that is not spoken here.
    pub(crate) fn on_hello(&mut self, id: u64, version: u32, role: Role) -> bool {
        let namespace = runtime::network_namespace().unwrap_or_default();
        let spoken = if is_spoken(version) { version } else { VERSION };
        let pid = std::process::id();
        let welcome = Reply::Welcome { version: spoken, pid, namespace, counts_traffic: true };
        self.reply(id, welcome, None);
        let connection = self.connections.get_mut(&id).filter(|_| !self.broken.contains(&id));
        let Some(connection) = connection else { return true };
        if version != spoken {
            return false;
        }
        (connection.welcome, connection.version, connection.role) = (true, version, Some(role));
        if connection.owner && role == Role::Cli {
            warn!(target: log::CONTROL, "the control connection of a launcher is used by a tool");
        }
        true
    }

    /// The next caller to whom nothing can be written, and whether that is because it does not read.
    pub(crate) fn next_broken(&mut self) -> Option<(u64, bool)> {
        let id = self.broken.pop_first()?;
        let waiting = self.connections.get(&id).map(|one| one.waiting.len());
        Some((id, waiting.is_some_and(|waiting| waiting > MAX_WAITING)))
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

/// Whether programs depend on a caller.
pub(crate) const fn serves_programs(role: Option<Role>) -> bool {
    matches!(role, Some(Role::Launcher | Role::Redirector))
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
