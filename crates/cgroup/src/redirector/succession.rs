//! One `manypath attach` takes over from another without an end of connections: after an upgrade, or when it is started
//! anew.
//!
//! ```text
//! predecessor  its programs at work ───────────┐ SIGUSR1            names, options ──── until its connections end
//! successor              its programs at work ─┘ ── everything new ─────────────────▶
//! ```
//!
//! A predecessor that is still there when its successor dies serves again. One that ends on purpose says so by SIGUSR2.
//!
//! No state changes hands, so versions need to agree on the signals alone. The predecessor keeps its stack, its maps and
//! the programs that tell names: for its own sockets. It takes no connect any more, and offers no listener.
//!
//! A service manager that starts the service anew keeps a line to the process meanwhile, and drops it when the service is
//! stopped (`crates/control/src/anchor.rs`).

use super::{Error, Redirector};
use crate::rival::{self, Rival};
use libc::pollfd;
use manypath_control::{Request, anchor, manager};
use manypath_gate::poll::{interest, poll};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

/// How long connections may go on beside a successor.
const MAX_AFTERLIFE: Duration = Duration::from_secs(86_400);
/// How long a service manager may take to start the successor.
const MAX_WAIT: Duration = Duration::from_secs(90);
/// How long a connect may take from its redirection until it is known here.
const GRACE: Duration = Duration::from_secs(1);

/// Whether this process goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    Serves,
    Ends,
    /// The service manager has stopped the service: its connections end, too.
    EndsAll,
}

/// What this process is told of its end and of its successor.
#[derive(Debug)]
pub(super) struct Succession {
    end: UnixStream,
    hand_over: UnixStream,
    dismissal: UnixStream,
    /// Whether this process is not to serve again, whatever becomes of its successor.
    is_dismissed: bool,
    /// The process of the successor, while its death makes this one serve again.
    successor: Option<OwnedFd>,
    /// Who has started this process.
    parent: u32,
    /// The other end is kept by the service manager for as long as the service is to run.
    line: Option<UnixStream>,
    /// When this process ends that waits for its successor, or its connections.
    until: Option<Instant>,
    /// Whether the service manager's main process has ended.
    alone: bool,
}

impl Succession {
    /// `anchored`: the service manager's main process is another one, which may end before this one.
    pub(super) fn new(anchored: bool) -> io::Result<Self> {
        let (end, hand_over) = (on_signals(&[SIGINT, SIGTERM])?, on_signals(&[SIGUSR1])?);
        let (dismissal, parent) = (on_signals(&[SIGUSR2])?, parent_id());
        let line = anchored.then(keep_line).transpose()?;
        let (successor, until, alone, is_dismissed) = (None, None, false, false);
        Ok(Self { end, hand_over, dismissal, is_dismissed, successor, parent, line, until, alone })
    }

    pub(super) fn interests(&self) -> [pollfd; 5] {
        let line = self.line.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let successor = self.successor.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let signals = [&self.end, &self.hand_over, &self.dismissal].map(AsRawFd::as_raw_fd);
        let [end, hand_over, dismissal] = signals.map(interest);
        [end, hand_over, dismissal, interest(line), interest(successor)]
    }

    /// How long there is nothing to do.
    pub(super) fn timeout(&self, other: Option<Duration>) -> Option<Duration> {
        let until = self.until.map(|at| at.saturating_duration_since(Instant::now()));
        // Whether anything is left is looked at then.
        let until = until.map(|left| left.min(GRACE));
        until.into_iter().chain(other).min()
    }

    /// Handles the signals and the end of the manager's line that have come since the last call.
    pub(super) fn turn(&mut self, redirector: &mut Redirector) -> Course {
        let now = Instant::now();
        let hands_over = drain(&mut self.hand_over) && !redirector.has_successor();
        if hands_over {
            redirector.hand_over(now);
            self.until = Some(now + MAX_AFTERLIFE);
            self.successor = redirector.successor();
        }
        // One that has been killed before it was looked for left no descriptor.
        let has_died = self.successor.as_ref().map_or(hands_over, has_ended);
        self.is_dismissed |= drain(&mut self.dismissal);
        if self.is_dismissed {
            self.successor = None;
        } else if has_died {
            self.on_successor_ended(redirector, now);
        }
        if drain(&mut self.end) && !self.detach(now) {
            return Course::Ends;
        }
        if self.line.as_mut().is_some_and(is_dropped) {
            self.line = None;
            if self.until.is_some() || self.alone {
                return Course::EndsAll;
            }
            // It keeps none: a restart is an end.
        }
        let over = self.until.is_some_and(|until| now >= until);
        if over || redirector.has_nothing_left(now) { Course::Ends } else { Course::Serves }
    }

