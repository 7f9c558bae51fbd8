//! The memory of C programs: what pointers stand for, checked as far as that can be.
//!
//! A kernel answers pointers that lead nowhere by EFAULT. It is asked here as well: `process_vm_readv` and
//! `process_vm_writev` on the own process fail where a copy would be the end of the program. Where they are forbidden
//! (seccomp) pointers are trusted.

use libc::{c_int, c_void, iovec, msghdr, sockaddr, socklen_t};
use manypath_sockets::{Control, Errno, address};
use std::net::SocketAddr;

/// The least size of a page.
const PAGE: usize = 4096;

fn vector(at: *const u8, len: usize) -> iovec {
    iovec { iov_base: at.cast_mut().cast(), iov_len: len }
}

/// Whether the memory can be read: a byte of each of its pages.
fn check(at: *const u8, len: usize) -> Result<(), Errno> {
    probe(at, len, |own, pages| {
        let count = pages.len() as u64;
        // SAFETY: the kernel writes to bytes of ours, and checks all that it reads.
        unsafe {
            libc::process_vm_readv(libc::getpid(), own.as_ptr(), count, pages.as_ptr(), count, 0)
        }
    })
}

/// Copies `len` bytes to the program.
///
/// # Safety
/// They can be read at `from`, and written at `to` where the kernel cannot tell whether they can.
unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> Result<(), Errno> {
    probe(to, len, |own, pages| {
        let count = pages.len() as u64;
        for (one, page) in own.iter_mut().zip(pages) {
            // SAFETY: it is that far within what is copied.
            one.iov_base = unsafe { from.add(page.iov_base.addr() - to.addr()) }.cast_mut().cast();
        }
        // SAFETY: the caller promises the one, and the kernel checks the other.
        unsafe {
            libc::process_vm_writev(libc::getpid(), own.as_ptr(), count, pages.as_ptr(), count, 0)
        }
    })?;
    // SAFETY: the caller promises it; memory of the program does not overlap with ours.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    Ok(())
}

/// Lets the kernel move a byte between each of the pages and memory of ours.
fn probe(
    at: *const u8,
    len: usize,
    transfer: impl Fn(&mut [iovec], &[iovec]) -> libc::ssize_t,
) -> Result<(), Errno> {
    const MOST: usize = 64;
    if at.is_null() {
        return Err(Errno::FAULT);
    }
    let last = at.addr().checked_add(len.saturating_sub(1)).ok_or(Errno::FAULT)?;
    let mut next = Some(at.addr());
    while next.is_some_and(|next| next <= last) {
        let (mut seen, mut pages) = ([0_u8; MOST], [vector(at, 0); MOST]);
        let mut own = pages;
        let mut count = 0;
        while let Some(address) = next.filter(|next| *next <= last && count < MOST) {
            pages[count] = vector(at.with_addr(address), 1);
            own[count] = vector(&raw mut seen[count], 1);
            count += 1;
            next = (address & !(PAGE - 1)).checked_add(PAGE);
        }
        let moved = transfer(&mut own[..count], &pages[..count]);
        let fault = || std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT);
        if usize::try_from(moved).map_or_else(|_| fault(), |moved| moved < count) {
            return Err(Errno::FAULT);
        }
    }
    Ok(())
}

/// The bytes that a program gives.
///
/// # Safety
/// `len` bytes can be read at `at`, unless it is null, as long as the result is used.
pub(crate) unsafe fn bytes<'a>(at: *const c_void, len: usize) -> Result<&'a [u8], Errno> {
    if len == 0 {
        return Ok(&[]);
    }
    check(at.cast(), len)?;
    // SAFETY: the caller promises it.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), len) })
}

/// Copies bytes to the program: as many as there is room for.
///
/// # Safety
/// `room` bytes can be written at `to`, unless it is null.
pub(crate) unsafe fn fill(to: *mut c_void, room: usize, from: &[u8]) -> Result<(), Errno> {
    let len = room.min(from.len());
    if len == 0 {
        return Ok(());
    }
    // SAFETY: the caller promises it.
    unsafe { copy(to.cast(), from.as_ptr(), len) }
}

/// Reads a value, which need not be aligned.
///
/// # Safety
/// A `T` can be read at `at`, unless it is null.
pub(crate) unsafe fn value<T: Copy>(at: *const T) -> Result<T, Errno> {
    check(at.cast(), size_of::<T>())?;
    // SAFETY: the caller promises it.
    Ok(unsafe { at.read_unaligned() })
}

/// Reads a value that may be left out, which null says.
///
/// # Safety
/// As for [`value`].
pub(crate) unsafe fn optional<T: Copy>(at: *const T) -> Result<Option<T>, Errno> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises it.
    unsafe { value(at) }.map(Some)
}

/// Writes a value where the program wants one, if it can be written there.
///
/// # Safety
/// A `T` can be written at `to`, unless it is null.
pub(crate) unsafe fn set<T>(to: *mut T, value: T) {
    // SAFETY: the caller promises it, and the value is there.
    let _left_alone = unsafe { copy(to.cast(), (&raw const value).cast(), size_of::<T>()) };
}

