//! The keeper: a small process that stays root for a stack that does not.
//!
//! A stack reads packets of strangers, so it gives up all rights of root before the first one
//! ([`confine`](crate::Stack::confine)). What needs them later goes through its keeper, started before: to read
//! rules, settings and path policies again, to add to the peers cache, the keys of peers, tickets and the sums of
//! budgets, to begin a log anew, to bind control sockets, to enlarge the buffers of sockets. The keeper is told at its
//! start which files these are, and opens no others. It has no socket of the network and ends with its stack.
//!
//! ```text
//! stack (no rights) ── requests ─▶ keeper (root) ─▶ files
//!                   ◀─ answers, descriptors ──┘
//! ```

mod serve;

pub use serve::keep;

use crate::files::Writer;
use crate::files::contacts::Contact;
use crate::files::peer_cache::Job;
use crate::files::usages::Usage;
use crate::log;
use manypath_control::{ControlError, ControlListener, ControlSocket, Incoming};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Mode of a control socket: its owner only. Whoever may talk to a stack may end it.
pub(crate) const SOCKET_MODE: u32 = 0o600;
/// How long a keeper may take to begin.
const START: Duration = Duration::from_secs(5);
/// How long it may take to answer: a stack that is quiet for a second is given up by those whom it serves.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long a stack waits for what it has given up to wait for.
const GLANCE: Duration = Duration::from_millis(1);
/// How long the end of a stack waits for its keeper, who may still be writing.
const MAX_END: Duration = Duration::from_secs(2);
const END_STEP: Duration = Duration::from_millis(2);
/// Entries of the peers cache in one message.
const MAX_RECORDS: usize = 256;

static KEEPER: OnceLock<Keeper> = OnceLock::new();

/// What a keeper may touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Files that it may open for reading.
    pub files: Vec<PathBuf>,
    /// Names of control sockets that it may bind.
    pub sockets: Vec<PathBuf>,
    /// The peers cache.
    pub peers: Option<PathBuf>,
    /// What interfaces with a budget have carried. The sums of quotas lie beside it.
    pub budgets: Option<PathBuf>,
    /// The keys of peers. Tickets lie beside it.
    pub known_peers: Option<PathBuf>,
    /// The log.
    pub log: Option<PathBuf>,
}

/// The line to this process's keeper.
#[derive(Debug)]
pub struct Keeper {
    /// Absent once the keeper has ended.
    line: Mutex<Option<Line>>,
    process: Mutex<Child>,
}

#[derive(Debug)]
struct Line {
    socket: ControlSocket,
    /// Answers for which nobody waits any more: none of them belongs to the next request.
    late: usize,
}

#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// Whether it is at work.
    Greet,
    Open(PathBuf),
    OpenLog,
    Bind(PathBuf),
    Save(Job),
    Remember(Contact),
    KeepUsages(Vec<Usage>),
    KeepQuotas(Vec<Usage>),
    KeepTickets(Vec<String>),
    /// The descriptor is a socket.
    EnlargeBuffers,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done,
    /// Too much waits to be saved.
    Busy,
    /// There is no such file.
    Missing,
    Failed(String),
}

impl Kept {
    /// The arguments of `manypath keeper`.
    fn arguments(&self) -> Vec<OsString> {
        let option = |name: &'static str| move |path: &PathBuf| [name.into(), path.into()];
        let files = self.files.iter().flat_map(option("--file"));
        let sockets = self.sockets.iter().flat_map(option("--socket"));
        let peers = self.peers.iter().flat_map(option("--peers"));
        let peers = peers.chain(self.budgets.iter().flat_map(option("--budgets")));
        let known = self.known_peers.iter().flat_map(option("--known-peers"));
        let log = self.log.iter().flat_map(option("--log"));
        files.chain(sockets).chain(peers).chain(known).chain(log).collect()
    }
}

