//! Whose process this is.

/// The effective user id of this process.
pub(crate) fn user() -> u32 {
    // SAFETY: takes nothing, always succeeds.
    unsafe { libc::geteuid() }
}

/// The effective group id of this process and its supplementary ones, which packet filters of the host may know it by.
#[must_use]
pub fn groups() -> Vec<u32> {
    let own = rustix::process::getegid();
    let others = rustix::process::getgroups().unwrap_or_default();
    std::iter::once(own).chain(others).map(rustix::process::Gid::as_raw).collect()
}
