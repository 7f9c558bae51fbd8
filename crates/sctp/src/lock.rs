//! A lock of the C library's, with a condition beside it.
//!
//! The standard library's works in ways of its own; this one is known to the tools that look for races in C
//! programs (helgrind, DRD), so that they see what is guarded.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::thread;
use std::time::{Duration, Instant};

/// How often a lock is tried that is not to be waited for without end.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// A value that one thread at a time has. It must stay where it is once it has been locked.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    changed: UnsafeCell<libc::pthread_cond_t>,
    /// Whether `changed` uses the monotonic clock. A constant initialiser cannot select it: the first waiter
    /// does, holding the mutex.
    monotonic: UnsafeCell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex sees to it that one thread at a time gets at the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            changed: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            monotonic: UnsafeCell::new(false),
            value: UnsafeCell::new(value),
        }
    }

    pub(crate) fn lock(&'static self) -> Guard<T> {
        // SAFETY: it is initialised, and never moved: it is borrowed for ever. A mutex of this kind fails only
        // where its memory is damaged.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        Guard(self)
    }

    /// Locks, or returns `None` after `most`. Polls, because `pthread_mutex_timedlock` uses the time of day,
    /// which may be set meanwhile.
    pub(crate) fn lock_within(&'static self, most: Duration) -> Option<Guard<T>> {
        let until = Instant::now() + most;
        loop {
            // SAFETY: as in `lock`.
            if unsafe { libc::pthread_mutex_trylock(self.mutex.get()) } == 0 {
                return Some(Guard(self));
            }
            if Instant::now() >= until {
                return None;
            }
            thread::sleep(TRY_AGAIN);
        }
    }
}

/// The value, until this is dropped.
#[derive(Debug)]
pub(crate) struct Guard<T: 'static>(&'static Lock<T>);

impl<T> Guard<T> {
    /// Lets others have the value until somebody notifies, or for so long; sometimes shorter.
    #[expect(clippy::needless_pass_by_ref_mut, reason = "others have the value meanwhile")]
    pub(crate) fn wait(&mut self, most: Duration) {
        self.go_by_monotonic_clock();
        let until = after(most);
        let (changed, mutex) = (self.0.changed.get(), self.0.mutex.get());
        // SAFETY: both are initialised, and this thread has the mutex.
        unsafe { libc::pthread_cond_timedwait(changed, mutex, &raw const until) };
    }

    /// Wakes all who wait.
    pub(crate) fn notify_all(&self) {
        // SAFETY: this thread has the mutex, and so the flag. It is set before anybody waits.
        unsafe {
            if *self.0.monotonic.get() {
                libc::pthread_cond_broadcast(self.0.changed.get());
            }
        }
    }

    fn go_by_monotonic_clock(&self) {
        let (monotonic, changed) = (self.0.monotonic.get(), self.0.changed.get());
        // SAFETY: this thread has the mutex, and nobody has waited yet when the condition is made anew. None of
        // these calls fails with these arguments.
        unsafe {
            if *monotonic {
                return;
            }
            let mut how = MaybeUninit::uninit();
            libc::pthread_condattr_init(how.as_mut_ptr());
            libc::pthread_condattr_setclock(how.as_mut_ptr(), libc::CLOCK_MONOTONIC);
            libc::pthread_cond_init(changed, how.as_ptr());
            libc::pthread_condattr_destroy(how.as_mut_ptr());
            *monotonic = true;
        }
    }
}

/// The time so long after now, by the clock that nobody sets.
fn after(time: Duration) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the C library writes the time to where there is room for it.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let nanos = now.tv_nsec + i64::from(time.subsec_nanos());
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX / 2);
    libc::timespec {
        tv_sec: now.tv_sec.saturating_add(seconds) + nanos / 1_000_000_000,
        tv_nsec: nanos % 1_000_000_000,
    }
}

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has the mutex.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the mutex, and lends the value once at a time.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<T> {
    fn drop(&mut self) {
        // SAFETY: this thread has the mutex.
        unsafe { libc::pthread_mutex_unlock(self.0.mutex.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_the_value_one_after_the_other_and_hear_of_its_changes() {
        static SUM: Lock<u64> = Lock::new(0);
        let add = || {
            for _ in 0..10_000 {
                *SUM.lock() += 1;
            }
            SUM.lock().notify_all();
        };
        let threads = [0; 4].map(|_| std::thread::spawn(add));
        let mut sum = SUM.lock();
        while *sum < 40_000 {
            sum.wait(Duration::from_secs(10));
        }
        drop(sum);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*SUM.lock(), 40_000);
    }

    #[test]
    fn a_wait_ends_in_time_by_the_clock_that_nobody_sets() {
        static LOCK: Lock<()> = Lock::new(());
        let short = Duration::from_millis(30);
        let (begun, mut held) = (Instant::now(), LOCK.lock());
        // A condition by the time of day would take this end for one of long ago, and return at once.
        held.wait(short);
        assert!(begun.elapsed() >= short);
        let other = std::thread::spawn(move || {
            let begun = Instant::now();
            LOCK.lock_within(short).is_none() && begun.elapsed() >= short
        });
        assert!(other.join().unwrap(), "the lock is held");
        drop(held);
        assert!(LOCK.lock_within(short).is_some());
    }
}