impl Keeper {
    /// Starts `program keeper` for this process, and waits until it answers; once.
    ///
    /// # Errors
    /// When it cannot be started, or does not answer.
    pub fn start(program: &Path, kept: &Kept) -> io::Result<()> {
        let (ours, theirs) = ControlSocket::pair()?;
        ours.set_receive_timeout(Some(START))?;
        let mut command = Command::new(program);
        command.arg("keeper").args(kept.arguments()).stdin(OwnedFd::from(theirs));
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        // With it our copy of the keeper's end, which would hide that it has ended.
        drop(command);
        let keeper = Self::over(ours, process);
        if let Err(error) = keeper.ask(&Request::Greet, None) {
            let mut process = lock(&keeper.process);
            // It may have ended by itself.
            let _ = process.kill();
            return process.wait().and(Err(error));
        }
        if let Some(line) = lock(&keeper.line).as_ref() {
            line.socket.set_receive_timeout(Some(PATIENCE))?;
        }
        KEEPER.set(keeper).map_err(|_| io::Error::from(io::ErrorKind::AlreadyExists))?;
        log::reopen_by(|| Self::current().map(Self::open_log));
        Ok(())
    }

    fn over(socket: ControlSocket, process: Child) -> Self {
        let line = Mutex::new(Some(Line { socket, late: 0 }));
        Self { line, process: Mutex::new(process) }
    }

    /// The keeper of this process, if it has one.
    pub(crate) fn current() -> Option<&'static Self> {
        KEEPER.get()
    }

    /// Ends it, and waits a moment for what it still has to write.
    pub fn end() {
        let Some(keeper) = Self::current() else { return };
        drop(lock(&keeper.line).take());
        let (mut process, until) = (lock(&keeper.process), Instant::now() + MAX_END);
        while matches!(process.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(END_STEP);
        }
    }

    /// Opens a file for reading.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        self.ask_for(&Request::Open(path.to_owned())).map(Into::into)
    }

    /// Opens the log for writing.
    fn open_log(&self) -> io::Result<File> {
        self.ask_for(&Request::OpenLog).map(Into::into)
    }

    /// Listens at a path.
    pub(crate) fn bind(&self, path: &Path) -> io::Result<ControlListener> {
        let socket = self.ask_for(&Request::Bind(path.to_owned()))?;
        Ok(ControlListener::adopt(socket, path))
    }

    /// Saves what is known about peers; false when too much waits to be saved.
    pub(crate) fn save(&self, job: Job) -> io::Result<bool> {
        let jobs = match job {
            Job::Put(records) => {
                records.chunks(MAX_RECORDS).map(|some| Job::Put(some.to_vec())).collect()
            }
            Job::Forget(..) => vec![job],
        };
        for job in jobs {
            if !self.is_taken(&Request::Save(job))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Remembers the key of a peer; false when too much waits to be saved.
    pub(crate) fn remember(&self, contact: Contact) -> io::Result<bool> {
        self.is_taken(&Request::Remember(contact))
    }

    /// Keeps what interfaces have carried; false when too much waits to be saved.
    pub(crate) fn keep_usages(&self, usages: Vec<Usage>) -> io::Result<bool> {
        self.is_taken(&Request::KeepUsages(usages))
    }

    /// Keeps what peers with a quota have moved; false when too much waits to be saved.
    pub(crate) fn keep_quotas(&self, usages: Vec<Usage>) -> io::Result<bool> {
        self.is_taken(&Request::KeepQuotas(usages))
    }

    /// Keeps tickets, which lie beside the keys of peers; false when too many wait to be saved.
    pub(crate) fn keep_tickets(&self, lines: Vec<String>) -> io::Result<bool> {
        self.is_taken(&Request::KeepTickets(lines))
    }

    fn is_taken(&self, request: &Request) -> io::Result<bool> {
        match self.ask(request, None)? {
            (Answer::Done, _) => Ok(true),
            (Answer::Busy, _) => Ok(false),
            (answer, _) => Err(failure(answer)),
        }
    }

    /// Gives a socket the buffers of a path.
    pub(crate) fn enlarge_buffers(&self, socket: BorrowedFd<'_>) -> bool {
        matches!(self.ask(&Request::EnlargeBuffers, Some(socket)), Ok((Answer::Done, _)))
    }

    fn ask_for(&self, request: &Request) -> io::Result<OwnedFd> {
        match self.ask(request, None)? {
            (Answer::Done, Some(fd)) => Ok(fd),
            (answer, _) => Err(failure(answer)),
        }
    }

    fn ask(
        &self,
        request: &Request,
        fd: Option<BorrowedFd<'_>>,
    ) -> io::Result<(Answer, Option<OwnedFd>)> {
        let mut place = lock(&self.line);
        let line = place.as_mut().ok_or_else(gone)?;
        match line.ask(request, fd) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                *place = None;
                Err(error)
            }
            answered => answered,
        }
    }
}

