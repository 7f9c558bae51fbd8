//! The connection to the master and the loop that everything runs in.

use super::FAILED;
use super::args::LoginArgs;
use super::master::Master;
use crate::failure::Failure;
use manypath_ssh::{Connection, Windows};
use manypath_window::Budget;
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use std::ffi::OsStr;
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

const MASTER: Token = Token(0);
const WAKER: Token = Token(1);

/// Another source of events that is ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) token: Token,
    pub(crate) readable: bool,
}

/// A connection to a server, logged in.
pub(crate) struct Link {
    /// Declared before the master: the master must see the end of the stream first.
    stream: UnixStream,
    pub(crate) connection: Connection,
    master: Master,
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    origin: Instant,
    buffer: Vec<u8>,
    readable: bool,
    interrupted: Arc<AtomicBool>,
}

impl Link {
    /// Logs in to the host.
    pub(crate) fn open(login: &LoginArgs, host: &OsStr) -> Result<Self, Failure> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let mut master = Master::start(login, host)?;
        let stream = master.connect()?;
        stream.set_nonblocking(true)?;
        let mut stream = UnixStream::from_std(stream);
        let poll = Poll::new()?;
        poll.registry().register(&mut stream, MASTER, Interest::READABLE | Interest::WRITABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        let windows = match login.static_window {
            Some(kib) => Windows::Fixed(kib.saturating_mul(1024)),
            None => Windows::Follow,
        };
        Ok(Self {
            stream,
            connection: Connection::new(windows, Budget::new(MEMORY)),
            master,
            poll,
            events: Events::with_capacity(64),
            waker,
            origin: Instant::now(),
            buffer: vec![0; TURN],
            readable: true,
            interrupted,
        })
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

    /// Whether more should be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.connection.output().len() < BACKLOG
    }

    /// Exchanges bytes with the master once, after waiting for something to happen, `limit` at most.
    /// `ready` are the other sources that are ready.
    pub(crate) fn turn(
        &mut self,
        limit: Option<Duration>,
        ready: &mut Vec<Ready>,
    ) -> Result<(), Failure> {
        self.write()?;
        let limit = if self.readable { Some(Duration::ZERO) } else { limit };
        match self.poll.poll(&mut self.events, limit) {
            Err(e) if e.kind() == ErrorKind::Interrupted => self.events.clear(),
            other => other?,
        }
        for event in &self.events {
            let readable = event.is_readable() || event.is_read_closed();
            match event.token() {
                MASTER => self.readable |= readable,
                WAKER => {}
                token => ready.push(Ready { token, readable }),
            }
        }
        if self.readable {
            self.read()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Failure> {
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
        Ok(())
    }

    fn read(&mut self) -> Result<(), Failure> {
        match self.stream.read(&mut self.buffer) {
            Ok(0) => Err(self.lost()),
            Ok(bytes) => {
                let now = self.now();
                let handled = self.connection.handle_input(now, &self.buffer[..bytes]);
                handled.map_err(|e| Failure::new(e.to_string()).with_status(FAILED))
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(self.lost()),
        }
    }

    /// The master has ended the connection.
    fn lost(&mut self) -> Failure {
        if self.is_interrupted() {
            return interrupted();
        }
        let failure = match self.master.epitaph() {
            Some(_) => Failure::new("the connection to the server is lost"),
            None => Failure::new("the master has ended the connection"),
        };
        failure.with_status(FAILED)
    }
}

impl Drop for Link {
    /// A master of the user's must not see data for channels of a client that is gone: it would end.
    fn drop(&mut self) {
        if !self.master.is_shared() {
            return;
        }
        self.connection.close_all();
        let limit = Instant::now() + END_LIMIT;
        let mut ready = Vec::new();
        while self.connection.open_channels() > 0 && Instant::now() < limit {
            if self.turn(Some(END_LIMIT / 10), &mut ready).is_err() {
                break;
            }
            while self.connection.poll_event().is_some() {}
        }
    }
}

/// The user has stopped the command.
pub(crate) fn interrupted() -> Failure {
    Failure::new("interrupted").with_status(130)
}
