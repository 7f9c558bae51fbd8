//! A lock of the C library's, with a condition beside it.
//!
//! The standard library's works in ways of its own; this one is known to the tools that look for races in C
//! programs (helgrind, DRD), so that they see what is guarded.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// A value that one thread at a time has. It must stay where it is once it has been locked.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    changed: UnsafeCell<libc::pthread_cond_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex sees to it that one thread at a time gets at the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            changed: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            value: UnsafeCell::new(value),
        }
    }

    pub(crate) fn lock(&'static self) -> Guard<T> {
        // SAFETY: it is initialised, and never moved: it is borrowed for ever. A mutex of this kind fails only
        // where its memory is damaged.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        Guard(self)
    }

    /// The same, unless that takes longer than so long.
    pub(crate) fn lock_within(&'static self, most: Duration) -> Option<Guard<T>> {
        let until = after(most);
        // SAFETY: as in `lock`; the time is read.
        let locked = unsafe { libc::pthread_mutex_timedlock(self.mutex.get(), &raw const until) };
        (locked == 0).then_some(Guard(self))
    }

    /// Wakes all who wait.
    pub(crate) fn notify_all(&self) {
        // SAFETY: it is initialised.
        unsafe { libc::pthread_cond_broadcast(self.changed.get()) };
    }
}

/// The value, until this is dropped.
#[derive(Debug)]
pub(crate) struct Guard<T: 'static>(&'static Lock<T>);

impl<T> Guard<T> {
    /// Lets others have the value until somebody notifies, or for so long; sometimes shorter.
    #[expect(clippy::needless_pass_by_ref_mut, reason = "others have the value meanwhile")]
    pub(crate) fn wait(&mut self, most: Duration) {
        let until = after(most);
        let (changed, mutex) = (self.0.changed.get(), self.0.mutex.get());
        // SAFETY: both are initialised, and this thread has the mutex.
        unsafe { libc::pthread_cond_timedwait(changed, mutex, &raw const until) };
    }
}

/// The time so long after now.
fn after(time: Duration) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the C library writes the time to where there is room for it.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
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
            SUM.notify_all();
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
}
