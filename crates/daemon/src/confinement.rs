//! A stack of root gives up the rights of root.

use crate::config::{Encapsulation, StackConfig};
use crate::keeper::Keeper;
use crate::log;
use crate::stack::Stack;
use manypath_control::status::SandboxStatus;
use manypath_sandbox::{CapabilitySet, Limits, confine, unprivileged_user};
use std::path::Path;
use tracing::warn;

/// Families of the sockets that a stack opens while it works: those of paths, of services and programs, and
/// to hear of the host's addresses. Its control sockets come from its [`Keeper`].
const FAMILIES: &[i32] = &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// The kernel's tables of sockets, in which a stack looks for listeners.
const READABLE: &str = "/proc";

impl Stack {
    /// Gives up the rights of root for good, as far as this host allows. To be called before the stack runs
    /// and before the process has other threads, and with a [`Keeper`] for what needs those rights later.
    pub fn confine(&mut self) {
        if Keeper::current().is_none() {
            return;
        }
        manypath_rules::open_through(|path| match Keeper::current() {
            Some(keeper) => keeper.open(path),
            None => manypath_rules::open_kept_file(path),
        });
        manypath_net::enlarge_buffers_through(|socket| {
            Keeper::current().is_some_and(|keeper| keeper.enlarge_buffers(socket))
        });
        let user = unprivileged_user();
        let readable: &[&Path] = &[Path::new(READABLE)];
        let capabilities = needed(&self.base.core.config);
        let limits = Limits { user, capabilities, families: FAMILIES, readable: Some(readable) };
        let mut confinement = confine(&limits);
        if user.is_none() {
            confinement.missing.push("user: there is no manypath, and no free id".to_owned());
        }
        if !confinement.missing.is_empty() {
            let missing = confinement.missing.join("; ");
            warn!(target: log::STACK, "cannot drop all rights of root on this host: {missing}");
        }
        self.confinement = Some(confinement);
    }

    pub(crate) fn sandbox_status(&self) -> SandboxStatus {
        let Some(confinement) = &self.confinement else {
            return SandboxStatus { user: manypath_sandbox::user(), ..SandboxStatus::default() };
        };
        let capabilities = confinement.capabilities.iter_names();
        SandboxStatus {
            user: confinement.user,
            capabilities: capabilities.map(|(name, _)| format!("CAP_{name}")).collect(),
            no_new_privileges: confinement.no_new_privileges,
            seccomp: confinement.seccomp,
            landlock: confinement.landlock,
            missing: confinement.missing.clone(),
        }
    }
}

/// Capabilities for the sockets of addresses that come later.
fn needed(config: &StackConfig) -> CapabilitySet {
    match (config.encapsulation, config.udp_port) {
        (Encapsulation::Native, _) => CapabilitySet::NET_RAW,
        (Encapsulation::Udp, 1..1024) => CapabilitySet::NET_BIND_SERVICE,
        (Encapsulation::Udp, _) if config.second_port().is_some() => {
            CapabilitySet::NET_BIND_SERVICE
        }
        (Encapsulation::Udp, _) => CapabilitySet::empty(),
    }
}
