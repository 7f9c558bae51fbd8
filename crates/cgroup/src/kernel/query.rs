//! What is at work on a cgroup, whoever has put it there.

use super::{Attributes, BPF_PROG_QUERY, bpf};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Where programs see IPv4 connects (`BPF_CGROUP_INET4_CONNECT`): each manypath that takes connects has one there.
pub(crate) const CONNECT4: u32 = 10;
/// Where programs tell names (`BPF_CGROUP_INET4_GETPEERNAME`): one that was taken over from has one there, too.
pub(crate) const GETPEERNAME4: u32 = 29;
/// `BPF_CGROUP_MAX_PROGS`.
const MOST: usize = 64;

#[repr(C)]
struct Query {
    target: u32,
    attach: u32,
    flags: u32,
    attach_flags: u32,
    programs: u64,
    count: u32,
    gap: u32,
}

impl Attributes for Query {}

/// Kernel numbers of the programs that are attached to this very cgroup at a place.
///
/// # Errors
/// `EPERM` without root; `EBADF` when the folder is not in a cgroup2 file system.
pub(crate) fn attached(group: &File, place: u32) -> io::Result<BTreeSet<u32>> {
    let mut numbers = [0_u32; MOST];
    let mut query = Query {
        target: group.as_raw_fd().cast_unsigned(),
        attach: place,
        flags: 0,
        attach_flags: 0,
        programs: std::ptr::from_mut(&mut numbers).expose_provenance() as u64,
        count: MOST as u32,
        gap: 0,
    };
    bpf(BPF_PROG_QUERY, &mut query)?;
    Ok(numbers.into_iter().take(query.count as usize).collect())
}
