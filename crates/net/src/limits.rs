//! The process's limit of open files.

use std::io;

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

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_is_what_the_system_allows() {
        let raised = super::raise_descriptor_limit().unwrap();
        assert!(raised >= 256);
        assert_eq!(super::raise_descriptor_limit().unwrap(), raised);
    }
}
