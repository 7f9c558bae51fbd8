//! The egress policy of this host, where it tells programs apart. A stack of root's has another user than the
//! programs, and programs can go to another cgroup: what they could not send themselves is left to the kernel.
//!
//! Without root the stack has the user and the rights of the programs, and nothing is asked.

use super::Supervisor;
use crate::program::{self, About, LastThread};
use crate::socket;
use manypath_gate::egress::{ANY_PORT, Egress, Flow, Identity, Protocol, unspecified};
use manypath_gate::group::{self, Member};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::process;

/// Asks for programs, whose cgroups it follows.
#[derive(Debug)]
pub(super) struct EgressPolicy {
    egress: Egress,
    own: Option<Member>,
    itself: LastThread,
    /// The thread that was looked at last: one makes most calls of a program.
    last: Option<(libc::pid_t, Member)>,
}

impl EgressPolicy {
    /// As [`Egress::new`].
    pub(super) fn new() -> Option<Self> {
        let (egress, own) = (Egress::new()?, Member::open("self").ok());
        let policy = Self { egress, own, itself: LastThread::default(), last: None };
        // Opened before the first connect.
        policy.own_number();
        Some(policy)
    }

    /// As [`Egress::is_routed`].
    pub(super) const fn is_routed(&self) -> bool {
        self.egress.is_routed()
    }

    /// The inode of a socket belongs to whom the socket was made by, but its owner may give it another one of its
    /// groups, which packet filters do not see. So that of the thread is asked about, too.
    fn permits(
        &mut self,
        thread: libc::pid_t,
        about: Option<About>,
        socket: BorrowedFd<'_>,
        flow: &Flow,
    ) -> io::Result<bool> {
        let (user, group) = socket::owner(socket)?;
        let own = about.map_or_else(|| program::gid_of(thread), |about| Ok(about.group))?;
        for group in [Some(group), (own != group).then_some(own)].into_iter().flatten() {
            let who = self.in_group(Identity::new(user, group), thread, about)?;
            if !self.egress.permits(&who, flow)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The cgroup of a socket is told of connected ones only; that of the thread takes its place.
    fn in_group(
        &mut self,
        who: Identity,
        thread: libc::pid_t,
        about: Option<About>,
    ) -> io::Result<Identity> {
        if about.is_some_and(|about| self.own_number() == Some(about.cgroup)) {
            return Ok(who);
        }
        let cgroup = self.group_of(thread);
        match cgroup.filter(|cgroup| self.own_group().as_ref() != Some(cgroup)) {
            None => Ok(who),
            Some(cgroup) => {
                let folder = group::mount()?.join(cgroup);
                let inode = fs::metadata(&folder)?.ino();
                Ok(who.in_group(folder, inode))
            }
        }
    }

    fn group_of(&mut self, thread: libc::pid_t) -> Option<String> {
        if let Some((_, member)) = self.last.as_ref().filter(|(known, _)| *known == thread)
            && let Ok(group) = member.group()
        {
            return group;
        }
        let member = Member::open(&thread.to_string()).ok()?;
        self.last.insert((thread, member)).1.group().ok()?
    }

    /// The number of the cgroup of this process.
    fn own_number(&self) -> Option<u64> {
        self.itself.about(process::id().cast_signed()).map(|about| about.cgroup)
    }

    fn own_group(&mut self) -> Option<String> {
        // A fork goes on with another number.
        if let Some(Ok(group)) = self.own.as_ref().map(Member::group) {
            return group;
        }
        self.own.insert(Member::open("self").ok()?).group().ok()?
    }
}

impl Supervisor {
    /// Whether a thread's socket could send to the destination itself.
    pub(super) fn check_egress(
        &mut self,
        thread: libc::pid_t,
        (socket, own): (BorrowedFd<'_>, SocketAddr),
        protocol: Protocol,
        destination: SocketAddr,
    ) -> Result<(), &'static str> {
        let Some(egress) = &mut self.egress else { return Ok(()) };
        let any = SocketAddr::new(unspecified(destination.ip()), 0);
        // A UDP socket that was connected to loopback keeps that address, from where nothing leaves the host.
        let fits = own.is_ipv4() == destination.is_ipv4() && !own.ip().is_loopback();
        let source = if fits { own } else { any };
        let source = match source.port() {
            0 => SocketAddr::new(source.ip(), ANY_PORT),
            _ => source,
        };
        let flow = Flow::new(protocol, source, destination);
        match egress.permits(thread, self.descriptors.about(thread), socket, &flow) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err("egress-policy"),
        }
    }
}
