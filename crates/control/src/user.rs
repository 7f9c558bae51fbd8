//! Whose process this is.

/// The effective user id of this process.
pub(crate) fn user() -> u32 {
    // SAFETY: takes nothing, always succeeds.
    unsafe { libc::geteuid() }
}
