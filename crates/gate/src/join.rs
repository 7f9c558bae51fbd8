//! The last step of a connect, once its destination has accepted: a far end of ours is connected to the socket that
//! waits at the gate, and goes to the stack.
//!
//! ```text
//! begin ──▶ Connecting ── connected ──▶ Joined
//!   ▲           │  └────── no port yet ──┐
//!   │           └─ any other error ──▶ GivenUp ◀── too many tries
//!   └─ due ── Delayed ◀── no port yet ───┘
//! ```
//!
//! It neither waits nor asks the kernel: launchers and redirectors tell it what has become of the far end, and what
//! time it is.

use crate::socket;
use socket2::Socket;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The kernel forgets a loopback connection of the same ports within a second.
const RETRY: Duration = Duration::from_millis(100);
const MAX_TRIES: u32 = 20;

/// A far end on its way to the socket at the gate.
#[derive(PartialEq, Eq, Debug)]
pub enum Join<S = Socket> {
    /// It is being connected.
    Connecting {
        /// The end.
        far: S,
        /// How often that was tried before.
        tries: u32,
    },
    /// The kernel must first forget an earlier connection of these ports.
    Delayed {
        /// When to begin again.
        until: Instant,
        /// How often that was tried.
        tries: u32,
    },
}

/// What has become of it.
#[derive(PartialEq, Eq, Debug)]
pub enum Step<S = Socket> {
    /// Nothing yet.
    Wait(Join<S>),
    /// The far end is connected.
    Joined(S),
    /// Most likely the program has closed its socket. If it has not, it must hear something.
    GivenUp,
}

impl<S> Join<S> {
    /// A far end was opened, or not, after so many tries. `outcome` tells of one whether it is connected, which is 0, or
    /// what went wrong; nothing while it is under way.
    pub fn begin(
        opened: io::Result<S>,
        tries: u32,
        outcome: impl FnOnce(&S) -> Option<i32>,
        now: Instant,
    ) -> Step<S> {
        match opened {
            Ok(far) => Self::Connecting { far, tries }.go_on(outcome, now),
            Err(error) => Self::failed(error.raw_os_error().unwrap_or(0), tries, now),
        }
    }

    /// Looks at the far end again.
    pub fn go_on(self, outcome: impl FnOnce(&S) -> Option<i32>, now: Instant) -> Step<S> {
        let Self::Connecting { far, tries } = self else { return Step::Wait(self) };
        match outcome(&far) {
            None => Step::Wait(Self::Connecting { far, tries }),
            Some(0) => Step::Joined(far),
            Some(errno) => Self::failed(errno, tries, now),
        }
    }

    fn failed(errno: i32, tries: u32, now: Instant) -> Step<S> {
        match errno == libc::EADDRNOTAVAIL && tries < MAX_TRIES {
            true => Step::Wait(Self::Delayed { until: now + RETRY, tries: tries + 1 }),
            false => Step::GivenUp,
        }
    }
}

/// What the kernel says of a far end, for [`Join`].
#[must_use]
pub fn outcome(far: &Socket) -> Option<i32> {
    match socket::ready(far.as_fd(), libc::POLLOUT) {
        0 => None,
        libc::POLLOUT => Some(0),
        _ => Some(socket::take_error(far.as_fd())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<S>(errno: i32) -> io::Result<S> {
        Err(io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn a_far_end_is_joined_when_the_kernel_says_so() {
        let now = Instant::now();
        let Step::Wait(join) = Join::begin(Ok("far"), 0, |_| None, now) else { panic!() };
        assert_eq!(join, Join::Connecting { far: "far", tries: 0 });
        assert_eq!(join.go_on(|_| Some(0), now), Step::Joined("far"));
        assert_eq!(Join::begin(Ok("far"), 0, |_| Some(0), now), Step::Joined("far"));
    }

    #[test]
    fn ports_that_the_kernel_still_knows_are_tried_again_for_two_seconds() {
        let (mut now, mut tries) = (Instant::now(), 0);
        let begun = now;
        while let Step::Wait(Join::<()>::Delayed { until, tries: more }) =
            Join::begin(refused(libc::EADDRNOTAVAIL), tries, |_| None, now)
        {
            assert_eq!(Join::<()>::Delayed { until, tries }.go_on(|_| Some(0), now), {
                Step::Wait(Join::Delayed { until, tries })
            });
            (now, tries) = (until, more);
        }
        assert_eq!(now - begun, RETRY * MAX_TRIES);
        // The kernel may notice only after the far end has begun.
        let late = |tries| Join::begin(Ok(()), tries, |()| Some(libc::EADDRNOTAVAIL), now);
        assert_eq!(late(1), Step::Wait(Join::Delayed { until: now + RETRY, tries: 2 }));
        assert_eq!(late(MAX_TRIES), Step::GivenUp);
    }

    #[test]
    fn a_program_that_has_closed_its_socket_is_given_up() {
        let now = Instant::now();
        assert_eq!(Join::<()>::begin(refused(libc::ECONNREFUSED), 0, |_| None, now), Step::GivenUp);
        assert_eq!(Join::begin(Ok(()), 0, |()| Some(libc::ECONNRESET), now), Step::GivenUp);
    }
}
