//! eBPF as the kernel offers it: `bpf(2)`, no more of it than is needed here.
//!
//! A library for this (aya) brings 24 crates and a minute of compiling; what is used of it would be
//! these calls, and the reading of one object that this project makes itself.

mod maps;
mod object;
mod programs;
mod query;
mod ring;

pub(crate) use maps::Map;
pub(crate) use programs::{Links, Programs, Purpose};
pub(crate) use query::{CONNECT4, GETPEERNAME4, attached};
pub(crate) use ring::Ring;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_MAP_GET_NEXT_KEY: libc::c_int = 4;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_QUERY: libc::c_int = 16;
const BPF_BTF_LOAD: libc::c_int = 18;
const BPF_LINK_CREATE: libc::c_int = 28;

/// A structure of `union bpf_attr`: integers only, without gaps that are not named.
trait Attributes {}

fn bpf<T: Attributes>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_long> {
    let size = std::mem::size_of::<T>();
    // SAFETY: the attributes are valid for their size; what they point to outlives the call, as
    // every caller in this module holds it by a reference.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A call that makes a descriptor.
fn bpf_open<T: Attributes>(command: libc::c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)? as RawFd;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An address as the kernel takes it.
fn address<T: ?Sized>(of: &T) -> u64 {
    std::ptr::from_ref(of).cast::<u8>().expose_provenance() as u64
}
