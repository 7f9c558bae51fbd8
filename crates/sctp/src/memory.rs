//! The memory of C programs: what pointers stand for, checked as far as that can be.

use libc::{c_int, c_void, iovec, msghdr, sockaddr, socklen_t};
use manypath_sockets::{Control, Errno, address};
use std::net::SocketAddr;

/// The bytes that a program gives.
///
/// # Safety
/// `len` bytes can be read at `at`, unless it is null, as long as the result is used.
pub(crate) unsafe fn bytes<'a>(at: *const c_void, len: usize) -> Result<&'a [u8], Errno> {
    if len == 0 {
        return Ok(&[]);
    }
    if at.is_null() {
        return Err(Errno::FAULT);
    }
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
    if to.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller promises it; memory of the program does not overlap with ours.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), len) };
    Ok(())
}

/// Reads a value, which need not be aligned.
///
/// # Safety
/// A `T` can be read at `at`, unless it is null.
pub(crate) unsafe fn value<T: Copy>(at: *const T) -> Result<T, Errno> {
    if at.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller promises it.
    Ok(unsafe { at.read_unaligned() })
}

/// Writes a value where the program wants one.
///
/// # Safety
/// A `T` can be written at `to`, unless it is null.
pub(crate) unsafe fn set<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller promises it.
        unsafe { to.write_unaligned(value) };
    }
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
    if count > 0 && at.is_null() {
        return Err(Errno::FAULT);
    }
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller promises it.
    Ok(unsafe { std::slice::from_raw_parts(at, count) })
}

/// What a vector holds.
///
/// # Safety
/// Every part points to as many bytes as it says.
pub(crate) unsafe fn gather(parts: &[iovec]) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::with_capacity(room(parts));
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