    /// Somebody else may have come after it.
    fn on_successor_ended(&mut self, redirector: &mut Redirector, now: Instant) {
        self.successor = redirector.successor();
        if self.successor.is_some() {
            return;
        }
        match redirector.serve_again(now) {
            Ok(()) => self.until = None,
            Err(error) => {
                let text = format!("the manypath that has taken over is dead: {error}");
                (redirector.options.notice)(&text);
                // Its own programs are off already.
                let _ = redirector.stand_back(now);
                self.successor = redirector.successor();
            }
        }
    }

    /// Whether this process ends because the one that has started it has died.
    pub(super) fn is_orphaned(&self) -> bool {
        parent_id() != self.parent
    }

    /// Whether the connections may outlive the manager's main process: that ends now.
    fn detach(&mut self, now: Instant) -> bool {
        let may = self.line.is_some() && self.until.is_none() && !self.alone;
        if may {
            (self.until, self.alone) = (Some(now + MAX_WAIT), true);
            anchor::let_go();
        }
        may
    }
}

fn on_signals(signals: &[i32]) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, theirs.try_clone()?)?;
    }
    Ok(ours)
}

fn keep_line() -> io::Result<UnixStream> {
    manager::connect();
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    manager::store(theirs.as_fd());
    Ok(ours)
}

/// Whether anything has come.
fn drain(from: &mut UnixStream) -> bool {
    from.read(&mut [0; 64]).is_ok_and(|read| read > 0)
}

/// Whether a process has ended, by its descriptor.
fn has_ended(process: &OwnedFd) -> bool {
    let mut entry = [interest(process.as_raw_fd())];
    poll(&mut entry, Some(Duration::ZERO));
    entry.iter().any(|entry| entry.revents != 0)
}

fn is_dropped(line: &mut UnixStream) -> bool {
    line.read(&mut [0]).is_ok_and(|read| read == 0)
}

impl Redirector {
    pub(super) const fn has_successor(&self) -> bool {
        self.succeeded_at.is_some()
    }

    /// Leaves everything new to the successor, which is at work already.
    fn hand_over(&mut self, now: Instant) {
        let left = self.stand_back(now);
        let open = self.connections.len();
        let text = match left {
            Ok(()) => format!("another manypath takes over; {open} connections go on here"),
            Err(error) => format!("another manypath takes over: {error}"),
        };
        (self.options.notice)(&text);
    }

    fn stand_back(&mut self, now: Instant) -> io::Result<()> {
        self.succeeded_at = Some(now);
        // The successor's programs see what these leave alone.
        let left = self.tables.take_no_more();
        self.retire_door();
        self.hand_networks_over(now);
        self.group.hand_over();
        self.handle_events();
        left
    }

    /// The process that carries what is new.
    fn successor(&self) -> Option<OwnedFd> {
        let pid = Rival::of(self.group.path())?.pid.cast_signed();
        // SAFETY: plain numbers; then the kernel has just made the descriptor.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            (fd >= 0).then(|| OwnedFd::from_raw_fd(fd as i32))
        }
    }

    /// Takes what is new once more, beside the connections that have gone on.
    fn serve_again(&mut self, now: Instant) -> Result<(), Error> {
        self.succeeded_at = None;
        self.read_rules();
        self.read_routes();
        self.group.take_back(&self.programs)?;
        self.resume_networks(now);
        self.resume_door(now);
        self.scan();
        let text = "the manypath that has taken over is dead: this process serves again";
        (self.options.notice)(text);
        Ok(())
    }

    /// Those before this one are not to serve again, as it ends on purpose.
    pub(super) fn dismiss_predecessors(&self) {
        if !self.has_successor() {
            rival::dismiss_predecessors(self.group.path());
        }
    }

    /// Whether a successor has everything.
    fn has_nothing_left(&self, now: Instant) -> bool {
        self.succeeded_at.is_some_and(|at| now >= at + GRACE)
            && self.connections.len() == 0
            && self.datagrams.is_empty()
            && self.detours.is_empty()
            && self.serves_nobody()
            && self.networks.is_empty()
    }

    /// Ends the connections with the service.
    pub(super) fn stop_stack(&mut self) {
        self.stack.send(Request::Stop, None);
    }
}
