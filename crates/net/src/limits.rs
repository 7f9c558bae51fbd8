//! The process's limits: open files, and memory that it keeps.

use std::io;

/// Bytes that are free at the end of the heap before they are given back.
#[cfg(target_env = "gnu")]
const KEPT_MEMORY: libc::c_int = 8 << 20;

/// Raises the number of descriptors that this process may have to the most that the system lets it
/// have, and returns that number. The usual 1024 is a few hundred connections for a relay.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit, which outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the kernel reads one initialised rlimit.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit.rlim_cur)
}

/// Bytes of memory that this machine has; none if the kernel does not say.
pub fn memory() -> u64 {
    // SAFETY: all zeroes is a valid sysinfo.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one sysinfo, which outlives the call.
    if unsafe { libc::sysinfo(&raw mut info) } != 0 {
        return 0;
    }
    info.totalram.saturating_mul(info.mem_unit.into())
}

/// Lets the allocator keep some memory that was freed. Each turn of a loop that moves bulk data takes memory
/// and frees it; by default the C library gives it back to the kernel and asks for it again each time,
/// and every page of it is cleared anew.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, bytes) in [
        (libc::M_TRIM_THRESHOLD, KEPT_MEMORY),
        (libc::M_TOP_PAD, KEPT_MEMORY / 8),
        // Setting the others keeps it from following the sizes that are freed.
        (libc::M_MMAP_THRESHOLD, KEPT_MEMORY / 8),
    ] {
        // SAFETY: mallopt changes parameters of the allocator, which it protects itself. If it refuses one,
        // the default stands.
        unsafe { libc::mallopt(parameter, bytes) };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_machine_has_memory() {
        assert!(super::memory() > 16 << 20);
    }

    #[test]
    fn the_limit_is_what_the_system_allows() {
        let raised = super::raise_descriptor_limit().unwrap();
        assert!(raised >= 256);
        assert_eq!(super::raise_descriptor_limit().unwrap(), raised);
    }
}
