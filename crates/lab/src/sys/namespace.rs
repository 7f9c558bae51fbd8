//! Making and entering namespaces.

use super::check;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Puts the calling process into new namespaces of the kinds in `flags` (CLONE_NEW*).
pub(crate) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: unshare() touches no memory of ours.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Enters the namespace behind `fd`.
pub(crate) fn enter(fd: BorrowedFd<'_>, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: setns() touches no memory of ours.
    check(unsafe { libc::setns(fd.as_raw_fd(), kind) }).map(drop)
}

/// Stops mounts of this namespace from spreading to the one it was copied from.
pub(crate) fn detach_mounts() -> io::Result<()> {
    mount(c"none", c"/", libc::MS_REC | libc::MS_SLAVE)
}

/// Shows the file `from` at the place of `to`.
pub(crate) fn bind_mount(from: &CStr, to: &CStr) -> io::Result<()> {
    mount(from, to, libc::MS_BIND)
}

pub(crate) fn set_hostname(name: &[u8]) -> io::Result<()> {
    // SAFETY: `name` is valid for its length.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }).map(drop)
}

fn mount(from: &CStr, to: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: both paths are valid C strings; type and data may be null for these flags.
    let result = unsafe {
        libc::mount(from.as_ptr(), to.as_ptr(), std::ptr::null(), flags, std::ptr::null())
    };
    check(result).map(drop)
}

/// Capabilities that programs keep over exec inside a user namespace, where they do not run as its
/// root: CAP_NET_BIND_SERVICE, CAP_NET_ADMIN and CAP_NET_RAW.
const KEPT_CAPABILITIES: [u32; 3] = [10, 12, 13];

/// Makes [`KEPT_CAPABILITIES`] of the calling process ambient.
pub(crate) fn keep_capabilities() -> io::Result<()> {
    let mut header = CapHeader { version: 0x2008_0522, pid: 0 };
    let mut sets = [CapSets::default(); 2];
    let header = &raw mut header;
    // SAFETY: header and sets are the structures of version 3 of the interface.
    check(unsafe { libc::syscall(libc::SYS_capget, header, sets.as_mut_ptr()) } as libc::c_int)?;
    for capability in KEPT_CAPABILITIES {
        sets[0].inheritable |= 1 << capability;
    }
    // SAFETY: as above.
    check(unsafe { libc::syscall(libc::SYS_capset, header, sets.as_ptr()) } as libc::c_int)?;
    for capability in KEPT_CAPABILITIES {
        // SAFETY: this prctl takes numbers only.
        check(unsafe {
            libc::prctl(
                libc::PR_CAP_AMBIENT,
                libc::PR_CAP_AMBIENT_RAISE,
                libc::c_ulong::from(capability),
                0,
                0,
            )
        })?;
    }
    Ok(())
}

#[repr(C)]
struct CapHeader {
    version: u32,
    pid: libc::c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapSets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}
