//! The connections to the masters and the loop that everything runs in.

use super::args::LoginArgs;
use super::connections::Rekey;
use super::master::{Master, rekey};
use crate::FAILED;
use crate::failure::Failure;
use manypath_ssh::{Connection, Windows};
use manypath_window::Budget;
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Memory that all receive windows of a command may take.
const MEMORY: u64 = 256 << 20;
/// Bytes read from the master before what they bring is handled.
const TURN: usize = 256 << 10;
/// Output that waits for the master, beyond which nothing is added: it queues without limit itself.
const BACKLOG: usize = 256 << 10;

/// How long the server may take to close the channels that are left.
const END_LIMIT: Duration = Duration::from_secs(3);

/// Connections to masters at most; their numbers are their tokens.
const MOST_WIRES: usize = 80;
const WAKER: Token = Token(MOST_WIRES);

/// Another source of events that is ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) token: Token,
    pub(crate) readable: bool,
}

/// A connection to the master.
struct Wire {
    /// Of which master.
    master: usize,
    stream: UnixStream,
    connection: Connection,
    readable: bool,
}

/// A login that is under way.
struct Login {
    master: Master,
    number: usize,
    /// If it fails it is tried once more: the first one, which may ask, was not done when it began.
    again: bool,
}

/// A connection to a server, logged in; perhaps several.
///
/// A master queues what comes for one of its clients in one buffer that it makes larger, and copies, with every
/// packet. It reads more from the network in a turn than the client's socket takes, so the queue is there at high rates. What is
/// to be fast therefore comes over several wires.
pub(crate) struct Link {
    /// Declared before the masters: these must see the end of the streams first.
    wires: Vec<Wire>,
    windows: Windows,
    budget: Budget,
    /// Those that are logged in. What comes first is the first one's.
    masters: Vec<Master>,
    logins: Vec<Login>,
    /// Logins that were begun.
    begun: usize,
    args: LoginArgs,
    host: OsString,
    rekey: Option<Rekey>,
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    origin: Instant,
    buffer: Vec<u8>,
    interrupted: Arc<AtomicBool>,
}

impl Link {
    /// Logs in to the host.
    pub(crate) fn open(login: &LoginArgs, host: &OsStr) -> Result<Self, Failure> {
        Self::open_all(login, host, 1)
    }

