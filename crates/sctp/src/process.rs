//! The one stack of a process: begun with its first SCTP socket, left behind by a fork, ended with it.

use crate::lock::Lock;
use crate::stack::{Shared, State, running, set_running};
use crate::{descriptor, heirs, inherited};
use manypath_sockets::Errno;
use std::sync::Once;
use std::time::{Duration, Instant};

static STARTING: Lock<()> = Lock::new(());
static HANDLERS: Once = Once::new();
/// How long the end of the process waits for the thread, which has nothing more to do.
const LAST_TURN: Duration = Duration::from_millis(500);

/// A socket listens: where no peer finds it, that is said.
pub(crate) fn say_if_hidden() {
    if let Some(stack) = running() {
        stack.say_if_hidden();
    }
}

/// The stack, which is started if there is none.
///
/// # Errors
/// `EPROTONOSUPPORT`, as from a kernel without SCTP; why is written to the standard error.
pub(crate) fn start() -> Result<&'static Shared, Errno> {
    let _one_at_a_time = STARTING.lock();
    if let Some(running) = running() {
        return Ok(running);
    }
    let started = Shared::start().map_err(|error| {
        eprintln!("manypath: no SCTP: {error}");
        Errno(libc::EPROTONOSUPPORT)
    })?;
    set_running(Some(started));
    HANDLERS.call_once(|| {
        // SAFETY: the handlers are functions without arguments that live as long as the library, which is
        // never unloaded.
        unsafe {
            libc::pthread_atfork(Some(heirs::prepare), Some(heirs::in_parent), Some(in_child));
            libc::atexit(at_exit);
        }
    });
    Ok(started)
}

/// In the child of a fork there is no thread that keeps the stack going: it is forgotten, with whatever
/// locks other threads had. A new one is started for new sockets.
extern "C" fn in_child() {
    set_running(None);
    descriptor::note_fork();
    inherited::end();
    heirs::in_child();
}

/// What was sent is delivered, as a kernel would do it after the end of the process.
extern "C" fn at_exit() {
    let Some(stack) = running() else { return };
    stack.with(|state| {
        let (sockets, mut host) = state.parts();
        sockets.close_all(&mut host);
    });
    let until = Instant::now() + Duration::from_millis(stack.settings.linger);
    wait_until(stack, until, |state| !state.has_associations());
    stack.end_thread();
    wait_until(stack, Instant::now() + LAST_TURN, State::has_ended);
}

/// Waits until something is the case, or it is too late.
pub(crate) fn wait_until(
    stack: &'static Shared,
    until: Instant,
    mut is_so: impl FnMut(&State) -> bool,
) {
    let mut state = stack.lock();
    while !is_so(&state) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        // Not everything that matters here is a change of a socket.
        let step = left.min(Duration::from_millis(20));
        state.wait(step);
    }
}
