//! The egress policy of this host, where it tells programs apart. A stack of root's has another user than the
//! programs, and programs can go to another cgroup: what they could not send themselves is left to the kernel.
//!
//! Without root the stack has the user and the rights of the programs, and nothing is asked.

use super::Supervisor;
use crate::socket;
use manypath_gate::egress::{ANY_PORT, Flow, Identity, Protocol, unspecified};
use manypath_gate::group;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;

impl Supervisor {
    /// Whether a thread's socket could send to the destination itself.
    pub(super) fn check_egress(
        &mut self,
        thread: libc::pid_t,
        socket: BorrowedFd<'_>,
        protocol: Protocol,
        destination: SocketAddr,
    ) -> Result<(), &'static str> {
        let Some(egress) = &mut self.egress else { return Ok(()) };
        let any = SocketAddr::new(unspecified(destination.ip()), 0);
        let own = socket::local(socket).unwrap_or(any);
        // A UDP socket that was connected to loopback keeps that address, from where nothing leaves the host.
        let fits = own.is_ipv4() == destination.is_ipv4() && !own.ip().is_loopback();
        let source = if fits { own } else { any };
        let source = match source.port() {
            0 => SocketAddr::new(source.ip(), ANY_PORT),
            _ => source,
        };
        let flow = Flow::new(protocol, source, destination);
        match identity(thread, socket).and_then(|who| egress.permits(&who, &flow)) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err("egress-policy"),
        }
    }
}

/// The inode of a socket belongs to whom the socket was made by. Its cgroup is told of connected sockets only; that
/// of the thread takes its place.
fn identity(thread: libc::pid_t, socket: BorrowedFd<'_>) -> io::Result<Identity> {
    let (user, group) = socket::owner(socket)?;
    let who = Identity::new(user, group);
    let cgroup = group::of(&thread.to_string());
    match cgroup.filter(|cgroup| group::of("self").as_ref() != Some(cgroup)) {
        None => Ok(who),
        Some(cgroup) => {
            let folder = group::mount()?.join(cgroup);
            let inode = fs::metadata(&folder)?.ino();
            Ok(who.in_group(folder, inode))
        }
    }
}
