//! The launcher's line to the stack. Nothing here waits; losing the stack is a normal event.

use crate::back_off::BackOff;
use crate::choice::StackChoice;
use libc::pollfd;
use manypath_control::{
    ControlClient, ControlError, ControlSocket, Reply, Request, Role, SocketOptions, is_spoken,
};
use socket2::Socket;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Requests that wait because the stack does not read. A stack this far behind is not alive.
const MAX_QUEUE: usize = 4096;

/// The launcher's line to the stack.
#[derive(Debug, Default)]
pub struct StackLink {
    client: Option<ControlClient>,
    /// The embedded stack's process, until it has ended.
    process: Option<Child>,
    queue: VecDeque<(Request, Option<OwnedFd>)>,
    welcomed: bool,
    /// Whether the stack has said that it counts what it carries for us.
    counts_traffic: bool,
    /// Where a running stack is and what we are to it, until it has welcomed us: one of the previous version is asked again
    /// in its language, and requests wait for that.
    unwelcomed: Option<(PathBuf, Role)>,
    /// It left an open without any answer; new ones are not given to it until it says something.
    silent: bool,
    /// The stack is gone and the supervisor has not been told yet.
    lost: bool,
    /// Why, if it was more than a closed connection.
    fault: Option<ControlError>,
    /// How to begin a stack in place of one that has ended; nobody does without.
    origin: Option<(StackChoice, Role)>,
    back_off: BackOff,
    /// How many have been begun so.
    replaced: u64,
    /// Whether the user has heard of an end.
    told: bool,
    /// Processes of earlier stacks that have not been collected yet.
    ending: Vec<Child>,
}

impl StackLink {
    /// Starts the stack, or connects to the running one, as chosen.
    ///
    /// # Errors
    /// When it cannot be started or reached.
    pub fn new(choice: &StackChoice, role: Role) -> io::Result<Self> {
        let (client, process) = begin(choice, role)?;
        let origin = Some((choice.clone(), role));
        let unwelcomed = running(choice, role);
        Ok(Self { client: Some(client), process, origin, unwelcomed, ..Self::default() })
    }

    /// Begins another stack if there is none any more and it is time for one. Call it when a stack is needed, after
    /// [`flush_and_is_lost`](Self::flush_and_is_lost) has told of the end of the last one.
    pub fn replace(&mut self, now: Instant) {
        let Some((choice, role)) =
            self.origin.as_ref().filter(|_| self.client.is_none() && !self.lost)
        else {
            return;
        };
        if !self.back_off.permit(now) {
            return;
        }
        // Its absence lasts until the next time.
        let Ok((client, process)) = begin(choice, *role) else { return };
        self.unwelcomed = running(choice, *role);
        self.ending.extend(self.process.take());
        (self.client, self.process) = (Some(client), process);
        (self.welcomed, self.silent, self.counts_traffic) = (false, false, false);
        self.replaced += 1;
    }

    /// How many stacks have been begun in place of others.
    pub const fn replacements(&self) -> u64 {
        self.replaced
    }

    /// Whether an open may be given to the stack.
    pub fn is_usable(&self) -> bool {
        self.client.is_some() && !self.silent
    }

    /// Whether the stack has not said its first word yet.
    pub fn is_starting(&self) -> bool {
        !self.welcomed
    }

    /// Stops giving opens to the stack until it says something.
    pub fn distrust(&mut self) {
        self.silent = true;
    }

    /// Sends, or queues while the stack is slow. Without a stack the request is dropped, and a
    /// descriptor with it, whose linger setting makes that a reset.
    pub fn send(&mut self, request: Request, fd: Option<OwnedFd>) {
        if self.client.is_none() {
            return;
        }
        self.queue.push_back((request, fd));
        self.flush();
        if self.queue.len() > MAX_QUEUE {
            self.lose(None);
        }
    }

    /// Hands a connection's far end over, and tells the options of the program's socket.
    pub fn attach(&mut self, id: u64, far: Socket, options: SocketOptions) {
        self.send(Request::Attach { id }, Some(far.into()));
        if options != SocketOptions::default() {
            self.send(Request::Options { id, options }, None);
        }
    }

