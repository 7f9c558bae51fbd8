//! A stack of root gives up the rights of root.

use super::Stack;
use crate::config::{Encapsulation, FIRST_FREE_PORT, StackConfig};
use crate::keeper::{Keeper, Kept};
use crate::keys::KeyFiles;
use crate::log::{self, LogTo};
use manypath_control::runtime;
use manypath_control::status::SandboxStatus;
use manypath_rules::Sources;
use manypath_sandbox::{CapabilitySet, Confinement, Limits, confine, unprivileged_user};
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

impl Kept {
    /// What a stack with this configuration needs.
    #[must_use]
    pub fn for_stack(config: &StackConfig, log: &LogTo) -> Self {
        let rules = config.rules.as_ref().map(|file| file.sources());
        let settings = config.settings.as_ref().map(|file| file.sources());
        let paths = config.paths.as_ref().map(|file| file.sources());
        let files = [rules, settings, paths].into_iter().flatten().flat_map(Sources::places);
        let files = files.chain(config.keys.iter().flat_map(KeyFiles::read_again)).collect();
        let known = config.keys.as_ref().map(|keys| keys.known_peers.path().to_owned());
        let log = match log {
            LogTo::File(path) => Some(path.clone()),
            LogTo::Stderr | LogTo::Journal => None,
        };
        let peers = config.peer_memory.as_ref().map(|cache| cache.path().to_owned());
        let (sockets, budgets) = (sockets(config), config.budgets.clone());
        Self { files, sockets, peers, budgets, known_peers: known, log }
    }
}

/// The names that [`ControlServer`](crate::control_server::ControlServer) gives itself.
fn sockets(config: &StackConfig) -> Vec<PathBuf> {
    let Some(directory) = &config.process.runtime_dir else { return Vec::new() };
    let namespace = runtime::network_namespace().ok();
    let door = |at| Some(runtime::loop_door_path(directory, namespace?, config.udp_port, at));
    let own = |at| runtime::loop_path(directory, std::process::id(), at);
    let of_loops = (0..config.loops()).flat_map(|at| [Some(own(at)), door(at)]);
    of_loops
        .chain([config.process.shared.clone(), config.process.programs.clone()])
        .flatten()
        .collect()
}

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
        let config = &self.base.core.config;
        let readable = readable(self.clients.doors.is_open() || config.may_resolve_names());
        let readable: Vec<&Path> = readable.iter().map(PathBuf::as_path).collect();
        let capabilities = needed(config);
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
}

/// The kernel's tables of sockets, and what says who knows the names of hosts, if the stack has to look some up.
fn readable(resolves: bool) -> Vec<PathBuf> {
    let mut readable = vec![PathBuf::from(TABLES)];
    if resolves {
        // Folders: a file that is replaced when the network changes must be found again.
        readable.push(PathBuf::from(NAMES));
        let file = std::fs::canonicalize(Path::new(NAMES).join("resolv.conf"));
        let folder = file.ok().and_then(|file| file.parent().map(Path::to_owned));
        readable.extend(folder.filter(|folder| folder.parent().is_some()));
        readable.extend(LIBRARIES.map(PathBuf::from).into_iter().filter(|path| path.exists()));
    }
    readable
}

/// What the stack may do to its host, for people.
pub(super) fn status(confinement: Option<&Confinement>) -> SandboxStatus {
    let Some(confinement) = confinement else {
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
