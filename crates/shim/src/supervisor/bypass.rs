//! Calls that go past the shim: of 32-bit and x32 programs, and io_uring, whose connects no filter sees. They are
//! counted, so that the report does not say that nothing was left.

use super::Supervisor;
use super::attempt::{Attempt, read_address};
use crate::address::{self, ProgramAddress};
use crate::filter::{Architecture, I386_SOCKETCALL};
use crate::memory::Memory;
use crate::seccomp::{Answer, Notification};
use crate::socket::{self, Kind};
use crate::table::Purpose;
use crate::trap::Trap;
use std::os::fd::{AsFd, RawFd};

/// The arguments of a connect by another calling convention.
pub(super) struct ForeignConnect {
    fd: RawFd,
    pub(super) address: u64,
    pub(super) length: u32,
}

impl ForeignConnect {
    /// What a call of another calling convention says; all of them are connects. `socketcall` has its arguments in
    /// memory.
    pub(super) fn read(call: &Notification, memory: &Memory) -> Option<Self> {
        let [first, second, third, ..] = call.args;
        if call.call != I386_SOCKETCALL {
            return Some(Self { fd: first as RawFd, address: second, length: third as u32 });
        }
        let word = |number: u64| memory.read_int(second + 4 * number).map(i32::cast_unsigned);
        let (fd, address, length) = (word(0).ok()?, word(1).ok()?, word(2).ok()?);
        Some(Self { fd: fd.cast_signed(), address: address.into(), length })
    }
}

/// Whether a call has other numbers than those of this machine's own programs.
pub(super) fn is_foreign(numbers: &Architecture, call: &Notification) -> bool {
    !numbers.is_native(call.arch, call.call)
}

impl Supervisor {
    /// A connect by another calling convention: the kernel's, unless a rule forbids plain TCP.
    pub(super) fn on_foreign_connect(&mut self, trap: &Trap) -> Answer {
        let Some(connect) = ForeignConnect::read(&trap.notification(), &trap.memory) else {
            return Answer::Continue;
        };
        let socket = self.descriptors.of(trap.thread, connect.fd);
        let kind = socket.and_then(|socket| socket::kind(socket.as_fd()));
        let ForeignConnect { address, length, .. } = connect;
        let attempt = Attempt { address, length, nonblocking: false, purpose: Purpose::Connect };
        match (kind, read_address(trap, &attempt)) {
            (Ok(Kind::Tcp { .. }), Ok(ProgramAddress::Ip(written))) => {
                let destination = address::unmapped(written);
                let unsuitable = address::unsuitable(destination, self.loopback_paths());
                self.leave_or_refuse(destination, unsuitable.unwrap_or("32-bit"))
            }
            _ => Answer::Continue,
        }
    }

    /// `io_uring_setup`: what the program does with it is not seen.
    pub(super) fn on_io_uring(&mut self) -> Answer {
        if self.hide_io_uring {
            self.report.io_uring_hidden += 1;
            return Answer::Error(libc::ENOSYS);
        }
        self.report.leave("io-uring");
        Answer::Continue
    }
}
