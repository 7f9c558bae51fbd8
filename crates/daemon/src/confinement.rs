//! A stack of root gives up the rights of root.

use crate::config::{Encapsulation, FIRST_FREE_PORT, StackConfig};
use crate::keeper::Keeper;
use crate::log;
use crate::stack::Stack;
use manypath_control::status::SandboxStatus;
use manypath_sandbox::{CapabilitySet, Limits, confine, unprivileged_user};
use std::path::{Path, PathBuf};
use tracing::warn;

/// Families of the sockets that a stack opens while it works: those of paths, of services and programs, and
/// to hear of the host's addresses. Its control sockets come from its [`Keeper`].
const FAMILIES: &[i32] = &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// The kernel's tables of sockets, in which a stack looks for listeners.
const TABLES: &str = "/proc";
/// Where a system keeps who knows the names of hosts, and the libraries with which the C library asks them.
const NAMES: &str = "/etc";
const LIBRARIES: [&str; 4] = ["/usr/lib", "/usr/lib64", "/lib", "/lib64"];

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
        let readable = self.readable();
        let readable: Vec<&Path> = readable.iter().map(PathBuf::as_path).collect();
        let capabilities = needed(&self.base.core.config);
        let limits = Limits { user, capabilities, families: FAMILIES, readable: Some(&readable) };
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

    /// The kernel's tables of sockets, and what says who knows the names of hosts, if it has to look some up.
    fn readable(&self) -> Vec<PathBuf> {
        let mut readable = vec![PathBuf::from(TABLES)];
        if self.clients.doors.is_open() || self.base.core.config.may_resolve_names() {
            // Folders: a file that is replaced when the network changes must be found again.
            readable.push(PathBuf::from(NAMES));
            let file = std::fs::canonicalize(Path::new(NAMES).join("resolv.conf"));
            let folder = file.ok().and_then(|file| file.parent().map(Path::to_owned));
            readable.extend(folder.filter(|folder| folder.parent().is_some()));
            readable.extend(LIBRARIES.map(PathBuf::from).into_iter().filter(|path| path.exists()));
        }
        readable
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
        (Encapsulation::Udp, _) => {
            let carriers = config.carrying.carriers;
            let tcp = carriers.tcp_ports().chain(carriers.tls_ports()).filter(|_| config.accept);
            let mut ports = config.beside_ports().into_iter().chain(tcp);
            match ports.any(|port| port < FIRST_FREE_PORT) {
                true => CapabilitySet::NET_BIND_SERVICE,
                false => CapabilitySet::empty(),
            }
        }
    }
}