/// Hands something to be written to the keeper of this process, or, where there is none, to a writer that `start` begins.
/// Whether it was taken.
pub(crate) fn hand_over<T: Send + 'static>(
    job: T,
    keeper: fn(&Keeper, T) -> io::Result<bool>,
    writer: &mut Option<Writer<T>>,
    start: impl FnOnce() -> io::Result<Writer<T>>,
) -> bool {
    let taken = match Keeper::current() {
        Some(current) => keeper(current, job),
        None => Writer::take_by(writer, start, job),
    };
    taken.unwrap_or(false)
}

impl Line {
    fn ask(
        &mut self,
        request: &Request,
        fd: Option<BorrowedFd<'_>>,
    ) -> io::Result<(Answer, Option<OwnedFd>)> {
        self.drop_late_answers()?;
        let is_gone = |error: &ControlError| matches!(error, ControlError::Closed);
        let sent = self.socket.send(request, fd);
        sent.map_err(|error| if is_gone(&error) { gone() } else { io::Error::other(error) })?;
        self.late += 1;
        let answered = self.receive()?;
        self.late -= 1;
        Ok(answered)
    }

    fn drop_late_answers(&mut self) -> io::Result<()> {
        if self.late == 0 {
            return Ok(());
        }
        self.socket.set_receive_timeout(Some(GLANCE))?;
        while self.late > 0 {
            self.receive()?;
            self.late -= 1;
        }
        self.socket.set_receive_timeout(Some(PATIENCE))
    }

    /// # Errors
    /// `WouldBlock` when the keeper takes its time.
    fn receive(&self) -> io::Result<(Answer, Option<OwnedFd>)> {
        match self.socket.receive() {
            Ok(Incoming::Message(answer, fd)) => Ok((answer, fd)),
            Err(ControlError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::Error::new(error.kind(), "the keeper of this stack is late"))
            }
            Ok(Incoming::Closed) | Err(_) => Err(gone()),
        }
    }
}

fn gone() -> io::Error {
    let why = "the keeper of this stack does not answer: restart the stack";
    io::Error::new(io::ErrorKind::BrokenPipe, why)
}

fn failure(answer: Answer) -> io::Error {
    match answer {
        Answer::Missing => io::ErrorKind::NotFound.into(),
        Answer::Failed(why) => io::Error::other(why),
        Answer::Done | Answer::Busy => io::ErrorKind::InvalidData.into(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forget() -> Job {
        Job::Forget(None, None)
    }

    #[test]
    fn a_keeper_that_was_suspended_is_used_again() {
        let (ours, theirs) = ControlSocket::pair().unwrap();
        ours.set_receive_timeout(Some(GLANCE)).unwrap();
        let process = Command::new("sleep").arg("100").spawn().unwrap();
        let keeper = Keeper::over(ours, process);
        let late = keeper.save(forget()).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::WouldBlock);
        // Nothing waits while an answer is owed.
        assert!(keeper.save(forget()).is_err());
        let answer = |with: Answer| {
            assert!(matches!(theirs.receive::<Request>(), Ok(Incoming::Message(..))));
            theirs.send(&with, None).unwrap();
        };
        answer(Answer::Busy);
        std::thread::scope(|scope| {
            scope.spawn(|| answer(Answer::Done));
            assert!(keeper.save(forget()).unwrap(), "the late answer was taken for this one");
        });
        let mut process = lock(&keeper.process);
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