/// An address; none if there is no pointer.
///
/// # Safety
/// `len` bytes can be read at `at`, unless it is null.
pub(crate) unsafe fn peer(
    at: *const sockaddr,
    len: socklen_t,
) -> Result<Option<SocketAddr>, Errno> {
    if at.is_null() || len == 0 {
        return Ok(None);
    }
    // SAFETY: the caller promises it.
    let bytes = unsafe { bytes(at.cast(), len as usize) }?;
    address::decode(bytes).map(Some).ok_or(Errno::INVALID)
}

/// Addresses that stand one after the other.
///
/// # Safety
/// `count` addresses of the length that their families say can be read at `at`, unless it is null.
pub(crate) unsafe fn addresses(
    at: *const sockaddr,
    count: c_int,
) -> Result<Vec<SocketAddr>, Errno> {
    let mut next: *const u8 = at.cast();
    let mut all = Vec::new();
    for _ in 0..count {
        // SAFETY: every address begins with its family, and has as many bytes as that says.
        let (one, len) = unsafe {
            let family = bytes(next.cast(), 2)?;
            let len = address::len(family).ok_or(Errno::INVALID)?;
            (bytes(next.cast(), len)?, len)
        };
        all.push(address::decode(one).ok_or(Errno::INVALID)?);
        // SAFETY: it stays within the array, or points to its end.
        next = unsafe { next.add(len) };
    }
    Ok(all)
}

/// Tells an address as `accept` and others do: as much as fits, and its whole length.
///
/// # Safety
/// `*len` bytes can be written at `to`, and `len` itself, unless they are null.
pub(crate) unsafe fn tell_address(
    to: *mut sockaddr,
    len: *mut socklen_t,
    bytes: &[u8],
) -> Result<(), Errno> {
    if to.is_null() || len.is_null() {
        return Ok(());
    }
    // SAFETY: the caller promises it.
    unsafe {
        let room = value(len)?;
        fill(to.cast(), room as usize, bytes)?;
        set(len, bytes.len() as socklen_t);
    }
    Ok(())
}

/// The parts of a vector.
///
/// # Safety
/// `count` parts can be read at `at`, unless it is null.
pub(crate) unsafe fn parts<'a>(at: *const iovec, count: usize) -> Result<&'a [iovec], Errno> {
    const MOST: usize = 1024;
    if count > MOST {
        return Err(Errno::MESSAGE_SIZE);
    }
    if count == 0 {
        return Ok(&[]);
    }
    check(at.cast(), count * size_of::<iovec>())?;
    // SAFETY: the caller promises it.
    Ok(unsafe { std::slice::from_raw_parts(at, count) })
}

/// What a vector holds.
///
/// # Safety
/// Every part points to as many bytes as it says.
pub(crate) unsafe fn gather(parts: &[iovec]) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::new();
    for part in parts {
        // SAFETY: the caller promises it.
        all.extend_from_slice(unsafe { bytes(part.iov_base, part.iov_len) }?);
    }
    Ok(all)
}

/// How much a vector can hold.
pub(crate) fn room(parts: &[iovec]) -> usize {
    parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len))
}

/// Spreads bytes over a vector.
///
/// # Safety
/// Every part points to as many bytes as it says.
pub(crate) unsafe fn scatter(parts: &[iovec], mut from: &[u8]) -> Result<(), Errno> {
    for part in parts {
        let (now, later) = from.split_at(part.iov_len.min(from.len()));
        // SAFETY: the caller promises it.
        unsafe { fill(part.iov_base, part.iov_len, now) }?;
        from = later;
    }
    Ok(())
}

/// The control messages of SCTP with a message.
///
/// # Safety
/// As many bytes as it says can be read where the message has them.
pub(crate) unsafe fn controls(message: &msghdr) -> Result<Vec<Control>, Errno> {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    if message.msg_control.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the caller promises it.
    let mut rest = unsafe { bytes(message.msg_control, message.msg_controllen) }?;
    let mut all = Vec::new();
    while let Some(header) = rest.get(..HEADER) {
        let len = usize::from_ne_bytes(header[..8].try_into().map_err(|_| Errno::INVALID)?);
        let number = |at: usize| header[at..at + 4].try_into().map(i32::from_ne_bytes);
        let level = number(8).map_err(|_| Errno::INVALID)?;
        let kind = number(12).map_err(|_| Errno::INVALID)?;
        let data = rest.get(HEADER..len).ok_or(Errno::INVALID)?;
        if level == libc::IPPROTO_SCTP {
            all.push(Control { kind, data: data.to_vec() });
        }
        rest = rest.get(len.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_leaves_a_value_out_and_an_unreadable_pointer_is_an_error() {
        let (here, nowhere) = (7_u32, std::ptr::without_provenance::<u32>(64));
        // SAFETY: the kernel tells which of them can be read.
        unsafe {
            assert_eq!(optional(&raw const here), Ok(Some(7)));
            assert_eq!(optional::<u32>(std::ptr::null()), Ok(None));
            assert_eq!(optional(nowhere), Err(Errno::FAULT));
        }
    }
}
