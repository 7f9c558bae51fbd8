//! Sockets that programs hand over themselves, where the launcher may not copy them (`crates/handover`).
//!
//! A socket arrives before the call that it is about, in one packet with its number; the kernel says which process has
//! sent it. It belongs to that one call: kept for longer, it would stay open when the program closes it.

use crate::filter::Trapped;
use crate::program;
use manypath_control::runtime;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::env;
use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a socket waits for its call: a thread that was killed in between never makes it.
const KEPT: Duration = Duration::from_secs(5);
/// How often sockets of calls that wait are looked at: nobody tells when a program has ended.
const LOOK: Duration = Duration::from_secs(1);
/// Sockets that wait at most. Calls come in the order of their sockets, so the newest is dropped.
const MAX_WAITING: usize = 4096;
/// Room for the descriptors and the identity that come with a packet.
const ROOM: usize = 256;

/// Where sockets arrive, and those that have.
#[derive(Debug)]
pub(crate) struct Handover {
    socket: UnixDatagram,
    path: PathBuf,
    /// The process that removes the path: forks have a copy of this.
    owner: Cell<u32>,
    arrived: RefCell<Vec<Arrived>>,
    /// The socket of the call that is being looked at.
    current: RefCell<Option<Call>>,
    /// A copy of it, once somebody has it.
    taken: RefCell<Option<OwnedFd>>,
    /// When the sockets of calls that wait were looked at last.
    looked: Cell<Instant>,
}

/// Sockets of calls that wait, by the notification's identity. A thread that waits in a call keeps its socket open
/// whatever its process does, and so does this copy.
#[derive(Debug, Default)]
pub(crate) struct Sockets(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    unanswered: BTreeMap<u64, Call>,
    /// The one that was answered last.
    answered: Option<u64>,
}

/// A thread's call about a socket.
#[derive(Debug)]
struct Call {
    thread: libc::pid_t,
    number: RawFd,
    socket: OwnedFd,
}

#[derive(Debug)]
struct Arrived {
    process: libc::pid_t,
    number: RawFd,
    socket: OwnedFd,
    at: Instant,
}