    /// Asks what the stack has carried for us. False where it does not count that, or there is none.
    pub fn ask_traffic(&mut self) -> bool {
        let counts = self.client.is_some() && self.counts_traffic;
        if counts {
            self.send(Request::Traffic, None);
        }
        counts
    }

    /// The next reply, if there is one.
    pub fn receive(&mut self) -> Option<Reply> {
        let client = self.client.as_ref()?;
        match client.receive() {
            Ok(reply) => {
                self.silent = false;
                if self.welcomed {
                    return Some(reply);
                }
                let welcome = client.check_welcome(&reply).map(drop);
                if let Reply::Welcome { counts_traffic, .. } = reply {
                    self.counts_traffic = counts_traffic;
                }
                self.on_welcome(welcome).then_some(reply)
            }
            Err(e) if e.is_would_block() => None,
            Err(ControlError::Closed) => {
                self.lose(None);
                None
            }
            Err(e) => {
                self.lose(Some(e));
                None
            }
        }
    }

    /// Whether the stack has taken us in. One of the previous version is asked again.
    fn on_welcome(&mut self, welcome: Result<(), ControlError>) -> bool {
        let outcome = match (welcome, self.unwelcomed.take()) {
            (Err(ControlError::Version { theirs }), Some((path, role))) if is_spoken(theirs) => {
                start_as(&path, role, theirs).map(Some)
            }
            (welcome, _) => welcome.map(|()| None),
        };
        self.welcomed = !matches!(outcome, Ok(Some(_)));
        let is_welcome = matches!(outcome, Ok(None));
        match outcome {
            Ok(None) => self.flush(),
            Ok(another) => self.client = another,
            Err(error) => self.lose(Some(error)),
        }
        is_welcome
    }

    /// Sends what waits. True once after the stack was lost.
    pub fn flush_and_is_lost(&mut self) -> bool {
        self.flush();
        std::mem::take(&mut self.lost)
    }

    /// Why the stack was lost, if it was more than its end.
    pub fn take_fault(&mut self) -> Option<ControlError> {
        self.fault.take()
    }

    /// What the user is to hear of ends of the stack: of the first one alone.
    pub fn take_notice(&mut self) -> Option<String> {
        let text = match self.take_fault() {
            Some(fault) => format!("{fault}; connections are plain TCP until another stack serves"),
            None if self.replaced > 0 => {
                "the stack has ended; new connections use another one".to_owned()
            }
            None => return None,
        };
        (!std::mem::replace(&mut self.told, true)).then_some(text)
    }

    /// Collects the embedded stack's process if it has ended; its end itself is seen at the
    /// control connection.
    pub fn reap(&mut self) {
        let has_ended = |process: &mut Child| !matches!(process.try_wait(), Ok(None));
        self.process.take_if(has_ended);
        self.ending.retain_mut(|process| !has_ended(process));
    }

    /// Ends the conversation for good; the stack's process is still to be collected.
    pub fn close(&mut self) {
        (self.client, self.origin) = (None, None);
        self.queue.clear();
    }

    /// Whether a process of ours has not been collected yet.
    pub const fn has_process(&self) -> bool {
        self.process.is_some() || !self.ending.is_empty()
    }

    /// What to poll for.
    pub fn interest(&self) -> pollfd {
        let fd = self.client.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let waits = self.queue.is_empty() || self.unwelcomed.is_some();
        let writing = if waits { 0 } else { libc::POLLOUT };
        pollfd { fd, events: libc::POLLIN | writing, revents: 0 }
    }

    fn flush(&mut self) {
        if self.unwelcomed.is_some() {
            return;
        }
        while let (Some(client), Some((request, fd))) = (&self.client, self.queue.front()) {
            match client.send(request, fd.as_ref().map(AsFd::as_fd)) {
                Ok(()) => drop(self.queue.pop_front()),
                Err(e) if e.is_would_block() => return,
                Err(ControlError::Closed) => self.lose(None),
                Err(e) => self.lose(Some(e)),
            }
        }
    }

    fn lose(&mut self, fault: Option<ControlError>) {
        self.client = None;
        self.queue.clear();
        self.lost = true;
        self.fault = fault;
    }
}

