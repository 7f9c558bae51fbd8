//! Calls of `accept` that wait.
//!
//! The kernel is asked to tell when a connection has come, by an epoll set of its own, which keeps no
//! hold of the listening socket. Whoever has waited longest gets it, and when he has been killed or
//! interrupted meanwhile, the next one.

use super::take::Accepted;
use crate::program;
use crate::trap::Trap;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Instant;

/// The calls that wait at one listening socket.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    calls: VecDeque<Waiter>,
    watch: Option<OwnedFd>,
    /// Connections that were taken out of the queue for a call that then had gone.
    parked: VecDeque<Accepted>,
}

/// A call that waits.
#[derive(Debug, Clone)]
pub(super) struct Waiter {
    pub(super) trap: Trap,
    /// When it stops waiting (`SO_RCVTIMEO`).
    pub(super) until: Option<Instant>,
}

impl Waiting {
    /// Lets a call wait for a connection at `socket`.
    ///
    /// # Errors
    /// When the kernel cannot tell of connections: no descriptors are left.
    pub(super) fn add(&mut self, waiter: Waiter, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.watch.is_none() {
            self.watch = Some(watch(socket)?);
        }
        // A thread that calls again was interrupted in its earlier call.
        self.calls.retain(|earlier| earlier.trap.thread != waiter.trap.thread);
        self.calls.push_back(waiter);
        Ok(())
    }

    /// What becomes readable when a connection has come.
    pub(super) fn watch(&self) -> Option<&OwnedFd> {
        self.watch.as_ref()
    }

    /// The call that has waited longest.
    pub(super) fn next(&mut self) -> Option<Waiter> {
        let next = self.calls.pop_front();
        if self.calls.is_empty() {
            self.watch = None;
        }
        next
    }

    /// Puts a call back for which there was nothing after all.
    pub(super) fn put_back(&mut self, waiter: Waiter, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.add(waiter, socket)?;
        self.calls.rotate_right(1);
        Ok(())
    }

    /// The calls whose time is over.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Waiter> {
        let is_over = |waiter: &Waiter| waiter.until.is_some_and(|until| now >= until);
        let (over, waiting): (Vec<_>, Vec<_>) = self.calls.drain(..).partition(is_over);
        self.calls = waiting.into();
        if self.calls.is_empty() {
            self.watch = None;
        }
        over
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.calls.iter().filter_map(|waiter| waiter.until).min()
    }

    pub(super) fn park(&mut self, accepted: Accepted) {
        self.parked.push_front(accepted);
    }

    /// A connection that was taken out of the queue before and that the thread's process may get.
    pub(super) fn parked(&mut self, thread: libc::pid_t) -> Option<Accepted> {
        if self.parked.is_empty() {
            return None;
        }
        let process = program::process_of(thread).ok();
        let at = self.parked.iter_mut().position(|one| one.is_for(process))?;
        self.parked.remove(at)
    }
}

fn watch(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the kernel has just made the descriptor.
    let set = unsafe {
        let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    let (add, fd) = (libc::EPOLL_CTL_ADD, socket.as_raw_fd());
    // SAFETY: the kernel reads one event.
    if unsafe { libc::epoll_ctl(set.as_raw_fd(), add, fd, &raw mut event) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::seccomp::Notification;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    fn waiter(thread: libc::pid_t, id: u64) -> Waiter {
        let call = Notification { id, thread, arch: 0, call: 0, args: [0; 6] };
        Waiter { trap: Trap::new(call, Memory::Absent), until: None }
    }

    #[test]
    fn a_thread_waits_once_however_often_it_was_interrupted() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut waiting = Waiting::default();
        for id in 0..100 {
            waiting.add(waiter(7, id), listener.as_fd()).unwrap();
        }
        waiting.add(waiter(8, 100), listener.as_fd()).unwrap();
        let ids: Vec<u64> = std::iter::from_fn(|| waiting.next()).map(|w| w.trap.id).collect();
        assert_eq!(ids, [99, 100]);
        assert!(waiting.watch().is_none(), "nobody waits");
    }

    #[test]
    fn a_watch_tells_of_connections_and_keeps_no_socket_open() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Waiting::default();
        waiting.add(waiter(7, 1), listener.as_fd()).unwrap();
        let ready = |waiting: &Waiting| {
            crate::socket::ready(waiting.watch().unwrap().as_fd(), libc::POLLIN) != 0
        };
        assert!(!ready(&waiting));
        let _client = TcpStream::connect(address).unwrap();
        assert!(ready(&waiting));
        drop(listener);
        assert!(!ready(&waiting));
        assert!(TcpStream::connect(address).is_err(), "nobody listens");
    }
}
