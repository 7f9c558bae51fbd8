//! The queue of jobs that threads of the stack do, run in every order in which its threads can run.
#![cfg(all(test, loom))]

#[path = "../../../crates/daemon/src/jobs.rs"]
mod jobs;

/// Loom's in the place of the standard library's.
mod sync {
    pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
}

use jobs::{Offered, Queue, queue};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::time::Duration;

/// Loom's waits have no end in time: a test that hangs fails as a deadlock.
const LONG: Duration = Duration::from_secs(3600);

fn taken(queue: &Queue<u8>, jobs: &[u8]) -> Vec<u8> {
    let taken = |job: &&u8| queue.offer(**job) == Offered::Taken;
    jobs.iter().filter(taken).copied().collect()
}

/// A queue for two jobs, and a thread that counts those that are done.
fn counting() -> (Queue<u8>, Arc<AtomicUsize>, thread::JoinHandle<()>) {
    let (queue, jobs) = queue(2);
    let done = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&done);
    let work = move || jobs.for_each(|_| drop(count.fetch_add(1, Ordering::Relaxed)));
    (queue, done, thread::spawn(work))
}

#[test]
fn what_is_taken_is_done_once_and_in_order_and_the_rest_is_refused() {
    loom::model(|| {
        let (queue, jobs) = queue::<u8>(1);
        let worker = thread::spawn(move || jobs.collect::<Vec<u8>>());
        let other = queue.clone();
        let second = thread::spawn(move || taken(&other, &[11]));
        let first = taken(&queue, &[1, 2]);
        drop(queue);
        let second = second.join().unwrap();
        let done = worker.join().unwrap();
        let of = |from: u8| done.iter().copied().filter(|job| job / 10 == from).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (first, second));
        assert!(!done.is_empty());
    });
}

#[test]
fn a_flush_returns_when_everything_that_was_taken_before_is_done() {
    loom::model(|| {
        let (queue, done, worker) = counting();
        let other = queue.clone();
        let second = thread::spawn(move || drop(other.offer(2)));
        assert_eq!(queue.offer(1), Offered::Taken);
        queue.flush(LONG);
        assert!(done.load(Ordering::Relaxed) >= 1);
        second.join().unwrap();
        drop(queue);
        worker.join().unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn the_end_waits_for_what_was_taken() {
    loom::model(|| {
        let (queue, done, worker) = counting();
        let taken = taken(&queue, &[1, 2, 3]);
        queue.finish(LONG);
        assert_eq!(done.load(Ordering::Relaxed), taken.len());
        assert_eq!(queue.offer(4), Offered::Gone);
        worker.join().unwrap();
    });
}

#[test]
fn nobody_waits_for_a_thread_that_has_ended() {
    loom::model(|| {
        let (queue, mut jobs) = queue::<u8>(2);
        let worker = thread::spawn(move || drop(jobs.next()));
        let _ = taken(&queue, &[1, 2]);
        queue.flush(LONG);
        worker.join().unwrap();
        assert_eq!(queue.offer(3), Offered::Gone);
    });
}
