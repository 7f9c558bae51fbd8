//! The ring buffer in which the programs tell of events.

use super::Map;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: usize = 8;

/// The reading end of a ring buffer (`Documentation/bpf/ringbuf.rst`): one page with how far we are, one
/// page with how far the kernel is, and the data, twice in a row so that no event is cut.
#[derive(Debug)]
pub(crate) struct Ring {
    map: Map,
    consumer: *mut libc::c_void,
    producer: *mut libc::c_void,
    size: usize,
    page: usize,
}

impl Ring {
    /// Maps the buffer into this process.
    ///
    /// # Errors
    /// As `mmap` says.
    pub(crate) fn new(map: Map) -> io::Result<Self> {
        // SAFETY: a plain question.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let size = map.max_entries() as usize;
        let consumer = view(&map, 0, page, libc::PROT_READ | libc::PROT_WRITE)?;
        let producer = view(&map, page, page + 2 * size, libc::PROT_READ).inspect_err(|_| {
            // SAFETY: mapped above, and used by nobody.
            unsafe { libc::munmap(consumer, page) };
        })?;
        Ok(Self { map, consumer, producer, size, page })
    }

    /// Calls `take` with every event that is complete.
    pub(crate) fn read(&mut self, mut take: impl FnMut(&[u8])) {
        // SAFETY: both pages begin with such a number, which the kernel changes atomically, and live as
        // long as we do.
        let (ours, theirs) =
            unsafe { (&*self.consumer.cast::<AtomicU64>(), &*self.producer.cast::<AtomicU64>()) };
        let mut at = ours.load(Ordering::Relaxed);
        while at < theirs.load(Ordering::Acquire) {
            let start = self.page + (at as usize & (self.size - 1));
            // SAFETY: `start` is within the data, a multiple of eight.
            let header = unsafe { &*self.producer.byte_add(start).cast::<AtomicU32>() };
            let header = header.load(Ordering::Acquire);
            if header & BUSY != 0 {
                return;
            }
            let length = (header & !(BUSY | DISCARDED)) as usize;
            if header & DISCARDED == 0 {
                let from = self.producer.cast::<u8>();
                // SAFETY: the kernel has completed an event of this length here, and does not touch it before
                // we say that we have read it; the second mapping makes it contiguous.
                take(unsafe { std::slice::from_raw_parts(from.add(start + HEADER), length) });
            }
            at += (HEADER + length).next_multiple_of(8) as u64;
            ours.store(at, Ordering::Release);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped with these sizes; nothing borrowed of it is left.
        unsafe {
            libc::munmap(self.consumer, self.page);
            libc::munmap(self.producer, self.page + 2 * self.size);
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

fn view(map: &Map, from: usize, length: usize, access: i32) -> io::Result<*mut libc::c_void> {
    let (fd, offset) = (map.as_raw_fd(), from as libc::off_t);
    // SAFETY: a new mapping at a place of the kernel's choice.
    let at =
        unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, fd, offset) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at) }
}
