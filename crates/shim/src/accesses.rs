//! Access to memory of programs of other users, each in a thread of its own: it may take for ever.
//!
//! A user who lets many accesses wait waits only for them: each has a share of the threads.

use crate::memory::{Copies, Memory, Source, Writes};
use crate::seccomp::{Answer, NotGiven, Place};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Threads of one user's programs at a time. A thread of a program is in one call at most, so what waits
/// beyond is bounded by the threads that there are.
const MAX_THREADS_OF_USER: usize = 16;

/// Reads all that a call names.
pub(crate) type ReadAll = Box<dyn FnOnce(&Memory) + Send>;

/// Something that is done with a program's memory.
pub(crate) struct Access {
    pub(crate) source: Source,
    pub(crate) what: What,
}

/// What is done.
pub(crate) enum What {
    Read(ReadAll),
    /// Writes, then answers; `EFAULT` takes the place of the answer when it cannot be written.
    Answer(Writes, Answer),
    /// Writes, then gives the program a descriptor as the answer.
    Give(Writes, OwnedFd, Place),
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("source", &self.source).finish_non_exhaustive()
    }
}

/// What came of an access, by the notification's identity.
#[derive(Debug)]
pub(crate) enum Done {
    /// What the call names.
    Read(u64, Copies),
    /// It was answered, or nobody waits any more.
    Answered(u64),
    /// The descriptor was not taken, with the reason; whoever waits has not been answered.
    NotGiven { id: u64, why: NotGiven, socket: OwnedFd },
}

/// The threads that are at work, and what waits for one.
#[derive(Debug)]
pub(crate) struct Accesses {
    users: RefCell<BTreeMap<Option<u32>, User>>,
    sender: Sender<(Option<u32>, Done)>,
    done: Receiver<(Option<u32>, Done)>,
    /// A byte comes for each that is done.
    news: UnixStream,
    tell: UnixStream,
}

#[derive(Debug, Default)]
struct User {
    threads: usize,
    waiting: VecDeque<Access>,
}

impl Accesses {
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        let (news, tell) = UnixStream::pair()?;
        news.set_nonblocking(true)?;
        // A byte that finds no room is not needed: there are others.
        tell.set_nonblocking(true)?;
        let (sender, done) = channel();
        Ok(Self { users: RefCell::default(), sender, done, news, tell })
    }

    /// Begins an access, or lets it wait until another one of the same user is done.
    pub(crate) fn begin(&self, access: Access) {
        let mut users = self.users.borrow_mut();
        let user = users.entry(access.source.user).or_default();
        user.waiting.push_back(access);
        self.start_waiting(user);
    }

    /// What has been done since the last time.
    pub(crate) fn take_done(&self) -> Vec<Done> {
        let mut bytes = [0; 256];
        while matches!((&self.news).read(&mut bytes), Ok(count) if count > 0) {}
        let done: Vec<(Option<u32>, Done)> = self.done.try_iter().collect();
        let mut users = self.users.borrow_mut();
        for (id, _) in &done {
            if let Some(user) = users.get_mut(id) {
                user.threads -= 1;
                self.start_waiting(user);
            }
        }
        users.retain(|_, user| user.threads > 0 || !user.waiting.is_empty());
        done.into_iter().map(|(_, done)| done).collect()
    }

    /// Whether any access has begun that is not done yet.
    pub(crate) fn is_at_work(&self) -> bool {
        self.users.borrow().values().any(|user| user.threads > 0)
    }

    fn start_waiting(&self, user: &mut User) {
        while user.threads < MAX_THREADS_OF_USER
            && let Some(access) = user.waiting.pop_front()
        {
            user.threads += 1;
            self.start(access);
        }
    }

    fn start(&self, access: Access) {
        let (user, id) = (access.source.user, access.source.id);
        let (sender, tell) = (self.sender.clone(), self.tell.try_clone());
        let work = move || {
            let done = access.run();
            // Nobody listens when the launcher ends.
            let _ = sender.send((user, done));
            if let Ok(mut tell) = tell {
                let _ = tell.write_all(&[0]);
            }
        };
        if thread::Builder::new().name("memory".to_owned()).spawn(work).is_err() {
            // As if nothing could be read; a call that was to be answered goes on in the kernel.
            let _ = self.sender.send((user, Done::Read(id, Copies::default())));
            let _ = (&self.tell).write_all(&[0]);
        }
    }
}

impl AsRawFd for Accesses {
    fn as_raw_fd(&self) -> RawFd {
        self.news.as_raw_fd()
    }
}

impl Access {
    fn run(self) -> Done {
        let Self { source, what, .. } = self;
        match what {
            What::Read(read_all) => {
                let memory = source.open().map_or(Memory::Absent, Memory::copying);
                read_all(&memory);
                Done::Read(source.id, memory.into_copies())
            }
            What::Answer(writes, answer) => {
                let answer = match write(&source, &writes) {
                    Ok(()) => answer,
                    Err(_) => Answer::Error(libc::EFAULT),
                };
                source.listener.answer(source.id, answer);
                Done::Answered(source.id)
            }
            What::Give(writes, socket, place) => match write(&source, &writes) {
                Ok(()) => give(&source, socket, place),
                Err(_) => {
                    // The kernel too has taken the connection by now, and drops it.
                    source.listener.answer(source.id, Answer::Error(libc::EFAULT));
                    Done::Answered(source.id)
                }
            },
        }
    }
}

fn give(source: &Source, socket: OwnedFd, place: Place) -> Done {
    let id = source.id;
    match source.listener.give(id, socket.as_fd(), place) {
        Ok(()) => Done::Answered(id),
        Err(why) => Done::NotGiven { id, why, socket },
    }
}

fn write(source: &Source, writes: &Writes) -> io::Result<()> {
    let memory = Memory::direct(source.clone());
    writes.iter().try_for_each(|(address, bytes)| memory.write(*address, bytes))
}