/// Where a running stack is that may speak the language of the previous version; one that we start does not.
fn running(choice: &StackChoice, role: Role) -> Option<(PathBuf, Role)> {
    match choice {
        // Those that share a stack are of one version.
        StackChoice::Embedded { .. } | StackChoice::Shared { .. } => None,
        StackChoice::Server { socket, .. } | StackChoice::System { socket } => {
            Some((socket.clone(), role))
        }
    }
}

/// Asks a running stack in its language.
fn start_as(path: &Path, role: Role, version: u32) -> Result<ControlClient, ControlError> {
    let client = ControlClient::start_as(ControlSocket::connect(path)?, role, version)?;
    client.socket().set_nonblocking(true)?;
    Ok(client)
}

fn begin(choice: &StackChoice, role: Role) -> io::Result<(ControlClient, Option<Child>)> {
    let (socket, process) = match choice {
        StackChoice::Embedded { exe, args, tells } => start(exe, args, *tells)?,
        StackChoice::Shared { name: found, exe, args }
        | StackChoice::Server { socket: found, exe, args } => match ControlSocket::connect(found) {
            Ok(socket) => (socket, None),
            Err(_) => start(exe, args, false)?,
        },
        StackChoice::System { socket } => (ControlSocket::connect(socket)?, None),
    };
    let client = ControlClient::start(socket, role).map_err(io::Error::other)?;
    client.socket().set_nonblocking(true)?;
    Ok((client, process))
}

/// Starts the embedded stack in a session of its own: no signal of the terminal reaches it, and it
/// may outlive us until its flows are drained. It keeps none of our standard streams open, on
/// whose end somebody may wait, unless it shall tell there what it does.
fn start(exe: &Path, args: &[OsString], tells: bool) -> io::Result<(ControlSocket, Option<Child>)> {
    let (ours, theirs) = ControlSocket::pair()?;
    let fd = theirs.as_raw_fd();
    let mut command = Command::new(exe);
    command.args(args).arg("--control-fd").arg(fd.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // Inherited, not opened again by its name: it may be a socket, or a file with a place to go on at.
    command.stderr(if tells { Stdio::inherit() } else { Stdio::null() });
    // SAFETY: the closure makes only system calls.
    unsafe { command.pre_exec(move || enter_session(fd)) };
    Ok((ours, Some(command.spawn()?)))
}

fn enter_session(control: RawFd) -> io::Result<()> {
    // SAFETY: plain numbers and an initialised signal set.
    unsafe {
        libc::setsid();
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        // Whatever else our caller has left open is not for the stack to keep open.
        let flags = libc::CLOSE_RANGE_CLOEXEC;
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, flags);
        if libc::fcntl(control, libc::F_SETFD, 0) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use manypath_control::{ControlListener, Incoming, VERSION};

    /// What a stack that says `counts_traffic` hears of a launcher that would like to know.
    fn heard_after_welcome(counts_traffic: bool) -> Option<Request> {
        let name = format!("manypath-link-{}-{counts_traffic}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        let listener = ControlListener::bind(&directory.join("sock"), 0o600).expect("bound");
        let socket = listener.path().to_owned();
        let mut link =
            StackLink::new(&StackChoice::System { socket }, Role::Launcher).expect("linked");
        let stack = listener.accept().expect("accepted");
        assert!(matches!(stack.receive(), Ok(Incoming::Message(Request::Hello { .. }, None))));
        assert!(!link.ask_traffic(), "nobody knows yet who it is");
        let welcome = Reply::Welcome { version: VERSION, pid: 1, namespace: 2, counts_traffic };
        stack.send(&welcome, None).expect("sent");
        assert_eq!(link.receive(), Some(welcome));
        assert_eq!(link.ask_traffic(), counts_traffic);
        std::fs::remove_dir_all(directory).expect("removed");
        drop(link);
        match stack.receive().expect("a message, or the end") {
            Incoming::Message(request, _) => Some(request),
            Incoming::Closed => None,
        }
    }

    #[test]
    fn only_a_stack_that_counts_traffic_is_asked_for_it() {
        assert_eq!(heard_after_welcome(true), Some(Request::Traffic));
        assert_eq!(heard_after_welcome(false), None);
    }
}