    /// Logs in to the host with so many connections. The first one is ready; the others follow, if they can.
    pub(crate) fn open_all(
        login: &LoginArgs,
        host: &OsStr,
        connections: usize,
    ) -> Result<Self, Failure> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let master = Master::start(login, host)?;
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        let windows = match login.static_window {
            Some(kib) => Windows::Fixed(kib.saturating_mul(1024)),
            None => Windows::Follow,
        };
        let mut link = Self {
            wires: Vec::new(),
            windows,
            budget: Budget::new(MEMORY),
            masters: vec![master],
            logins: Vec::new(),
            begun: 1,
            args: login.clone(),
            host: host.to_owned(),
            rekey: None,
            poll,
            events: Events::with_capacity(64),
            waker,
            origin: Instant::now(),
            buffer: vec![0; TURN],
            interrupted,
        };
        link.begin_logins(connections, true)?;
        link.add_wire(0)?;
        Ok(link)
    }

    /// Connects to a master once more, as soon as it has logged in; the number of the new wire. The first is 0. No more than there are channels
    /// of stock servers, for all masters.
    pub(crate) fn add_wire(&mut self, master: usize) -> Result<usize, Failure> {
        let number = self.wires.len();
        if number == MOST_WIRES {
            return Err(Failure::new("too many channels").with_status(FAILED));
        }
        let stream = self.masters[master].connect()?;
        stream.set_nonblocking(true)?;
        let mut stream = UnixStream::from_std(stream);
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(number), both)?;
        let connection = Connection::new(self.windows, self.budget.clone());
        self.wires.push(Wire { master, stream, connection, readable: true });
        Ok(number)
    }

    /// Begins to log in until there are so many connections, `again` if those that fail are tried once more. A shared login is one.
    pub(crate) fn begin_logins(&mut self, connections: usize, again: bool) -> Result<(), Failure> {
        if connections <= self.begun || self.masters[0].is_shared() {
            return Ok(());
        }
        for number in self.begun..connections {
            let option = self.rekey().option(number, connections);
            let master = Master::start_another(&self.args, &self.host, option)?;
            self.logins.push(Login { master, number, again });
        }
        self.begun = connections;
        Ok(())
    }

    /// Takes those in that have logged in, and forgets those that cannot; how many those are.
    pub(crate) fn end_logins(&mut self) -> Result<usize, Failure> {
        let mut failed = 0;
        for mut login in std::mem::take(&mut self.logins) {
            match login.master.try_connect() {
                Ok(Some(_)) => self.masters.push(login.master),
                Ok(None) => self.logins.push(login),
                Err(_) if login.again => {
                    let all = self.begun;
                    let option = self.rekey().option(login.number, all);
                    let master = Master::start_another(&self.args, &self.host, option)?;
                    self.logins.push(Login { master, again: false, ..login });
                }
                Err(_) => failed += 1,
            }
        }
        Ok(failed)
    }

    /// When ssh exchanges keys.
    pub(crate) fn rekey(&mut self) -> &Rekey {
        self.rekey.get_or_insert_with(|| rekey(&self.args, &self.host))
    }

    /// Connections to the server that there are.
    pub(crate) fn masters(&self) -> usize {
        self.masters.len()
    }

    /// Connections to the server that there are or will be, if their logins do not fail.
    pub(crate) fn planned(&self) -> usize {
        self.masters.len() + self.logins.len()
    }

    /// The connection to the server that a wire belongs to.
    pub(crate) fn master_of(&self, wire: usize) -> usize {
        self.wires[wire].master
    }

    /// Connections to the masters.
    pub(crate) fn wires(&self) -> usize {
        self.wires.len()
    }

    /// What is spoken over a wire.
    pub(crate) fn connection(&self, wire: usize) -> &Connection {
        &self.wires[wire].connection
    }

    /// What is spoken over a wire, to speak.
    pub(crate) fn connection_mut(&mut self, wire: usize) -> &mut Connection {
        &mut self.wires[wire].connection
    }

    /// Where other sources of events are registered, with tokens of [`token`](Self::token).
    pub(crate) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// A token that the link does not use itself.
    pub(crate) fn token(number: usize) -> Token {
        Token(WAKER.0 + 1 + number)
    }

    /// Ends a [`turn`](Self::turn) from another thread.
    pub(crate) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// The time, for [`Connection`].
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Whether the user has asked to stop.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Whether more should be sent over a wire.
    pub(crate) fn has_room(&self, wire: usize) -> bool {
        self.wires[wire].connection.output().len() < BACKLOG
    }

    /// Exchanges bytes with the master once, after waiting for something to happen, `limit` at most.
    /// `ready` are the other sources that are ready.
    pub(crate) fn turn(
        &mut self,
        limit: Option<Duration>,
        ready: &mut Vec<Ready>,
    ) -> Result<(), Failure> {
        self.wires.iter_mut().for_each(Wire::write);
        let is_readable = self.wires.iter().any(|wire| wire.readable);
        let limit = if is_readable { Some(Duration::ZERO) } else { limit };
        match self.poll.poll(&mut self.events, limit) {
            Err(e) if e.kind() == ErrorKind::Interrupted => self.events.clear(),
            other => other?,
        }
        for event in &self.events {
            let readable = event.is_readable() || event.is_read_closed();
            match event.token() {
                WAKER => {}
                token if token < WAKER => self.wires[token.0].readable |= readable,
                token => ready.push(Ready { token, readable }),
            }
        }
        for wire in 0..self.wires.len() {
            if self.wires[wire].readable {
                self.read(wire)?;
            }
        }
        Ok(())
    }

    fn read(&mut self, number: usize) -> Result<(), Failure> {
        let now = self.now();
        let wire = &mut self.wires[number];
        match wire.stream.read(&mut self.buffer) {
            Ok(0) => Err(self.lost(number)),
            Ok(bytes) => {
                let handled = wire.connection.handle_input(now, &self.buffer[..bytes]);
                handled.map_err(|e| Failure::new(e.to_string()).with_status(FAILED))
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                wire.readable = false;
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(self.lost(number)),
        }
    }

    /// Begins to close all channels.
    pub(crate) fn close_all(&mut self) {
        self.wires.iter_mut().for_each(|wire| wire.connection.close_all());
    }

    /// Forgets what has happened.
    pub(crate) fn drop_events(&mut self) {
        for wire in &mut self.wires {
            while wire.connection.poll_event().is_some() {}
        }
    }

    /// Channels that are not closed.
    pub(crate) fn open_channels(&self) -> usize {
        self.wires.iter().map(|wire| wire.connection.open_channels()).sum()
    }

    /// What the windows were, for who wants to know what is done.
    fn tell(&self) {
        let connections = self.wires.iter().map(|wire| &wire.connection);
        let largest = connections.clone().map(Connection::largest_window).max();
        let round_trip = connections.filter_map(Connection::round_trip).min();
        if let (1.., Some(largest), Some(time)) = (self.args.verbose, largest, round_trip) {
            let (kib, masters) = (largest >> 10, self.masters.len());
            eprintln!(
                "manypath: windows of {kib} KiB at most, round trip {:.1} ms, connections {masters}",
                time.as_secs_f64() * 1e3
            );
        }
    }

    /// The master of a wire has ended the connection.
    fn lost(&mut self, wire: usize) -> Failure {
        if self.is_interrupted() {
            return interrupted();
        }
        let failure = match self.masters[self.wires[wire].master].epitaph() {
            Some(_) => Failure::new("lost the connection to the server"),
            None => Failure::new("the ssh master closed the connection"),
        };
        failure.with_status(FAILED)
    }
}

impl Wire {
    fn write(&mut self) {
        while !self.connection.output().is_empty() {
            match self.stream.write(self.connection.output()) {
                Ok(bytes) => self.connection.on_output(bytes),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    // What the master has said before its end may matter: reading tells its end.
                    self.readable = true;
                    break;
                }
            }
        }
    }
}

impl Drop for Link {
    /// A master of the user's must not see data for channels of a client that is gone: it would end.
    fn drop(&mut self) {
        self.tell();
        if !self.masters[0].is_shared() {
            return;
        }
        self.close_all();
        let limit = Instant::now() + END_LIMIT;
        let mut ready = Vec::new();
        while self.open_channels() > 0 && Instant::now() < limit {
            if self.turn(Some(END_LIMIT / 10), &mut ready).is_err() {
                break;
            }
            self.drop_events();
        }
    }
}

/// The user has stopped the command.
pub(crate) fn interrupted() -> Failure {
    Failure::new("interrupted").with_status(130)
}
