//! Children of a fork that use sockets which this process has opened.
//!
//! ```text
//! child: recv(sd) ─▶ inherited.rs ─▶ line (a pair of sockets of the kernel) ─▶ a thread of the parent ─▶ its stack
//!                                                                          ◀─ what comes of it
//! ```
//!
//! A child that forks asks for a line for its own child. A socket stays open while one of them may use it, whatever the
//! parent closes: until the child has closed it, has executed another program or has ended, which ends its line.

use crate::descriptor::set_owned;
use crate::inherited;
use crate::line::{read_request, write_answer};
use crate::lock::Guard;
use crate::request::{Request, peer_name};
use crate::stack::{Shared, SignalMask, State, running};
use crate::system;
use manypath_sockets::{Errno, SocketId};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long a fork waits for other threads that use sockets. One in a handler of a signal may wait for itself.
const PATIENCE: Duration = Duration::from_millis(200);

/// What a child is given.
struct Fork {
    childs: UnixStream,
    sockets: BTreeMap<RawFd, SocketId>,
    from: Owner,
}

/// Who has the sockets.
enum Owner {
    /// This process, and nothing changes during the fork.
    Here(UnixStream, Guard<State>),
    /// Its parent, or that one's, which knows of the child's line already.
    Before,
}

thread_local! {
    /// Of the fork that this thread is about to make.
    static FORK: Cell<Option<Fork>> = const { Cell::new(None) };
}

/// Before the fork.
pub(crate) extern "C" fn prepare() {
    FORK.set(match running() {
        Some(stack) => fork_of(stack),
        None => fork_of_heir(),
    });
}

fn fork_of(stack: &'static Shared) -> Option<Fork> {
    let state = stack.lock_within(PATIENCE)?;
    let sockets = state.descriptors.clone();
    if sockets.is_empty() {
        return None;
    }
    let (parents, childs) = UnixStream::pair().ok()?;
    Some(Fork { childs, sockets, from: Owner::Here(parents, state) })
}

/// The fork of a process that has sockets of its parent.
fn fork_of_heir() -> Option<Fork> {
    let (parents, childs) = UnixStream::pair().ok()?;
    let sockets = inherited::fork(&parents)?;
    Some(Fork { childs, sockets, from: Owner::Before })
}

/// After it, in the process that was there before.
pub(crate) extern "C" fn in_parent() {
    let (Some(fork), Some(stack)) = (FORK.take(), running()) else { return };
    let Fork { sockets, from: Owner::Here(parents, state), childs: _ } = fork else { return };
    let held: BTreeSet<SocketId> = sockets.into_values().collect();
    take_in(stack, state, parents, held);
}

/// A child may use these sockets, and says over its line how.
fn take_in(
    stack: &'static Shared,
    mut state: Guard<State>,
    parents: UnixStream,
    held: BTreeSet<SocketId>,
) {
    held.iter().for_each(|id| *state.holders.entry(*id).or_default() += 1);
    let line = parents.as_raw_fd();
    state.lines.insert(line);
    drop(state);
    let mask = SignalMask::block_all();
    let kept = held.clone();
    let thread = std::thread::Builder::new().name("manypath-heir".into());
    let started = thread.spawn(move || serve(stack, parents, held));
    drop(mask);
    if started.is_err() {
        stack.with(|state| {
            state.lines.remove(&line);
            kept.iter().for_each(|id| state.release(*id));
        });
    }
}

/// After it, in the child, whose stack is forgotten with all locks. It closes what would keep it from hearing of the end of its
/// parent.
pub(crate) fn in_child() {
    let Some(Fork { childs, sockets, from }) = FORK.take() else { return };
    if let Owner::Here(parents, state) = from {
        let signals = state.signals.values().flat_map(|signal| signal.own());
        for fd in signals.chain(state.lines.iter().copied()) {
            let _gone = system::close(fd);
        }
        std::mem::forget(state);
        drop(parents);
    }
    inherited::begin(childs, sockets);
}

fn serve(stack: &'static Shared, mut line: UnixStream, mut held: BTreeSet<SocketId>) {
    while let Ok((id, request)) = read_request(&mut line) {
        let done = perform(stack, &line, &mut held, (SocketId(id), request));
        let passed = done.as_ref().ok().and_then(|done| done.1);
        let told = write_answer(&mut line, done.map(|done| done.0));
        let over = line.as_raw_fd();
        if told.is_err() || passed.is_some_and(|fd| system::send_descriptor(over, fd).is_err()) {
            break;
        }
    }
    held.into_iter().for_each(|id| stack.with(|state| state.release(id)));
    // No fork may find it closed, and its number another file's.
    stack.with(|state| {
        state.lines.remove(&line.as_raw_fd());
        drop(line);
    });
}

/// What comes of a request, and the descriptor that goes with it.
type Done = (Vec<u8>, Option<RawFd>);

fn perform(
    stack: &'static Shared,
    line: &UnixStream,
    held: &mut BTreeSet<SocketId>,
    (id, request): (SocketId, Request),
) -> Result<Done, Errno> {
    if request == Request::Fork {
        let childs = system::receive_descriptor(line.as_raw_fd())?;
        take_in(stack, stack.lock(), UnixStream::from(childs), held.clone());
        return Ok((Vec::new(), None));
    }
    if !held.contains(&id) {
        return Err(Errno::BADF);
    }
    if let Request::Accept(flags) = request {
        let (new, fd, peer) = stack.with(|state| state.accept_for_child(id, flags))?;
        held.insert(new);
        return Ok(([&new.0.to_ne_bytes()[..], &peer].concat(), Some(fd)));
    }
    if request == Request::Close {
        held.remove(&id);
        stack.with(|state| state.release(id));
        return Ok((Vec::new(), None));
    }
    let done = stack.with(|state| {
        state.open_for(&request);
        let (sockets, mut host) = state.parts();
        request.perform(sockets, &mut host, id)
    });
    done.map(|bytes| (bytes, None))
}

impl State {
    /// The next association of a listening socket as a socket of a child: which, a descriptor to pass on, and the address of
    /// its peer.
    fn accept_for_child(
        &mut self,
        id: SocketId,
        flags: i32,
    ) -> Result<(SocketId, RawFd, Vec<u8>), Errno> {
        let new = self.sockets.accept(id)?;
        let fd = self.describe(new, flags)?;
        self.descriptors.remove(&fd);
        set_owned(fd, false)?;
        if let Some(signal) = self.signals.get_mut(&new) {
            signal.give_away();
        }
        self.holders.insert(new, 1);
        let (sockets, host) = self.parts();
        Ok((new, fd, peer_name(sockets, &host, new).unwrap_or_default()))
    }

    /// A child does not use it any more. If nobody does, it is closed.
    fn release(&mut self, id: SocketId) {
        let Some(count) = self.holders.get_mut(&id) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        self.holders.remove(&id);
        if self.signals.get(&id).is_some_and(|signal| signal.fds.is_empty()) {
            self.signals.remove(&id);
            let (sockets, mut host) = self.parts();
            let _gone = sockets.close(&mut host, id);
        }
    }
}