impl Handover {
    /// # Errors
    /// When there is no place for the socket, or no descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        Self::within(&runtime::directory()?)
    }

    /// Containers that share the directory may have a process with our number each, so the name is random, too.
    fn within(directory: &Path) -> io::Result<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let random = u128::from_ne_bytes(random);
        let path = directory.join(format!("sockets-{}-{random:032x}", process::id()));
        let socket = UnixDatagram::bind(&path)?;
        let (arrived, current, taken) = Default::default();
        let (owner, looked) = (Cell::new(process::id()), Cell::new(Instant::now()));
        // From here on the path is removed also when a step fails.
        let handover = Self { socket, path, owner, arrived, current, taken, looked };
        handover.prepare()?;
        Ok(handover)
    }

    /// Lets the kernel say who has sent a packet.
    fn prepare(&self) -> io::Result<()> {
        self.socket.set_nonblocking(true)?;
        let on: libc::c_int = 1;
        let length = mem::size_of_val(&on) as libc::socklen_t;
        // SAFETY: the kernel reads one int.
        let set = unsafe {
            let (level, name) = (libc::SOL_SOCKET, libc::SO_PASSCRED);
            libc::setsockopt(self.socket.as_raw_fd(), level, name, (&raw const on).cast(), length)
        };
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// What the command finds in its environment: the library before others, and where we wait.
    /// How many of the calls of servers are trapped decides about which of them the library announces.
    pub(crate) fn environment(
        &self,
        library: &Path,
        trapped: Trapped,
    ) -> Vec<(&'static str, OsString)> {
        let mut libraries = library.as_os_str().to_owned();
        if let Some(before) = env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
            libraries.push(":");
            libraries.push(before);
        }
        let servers = match trapped {
            Trapped { accepts: true, .. } => "accept",
            Trapped { servers: true, .. } => "listen",
            Trapped { .. } => "none",
        };
        vec![
            ("LD_PRELOAD", libraries),
            ("MANYPATH_HANDOVER", self.path.clone().into()),
            ("MANYPATH_HANDOVER_SERVERS", servers.into()),
        ]
    }

    /// Leaves the path to another process, which serves the programs that are left.
    pub(crate) fn give_to(&self, process: u32) {
        self.owner.set(process);
    }

    /// Removes the path if this process owns it; programs that are left make their calls without us.
    pub(crate) fn remove(&self) {
        if self.owner.get() == process::id() {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Takes what has arrived: senders wait while the queue is full.
    pub(crate) fn receive(&self) {
        let mut arrived = self.arrived.borrow_mut();
        // First, so that they do not take the room of others.
        arrived.retain(|one| one.at.elapsed() < KEPT);
        while let Some(one) = receive(&self.socket) {
            keep(&mut arrived, one, MAX_WAITING);
        }
    }

    /// When time alone changes something.
    pub(crate) fn deadline(&self, sockets: &Sockets) -> Option<Instant> {
        let arrived = self.arrived.borrow().first().map(|one| one.at + KEPT);
        let look = (!sockets.is_empty()).then(|| self.looked.get() + LOOK);
        arrived.into_iter().chain(look).min()
    }

    /// Closes copies of sockets whose programs have closed them, or have ended.
    pub(crate) fn look_after(&self, sockets: &Sockets, now: Instant, waits: impl Fn(u64) -> bool) {
        if now >= self.looked.get() + LOOK {
            self.looked.set(now);
            self.receive();
            sockets.forget_closed(waits);
        }
    }

    /// A call of a thread is looked at, which has the socket under this number. A call that the kernel repeats after
    /// a signal is not announced again.
    pub(crate) fn begin(&self, sockets: &Sockets, thread: libc::pid_t, number: RawFd) {
        self.receive();
        let announced = self.announced(thread, number);
        let interrupted = sockets.of_interrupted(thread, number);
        let socket = announced.or(interrupted);
        *self.current.borrow_mut() = socket.map(|socket| Call { thread, number, socket });
    }

    /// The socket that the thread's process has announced and still has: a call that was announced may never have been
    /// made.
    fn announced(&self, thread: libc::pid_t, number: RawFd) -> Option<OwnedFd> {
        let mut arrived = self.arrived.borrow_mut();
        if !arrived.iter().any(|one| one.number == number) {
            return None;
        }
        let process = program::process_of(thread).unwrap_or(thread);
        let is_it = |one: &Arrived| (one.process, one.number) == (process, number);
        while let Some(at) = arrived.iter().position(is_it) {
            let socket = arrived.remove(at).socket;
            if program::has(thread, number, &socket) {
                return Some(socket);
            }
        }
        None
    }

    /// The call was looked at; its socket.
    pub(crate) fn end(&self) -> Option<OwnedFd> {
        let unwanted = self.current.take().map(|call| call.socket);
        self.taken.take().or(unwanted)
    }

    /// The socket of the call that is being looked at.
    ///
    /// # Errors
    /// `EPERM` when the program has not handed over a TCP socket, `EMFILE` when it had no descriptor left for that,
    /// `EBADF` when it is none.
    pub(crate) fn take(&self, thread: libc::pid_t, number: RawFd) -> io::Result<OwnedFd> {
        match self.current.take() {
            Some(call) if (call.thread, call.number) == (thread, number) => {
                *self.taken.borrow_mut() = Some(call.socket.try_clone()?);
                Ok(call.socket)
            }
            _ => Err(unannounced(thread, number)),
        }
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Sockets {
    /// Keeps the socket of a call that was looked at, unless it was answered then.
    pub(crate) fn keep(&self, id: u64, thread: libc::pid_t, number: RawFd, socket: OwnedFd) {
        let mut calls = self.lock();
        if calls.answered != Some(id) {
            calls.unanswered.insert(id, Call { thread, number, socket });
        }
    }

    /// The socket of a call that waits.
    pub(crate) fn of_call(&self, id: u64) -> Option<OwnedFd> {
        self.lock().unanswered.get(&id)?.socket.try_clone().ok()
    }

    /// Closes the copy, before the call is answered: what the program closes then is closed.
    pub(crate) fn forget(&self, id: u64) {
        let mut calls = self.lock();
        calls.unanswered.remove(&id);
        calls.answered = Some(id);
    }

    /// The socket of an earlier call of the thread, which was interrupted.
    fn of_interrupted(&self, thread: libc::pid_t, number: RawFd) -> Option<OwnedFd> {
        let calls = &mut self.lock().unanswered;
        let is_it = |call: &Call| (call.thread, call.number) == (thread, number);
        let id = calls.iter().find(|(_, call)| is_it(call)).map(|(id, _)| *id)?;
        let socket = calls.remove(&id)?.socket;
        program::has(thread, number, &socket).then_some(socket)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().unanswered.is_empty()
    }

    /// Closes the copies of sockets that the programs of interrupted calls have closed.
    pub(crate) fn forget_closed(&self, waits: impl Fn(u64) -> bool) {
        let has = |call: &Call| program::has(call.thread, call.number, &call.socket);
        self.lock().unanswered.retain(|id, call| waits(*id) || has(call));
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRawFd for Handover {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Keeps a socket if there is room for it.
fn keep(arrived: &mut Vec<Arrived>, one: Option<Arrived>, limit: usize) {
    arrived.extend(one.filter(|_| arrived.len() < limit));
}

/// Why there is no socket: programs send TCP sockets alone, and need a descriptor for it. What cannot be seen may be
/// one.
fn unannounced(thread: libc::pid_t, number: RawFd) -> io::Error {
    let may_be_tcp = match protocol(thread, number) {
        Ok(name) => name.contains("TCP"),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    let errno = match may_be_tcp {
        true if program::is_at_descriptor_limit(thread) => libc::EMFILE,
        true => libc::EPERM,
        false => libc::EBADF,
    };
    io::Error::from_raw_os_error(errno)
}

/// The name of a socket's protocol, as the kernel tells it of sockets that are files in /proc.
fn protocol(thread: libc::pid_t, number: RawFd) -> io::Result<String> {
    let path = CString::new(format!("/proc/{thread}/fd/{number}"))?;
    let mut name = [0_u8; 32];
    let attribute = c"system.sockprotoname".as_ptr();
    // SAFETY: the strings end with a zero, and the kernel writes at most so many bytes.
    let length =
        unsafe { libc::getxattr(path.as_ptr(), attribute, name.as_mut_ptr().cast(), name.len()) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    Ok(String::from_utf8_lossy(name.get(..length).unwrap_or_default()).into_owned())
}

#[repr(C, align(8))]
struct Control([u8; ROOM]);

/// The next packet; `Some(None)` for one that is not as it should be.
fn receive(from: &UnixDatagram) -> Option<Option<Arrived>> {
    let mut number = [0; 4];
    let mut piece = libc::iovec { iov_base: number.as_mut_ptr().cast(), iov_len: number.len() };
    let mut control = Control([0; ROOM]);
    // SAFETY: all zeroes is a valid header.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = ROOM as _;
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    // SAFETY: the header points to live buffers of the stated lengths.
    let length = unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut header, flags) };
    if length < 0 {
        return None;
    }
    let (mut process, mut sockets) = (None, Vec::new());
    // SAFETY: the kernel has filled the header; what it has put there has the type that it says.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&raw const header);
        while let Some(message) = at.as_ref() {
            let data = libc::CMSG_DATA(at);
            if message.cmsg_type == libc::SCM_CREDENTIALS {
                process = Some(data.cast::<libc::ucred>().read_unaligned().pid);
            } else if message.cmsg_type == libc::SCM_RIGHTS {
                let bytes = message.cmsg_len as u64 - u64::from(libc::CMSG_LEN(0));
                let all = (0..bytes as usize / 4)
                    .map(|number| data.cast::<RawFd>().add(number).read_unaligned());
                sockets.extend(all.map(|fd| OwnedFd::from_raw_fd(fd)));
            }
            at = libc::CMSG_NXTHDR(&raw const header, at);
        }
    }
    let socket = sockets.pop().filter(|_| sockets.is_empty() && length == 4);
    let whole = process.zip(socket);
    Some(whole.map(|(process, socket)| Arrived {
        process,
        number: RawFd::from_ne_bytes(number),
        socket,
        at: Instant::now(),
    }))
}

/// Whether the library may be preloaded under a command: a loader that misses something that the library needs ends the
/// program. A script is what its interpreter is.
pub(crate) fn is_preloadable(program: &Path, library: &Path) -> bool {
    let Some(loader) = find(program).and_then(|path| loader(&path)) else { return false };
    loader == Loader::Gnu || is_for_any(library)
}

/// Of which C library a program's loader is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loader {
    Gnu,
    Musl,
}

fn loader(program: &Path) -> Option<Loader> {
    let mut head = Vec::new();
    File::open(program).ok()?.take(4096).read_to_end(&mut head).ok()?;
    let Some(line) = head.strip_prefix(b"#!") else { return Loader::of(&head) };
    let line = String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next().unwrap_or(b""));
    // A script of a script is as rare as it is confusing.
    Loader::of(&fs::read(line.split_whitespace().next()?).ok()?)
}

impl Loader {
    /// The one that the beginning of a program names.
    fn of(file: &[u8]) -> Option<Self> {
        let head = file.get(..file.len().min(4096)).unwrap_or_default();
        let names = |part: &[u8]| head.windows(part.len()).any(|window| window == part);
        match head.starts_with(b"\x7fELF") {
            true if names(b"/ld-linux") => Some(Self::Gnu),
            true if names(b"/ld-musl-") => Some(Self::Musl),
            _ => None,
        }
    }
}

/// Whether the library asks for nothing that the GNU C library and its compiler alone have (`scripts/handover`).
fn is_for_any(library: &Path) -> bool {
    let Ok(file) = fs::read(library) else { return false };
    let names = |part: &[u8]| file.windows(part.len()).any(|window| window == part);
    !names(b"ld-linux") && !names(b"libgcc_s")
}

fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_owned());
    }
    let places = env::var_os("PATH")?;
    env::split_paths(&places).map(|place| place.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_socket_that_is_not_sent_is_told_from_what_is_no_tcp_socket() {
        // SAFETY: takes nothing.
        let own = unsafe { libc::gettid() };
        let tcp = OwnedFd::from(TcpListener::bind(("127.0.0.1", 0)).unwrap());
        let udp = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let errno = |fd| unannounced(own, fd).raw_os_error();
        assert_eq!(errno(tcp.as_raw_fd()), Some(libc::EPERM));
        assert_eq!(errno(udp.as_raw_fd()), Some(libc::EBADF));
        assert_eq!(errno(9999), Some(libc::EBADF));
        let has = |fd| program::has(own, fd, &tcp);
        assert!(has(tcp.as_raw_fd()) && !has(udp.as_raw_fd()));
    }

    #[test]
    fn a_burst_is_kept_and_the_newest_socket_is_dropped_when_full() {
        let socket = OwnedFd::from(TcpListener::bind(("127.0.0.1", 0)).unwrap());
        let arrive = |number| {
            let (process, at) = (1, Instant::now());
            Some(Arrived { process, number, socket: socket.try_clone().unwrap(), at })
        };
        let mut arrived = Vec::new();
        (0..400).for_each(|number| keep(&mut arrived, arrive(number), MAX_WAITING));
        keep(&mut arrived, arrive(400), 400);
        assert!(arrived.iter().map(|one| one.number).eq(0..400));
    }

    #[test]
    fn a_call_keeps_its_socket_until_it_is_answered() {
        // SAFETY: takes nothing.
        let own = unsafe { libc::gettid() };
        let socket = OwnedFd::from(TcpListener::bind(("127.0.0.1", 0)).unwrap());
        let (number, copy) = (socket.as_raw_fd(), || socket.try_clone().unwrap());
        let sockets = Sockets::default();
        sockets.keep(1, own, number, copy());
        sockets.forget_closed(|_| false);
        assert!(sockets.of_call(1).is_some(), "interrupted, perhaps made again");
        assert!(sockets.of_interrupted(own, number).is_some());
        sockets.forget(2);
        sockets.keep(2, own, number, copy());
        assert!(sockets.is_empty(), "answered while it was looked at");
    }

    #[test]
    fn two_launchers_with_one_number_wait_in_one_directory() {
        let directory = env::temp_dir();
        let [one, other] = [(); 2].map(|()| Handover::within(&directory).unwrap());
        assert_ne!(one.path, other.path);
        let paths = [one.path.clone(), other.path.clone()];
        drop(one);
        assert_eq!(paths.each_ref().map(|path| path.exists()), [false, true]);
        drop(other);
        assert!(!paths[1].exists());
    }

    #[test]
    fn only_the_process_that_serves_removes_the_path() {
        let handover = Handover::within(&env::temp_dir()).unwrap();
        let path = handover.path.clone();
        handover.give_to(process::id() + 1);
        drop(handover);
        assert!(path.exists());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn programs_of_a_c_library_that_the_library_knows_are_preloadable() {
        let place = |name| env::temp_dir().join(format!("manypath-{name}-{}", process::id()));
        let [file, gnu, any] = ["program", "gnu.so", "any.so"].map(place);
        fs::write(&gnu, b"libgcc_s.so.1 ld-linux-x86-64.so.2").unwrap();
        fs::write(&any, b"libc.so.6").unwrap();
        let under = |program: &Path| [&gnu, &any].map(|it| is_preloadable(program, it));
        assert_eq!(under(Path::new("sh")), [true, true]);
        let is = |content: &[u8]| {
            fs::write(&file, content).unwrap();
            under(&file)
        };
        assert_eq!(is(b"#!/usr/bin/env python3\n"), [true, true]);
        assert_eq!(is(b"\x7fELF /lib/ld-musl-x86_64.so.1"), [false, true]);
        assert_eq!(is(b"\x7fELF, and no loader"), [false, false]);
        [&file, &gnu, &any].into_iter().for_each(|path| fs::remove_file(path).unwrap());
        assert_eq!(under(&file), [false, false]);
    }
}
