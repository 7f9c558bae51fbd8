//! Jobs that a thread does beside the loop that moves data: neither a full disk, nor a lock that another process
//! holds, nor a file server that does not answer may stop that loop.
//!
//! The queue is bounded, and whoever offers a job never waits: what finds no room is refused. Jobs are done one at
//! a time, in the order in which they were taken, all of them unless the thread has ended. `tests/loom` checks
//! this for every order in which the threads can run.

use crate::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// The answer to a job that is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offered {
    /// It will be done.
    Taken,
    /// Too many wait.
    Full,
    /// The thread has ended.
    Gone,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    /// Jobs taken so far, and those of them that are done.
    taken: u64,
    done: u64,
    closed: bool,
    gone: bool,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    limit: usize,
}

/// Where jobs are offered; the thread ends when all copies are gone and everything is done.
#[derive(Debug)]
pub(crate) struct Queue<T>(Arc<Closer<T>>);

#[derive(Debug)]
struct Closer<T>(Arc<Shared<T>>);

/// The jobs, for the thread that does them: one that was handed out is done when the next one is asked for.
#[derive(Debug)]
pub(crate) struct Jobs<T> {
    shared: Arc<Shared<T>>,
    busy: bool,
}

/// A queue in which at most `limit` jobs wait.
pub(crate) fn queue<T>(limit: usize) -> (Queue<T>, Jobs<T>) {
    let waiting = VecDeque::with_capacity(limit);
    let state = State { waiting, taken: 0, done: 0, closed: false, gone: false };
    let (state, changed) = (Mutex::new(state), Condvar::new());
    let shared = Arc::new(Shared { state, changed, limit });
    let closer = Closer(Arc::clone(&shared));
    (Queue(Arc::new(closer)), Jobs { shared, busy: false })
}

/// A queue with a thread that does its jobs.
///
/// # Errors
/// When there are no threads left.
pub(crate) fn worker<T: Send + 'static>(
    name: &str,
    limit: usize,
    work: impl FnMut(T) + Send + 'static,
) -> io::Result<Queue<T>> {
    let (queue, jobs) = queue(limit);
    std::thread::Builder::new().name(name.to_owned()).spawn(move || jobs.for_each(work))?;
    Ok(queue)
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing here panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits for `condition`, at most so long.
    fn wait_until(&self, most: Duration, condition: impl Fn(&State<T>) -> bool) {
        let until = Instant::now() + most;
        let mut state = self.lock();
        while !condition(&state) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<T> Queue<T> {
    fn shared(&self) -> &Shared<T> {
        &self.0.0
    }

    /// Offers a job, without waiting.
    pub(crate) fn offer(&self, job: T) -> Offered {
        let mut state = self.shared().lock();
        if state.gone {
            return Offered::Gone;
        }
        if state.waiting.len() >= self.shared().limit {
            return Offered::Full;
        }
        state.waiting.push_back(job);
        state.taken += 1;
        drop(state);
        self.shared().changed.notify_all();
        Offered::Taken
    }

    /// Waits until every job that was taken before is done, or the thread has ended; at most so long.
    pub(crate) fn flush(&self, most: Duration) {
        let taken = self.shared().lock().taken;
        self.shared().wait_until(most, |state| state.done >= taken || state.gone);
    }

    /// Lets the thread do what waits and end, and waits for that, at most so long.
    pub(crate) fn finish(&self, most: Duration) {
        self.shared().change(|state| state.closed = true);
        self.shared().wait_until(most, |state| state.gone);
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Closer<T> {
    fn drop(&mut self) {
        self.0.change(|state| state.closed = true);
    }
}

impl<T> Iterator for Jobs<T> {
    type Item = T;

    /// The next job, as soon as there is one; none when there will be no more.
    fn next(&mut self) -> Option<T> {
        if std::mem::take(&mut self.busy) {
            self.shared.change(|state| state.done += 1);
        }
        let mut state = self.shared.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                self.busy = true;
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Drop for Jobs<T> {
    fn drop(&mut self) {
        self.shared.change(|state| state.gone = true);
    }
}
