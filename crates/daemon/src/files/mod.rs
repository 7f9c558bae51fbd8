//! Files that stacks of a host share, and the threads that write them (see [`jobs`]): another process may hold a file's
//! lock.

pub(crate) mod contacts;
pub(crate) mod peer_cache;
pub(crate) mod tickets;
pub(crate) mod usages;

use crate::jobs::{self, Offered};
use std::io;
use std::time::Duration;

/// How long the end of a stack waits for what is still to be written.
const MAX_END: Duration = Duration::from_secs(1);

/// A thread that writes. Dropping it lets it finish, and waits a moment for that.
#[derive(Debug)]
pub(crate) struct Writer<T>(jobs::Queue<T>);

impl<T: Send + 'static> Writer<T> {
    /// # Errors
    /// When there are no threads left.
    fn start(name: &str, limit: usize, work: impl FnMut(T) + Send + 'static) -> io::Result<Self> {
        jobs::worker(name, limit, work).map(Self)
    }

    /// Takes something to write; false when too much waits.
    pub(crate) fn take(&self, job: T) -> bool {
        self.0.offer(job) == Offered::Taken
    }

    /// The same by one that begins with the first thing to write.
    ///
    /// # Errors
    /// When it cannot begin.
    pub(crate) fn take_by(
        writer: &mut Option<Self>,
        start: impl FnOnce() -> io::Result<Self>,
        job: T,
    ) -> io::Result<bool> {
        if writer.is_none() {
            *writer = Some(start()?);
        }
        Ok(writer.as_ref().is_some_and(|writer| writer.take(job)))
    }
}

impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        self.0.finish(MAX_END);
    }
}
