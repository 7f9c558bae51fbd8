//! What is done, as it follows from what was found.

use super::obstacle::Obstacle;
use super::steps::Step;
use super::{Found, System, Tried};
use crate::seccomp::Servers;

/// What a launcher does on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// The program's calls are translated.
    Translate(Servers),
    /// The same, if programs hand over their sockets; otherwise they run as if there were no launcher.
    HandOver(Servers, Obstacle),
    /// An outer launcher serves the program.
    Nested,
    /// The program runs as if there were no launcher.
    Outside(Obstacle),
}

/// The first kernel with everything that clients need.
const CLIENTS: (u32, u32) = (5, 6);

impl Plan {
    /// What follows from what was found. What could not be asked is taken to work.
    pub(crate) fn choose(known: bool, found: &Found, system: &System) -> Self {
        if !known {
            return Self::Outside(Obstacle::Architecture);
        }
        if found.of(Step::Trap) == Tried::Refused(libc::EBUSY) {
            let is_launcher = found.of(Step::Outer) == Tried::Works;
            return if is_launcher { Self::Nested } else { Self::Outside(Obstacle::OtherListener) };
        }
        match (obstacle(&TRAPS, found, system), obstacle(&DESCRIPTORS, found, system)) {
            (Some(obstacle), _) => Self::Outside(obstacle),
            (None, None) => match out_of_reach(found, system) {
                Some(obstacle) => Self::Outside(obstacle),
                None => Self::Translate(servers(found)),
            },
            // Arguments and answers of calls are in the program's memory, which no library hands over.
            (None, Some(obstacle)) => match found.of(Step::Memory) {
                Tried::Works | Tried::Unknown => Self::HandOver(servers(found), obstacle),
                Tried::Refused(_) | Tried::Fatal | Tried::Unanswered => Self::Outside(obstacle),
            },
        }
    }
}

const fn is_missing(tried: Tried) -> bool {
    matches!(tried, Tried::Refused(_) | Tried::Fatal | Tried::Unanswered)
}

fn servers(found: &Found) -> Servers {
    if is_missing(found.of(Step::AddFd)) {
        Servers::Never
    } else if is_missing(found.of(Step::AddFdSend)) {
        Servers::TwoSteps
    } else {
        Servers::OneStep
    }
}

/// What traps need, and what copies of descriptors need, by the calls for it.
const TRAPS: [(Step, &str); 2] = [(Step::Trap, "seccomp"), (Step::Continue, "seccomp")];
const DESCRIPTORS: [(Step, &str); 2] = [(Step::Open, "pidfd_open"), (Step::GetFd, "pidfd_getfd")];

/// What keeps the calls from being made, if anything does.
fn obstacle(calls: &[(Step, &'static str)], found: &Found, system: &System) -> Option<Obstacle> {
    let missing = calls.iter().find(|(step, _)| is_missing(found.of(*step)));
    missing.map(|(step, call)| refused(found.of(*step), call, system))
}

/// Why a call is refused whatever its arguments are.
fn refused(tried: Tried, call: &'static str, system: &System) -> Obstacle {
    match (tried, system.kernel) {
        (Tried::Refused(libc::ENOSYS | libc::EINVAL), Some(kernel)) if kernel < CLIENTS => {
            Obstacle::OldKernel { needed: CLIENTS, kernel }
        }
        (Tried::Refused(libc::ENOSYS | libc::EINVAL), _) if call == "seccomp" => {
            Obstacle::WithoutSeccomp
        }
        (Tried::Refused(errno), _) => Obstacle::Forbidden { call, errno },
        (Tried::Unanswered, _) => Obstacle::Unanswered { call },
        (Tried::Unknown | Tried::Works | Tried::Fatal, _) => Obstacle::Fatal { call },
    }
}

/// Why processes below us are out of reach, if they are.
fn out_of_reach(found: &Found, system: &System) -> Option<Obstacle> {
    let reached = [found.of(Step::Copy), found.of(Step::Memory)];
    let errno = reached.into_iter().find_map(|tried| match tried {
        Tried::Refused(errno) => Some(errno),
        // The calls themselves are allowed: only whoever traces us keeps us waiting.
        Tried::Fatal | Tried::Unanswered => Some(libc::ETIMEDOUT),
        Tried::Works | Tried::Unknown => None,
    })?;
    Some(match system.yama {
        _ if !system.proc => Obstacle::WithoutProc,
        Some(scope @ 3..) => Obstacle::Yama { scope },
        Some(scope @ 2) if !system.may_trace => Obstacle::Yama { scope },
        _ => Obstacle::OutOfReach { errno },
    })
}
