//! What the calls of programs of other users name in their memory, copied before the calls are looked at.

use super::Supervisor;
use super::bypass::{ForeignConnect, is_foreign};
use super::datagrams::{MAX_MESSAGES, Message};
use super::send::gather;
use crate::accesses::{Access, Accesses, Done, What};
use crate::address::MAX_SOCKADDR;
use crate::filter::Architecture;
use crate::memory::{Memory, Source};
use crate::seccomp::{Answer, Notification};
use crate::trap::Trap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a fork waits for the threads, of which it has none.
const SETTLE: Duration = Duration::from_millis(100);

impl Supervisor {
    /// Looks at a call now, or when what it names has been copied.
    pub(super) fn handle_notification(&mut self, call: Notification) {
        if self.is_for_the_kernel(&call) {
            self.listener.answer(call.id, Answer::Continue);
            return;
        }
        let user = self.foreign_user(call.thread);
        let (id, thread) = (call.id, call.thread);
        let source = Source { listener: Arc::clone(&self.listener), id, thread, user };
        if user.is_none() || self.begin_accesses().is_err() {
            return self.handle_call(&Trap::new(call, Memory::direct(source)));
        }
        let numbers = self.numbers;
        let copy = What::Read(Box::new(move |memory| copy_named(&numbers, &call, memory)));
        self.copying.insert(id, (call, source.clone()));
        self.begin_access(source, copy);
    }

    /// The user of a program, if it is not our own. Only root gets at memory of others.
    fn foreign_user(&self, thread: libc::pid_t) -> Option<u32> {
        if self.user != 0 {
            return None;
        }
        // The owner of this folder is the effective user, also of a process that hides everything else.
        let folder = || fs::metadata(format!("/proc/{thread}")).ok();
        let about = self.descriptors.about(thread).map(|about| about.user);
        let owner = about.or_else(|| folder().map(|folder| folder.uid()))?;
        (owner != self.user).then_some(owner)
    }

    fn begin_accesses(&mut self) -> io::Result<()> {
        if self.accesses.is_none() {
            self.accesses = Some(Accesses::new()?);
        }
        Ok(())
    }

    pub(crate) fn begin_access(&self, source: Source, what: What) {
        if let Some(accesses) = &self.accesses {
            accesses.begin(Access { source, what });
        }
    }

    /// The descriptor that becomes readable when an access to a program's memory is complete; -1 before the first one.
    pub(crate) fn access_news(&self) -> RawFd {
        self.accesses.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    fn is_accessing(&self) -> bool {
        self.accesses.as_ref().is_some_and(Accesses::is_at_work)
    }

    /// Waits a moment until no thread is at work but those that a program keeps waiting.
    pub(crate) fn settle_accesses(&mut self) {
        let until = Instant::now() + SETTLE;
        while self.is_accessing() && Instant::now() < until {
            self.handle_accesses();
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Goes on with calls whose memory has been read or written.
    pub(crate) fn handle_accesses(&mut self) {
        let done = self.accesses.as_ref().map(Accesses::take_done);
        for done in done.into_iter().flatten() {
            match done {
                Done::Read(id, copies) => match self.copying.remove(&id) {
                    Some((call, source)) => {
                        self.handle_call(&Trap::new(call, Memory::copied(source, copies)));
                    }
                    // There was no thread to write what the call was to be told.
                    None => {
                        self.listener.answer(id, Answer::Continue);
                    }
                },
                Done::Answered(id) => self.accepts.on_given(id),
                Done::NotGiven { id, why, socket } => self.on_not_given(id, why, socket),
            }
        }
    }

    /// Answers a call, after what it is told has been written to its memory. False when its caller is known not
    /// to wait any more.
    pub(crate) fn answer(&self, trap: &Trap, answer: Answer) -> bool {
        let Some((source, writes)) = trap.memory.take_writes() else {
            return self.listener.answer(trap.id, answer);
        };
        self.begin_access(source, What::Answer(writes, answer));
        true
    }
}

/// Reads all that the handling of a call may ask for, as far as it can be read.
fn copy_named(numbers: &Architecture, call: &Notification, memory: &Memory) {
    let [_, first, second, third, fourth, fifth] = call.args;
    let int = |at: u64| drop(memory.read_int(at));
    if is_foreign(numbers, call) {
        if let Some(connect) = ForeignConnect::read(call, memory) {
            copy_bytes(memory, connect.address, connect.length.into());
        }
        return;
    }
    match call.call {
        call if call == numbers.connect => copy_bytes(memory, first, second),
        call if [numbers.getpeername, numbers.getsockname].contains(&call) => int(second),
        call if [numbers.accept, numbers.accept4].contains(&call) => int(second),
        call if call == numbers.getsockopt => int(fourth),
        call if call == numbers.setsockopt => int(third),
        call if call == numbers.sendto => {
            copy_bytes(memory, fourth, fifth);
            drop(gather(memory, &[(first, usize::try_from(second).unwrap_or(usize::MAX))]));
        }
        call if call == numbers.sendmsg => drop(copy_message(memory, first, true)),
        call if call == numbers.sendmmsg => copy_messages(memory, first, second),
        call if call == numbers.recvfrom => int(fifth),
        call if [numbers.recvmsg, numbers.recvmmsg].contains(&call) => {
            drop(copy_message(memory, first, false));
        }
        _ => {}
    }
}

/// An address, unless it is longer than addresses are.
fn copy_bytes(memory: &Memory, at: u64, length: u64) {
    let mut bytes = [0; MAX_SOCKADDR];
    // The kernel takes an int.
    if let Some(bytes) = bytes.get_mut(..length as u32 as usize) {
        drop(memory.read(at, bytes));
    }
}

fn copy_messages(memory: &Memory, at: u64, count: u64) {
    let size = std::mem::size_of::<libc::mmsghdr>() as u64;
    let count = (count & 0xffff_ffff).min(MAX_MESSAGES);
    let mut places = (0..count).map(|number| at + number * size);
    // The first one that cannot be read ends the call.
    let _ = places.try_for_each(|at| copy_message(memory, at, true));
}

fn copy_message(memory: &Memory, at: u64, sent: bool) -> io::Result<()> {
    let message = Message::read(memory, at)?;
    let header = &message.header;
    if sent {
        copy_bytes(memory, header.address, header.length.into());
        message.control(memory)?;
        gather(memory, &header.pieces)?;
    }
    Ok(())
}
