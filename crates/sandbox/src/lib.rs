//! Takes from a process of root what it does not need, for good: user, capabilities, system calls, files.
//!
//! A process that parses packets of strangers calls [`confine`] when its sockets are open and before it
//! reads the first packet. Each measure is independent of the others. One that this host does not allow is
//! reported, and the process goes on without it.
//!
//! All of this concerns the calling thread and the threads that it starts later, so it comes before the
//! first of them.

mod landlock_rules;
mod seccomp;
mod user;

pub use rustix::thread::CapabilitySet;
pub use user::{User, unprivileged_user};

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
use rustix::thread::{self, CapabilitySets};
use std::io;
use std::path::Path;

/// The user id of this process.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// What a process keeps.
#[derive(Debug, Clone)]
pub struct Limits<'a> {
    /// The user that it becomes; itself when absent.
    pub user: Option<User>,
    /// Capabilities.
    pub capabilities: CapabilitySet,
    /// Address families of sockets that it may open, as `AF_*`.
    pub families: &'a [i32],
    /// Directories below which it may read files. Where absent, the file system is not limited beyond the
    /// rights of its user.
    pub readable: Option<&'a [&'a Path]>,
}

/// What is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// The user id.
    pub user: u32,
    /// Capabilities that the process still has.
    pub capabilities: CapabilitySet,
    /// It can gain no privileges by starting programs.
    pub no_new_privileges: bool,
    /// System calls that it does not need are refused.
    pub seccomp: bool,
    /// Files that it does not need are out of its reach.
    pub landlock: bool,
    /// Measures that could not be taken, each with the reason.
    pub missing: Vec<String>,
}

/// Puts the calling process under these limits, as far as this host allows.
#[must_use]
pub fn confine(limits: &Limits<'_>) -> Confinement {
    let mut missing = Vec::new();
    let mut take = |measure: &str, done: io::Result<()>| {
        missing.extend(done.as_ref().err().map(|error| format!("{measure}: {error}")));
        done.is_ok()
    };
    take("capability bounding set", limit_bounding_set(limits.capabilities));
    take("user", limits.user.map_or(Ok(()), change_user));
    take("capabilities", limit_capabilities(limits.capabilities));
    let no_new_privileges =
        take("no_new_privs", thread::set_no_new_privs(true).map_err(Into::into));
    // Other processes of the same user must not trace this one.
    take("not dumpable", set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Into::into));
    let landlock =
        limits.readable.map(|readable| take("Landlock", landlock_rules::limit(readable)));
    let seccomp = take("seccomp", seccomp::install(limits.families));
    Confinement {
        user: user(),
        capabilities: thread::capabilities(None)
            .map_or(CapabilitySet::empty(), |sets| sets.permitted),
        no_new_privileges,
        seccomp,
        landlock: landlock == Some(true),
        missing,
    }
}

/// What programs that the process starts could have at most.
fn limit_bounding_set(kept: CapabilitySet) -> io::Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if kept.contains(capability) {
            continue;
        }
        match thread::capability_is_in_bounding_set(capability) {
            Ok(true) => thread::remove_capability_from_bounding_set(capability)?,
            Ok(false) => {}
            // The kernel knows no more.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Becomes another user and keeps the capabilities, which are limited afterwards.
fn change_user(user: User) -> io::Result<()> {
    let User { uid, gid } = user;
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    let old = rustix::process::getegid();
    thread::set_keep_capabilities(true)?;
    let groups = rustix::process::getgroups()?;
    thread::set_thread_groups(&[])?;
    thread::set_thread_res_gid(gid, gid, gid)?;
    thread::set_thread_res_uid(uid, uid, uid).inspect_err(|_| {
        // Half of it would be no use.
        let _ = thread::set_thread_res_gid(old, old, old);
        let _ = thread::set_thread_groups(&groups);
    })?;
    Ok(thread::set_keep_capabilities(false)?)
}

fn limit_capabilities(kept: CapabilitySet) -> io::Result<()> {
    let kept = kept & thread::capabilities(None)?.permitted;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(thread::set_capabilities(None, sets)?)
}

#[cfg(test)]
mod tests;
