//! The egress policy of this host, where it tells programs apart: what a program could not send itself, the stack
//! does not send for it.
//!
//! A connect that has come to the gate cannot go back. One that the policy forbids is made as a TCP connection
//! of the program's own identity: it meets that policy as the program would have, and its failure is the program's.
//! Later ones to the same destination stay with the kernel for a while.

use super::Redirector;
use crate::connections::{Connection, Phase};
use crate::datagram::Datagram;
use crate::layout::Connecting;
use crate::owner::{Owner, Owners};
use crate::refusal::loopback;
use manypath_gate::egress::{ANY_PORT, Egress, Flow, Identity, Protocol};
use manypath_gate::gate::GateId;
use manypath_gate::socket;
use manypath_rules::Table;
use socket2::SockRef;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// How long a destination that the policy forbids is left to the kernel without asking again.
const DENIED: Duration = Duration::from_secs(10);
/// The same of the gate. To find out costs a connect, and filters of a cgroup rarely change.
const GATE_DENIED: Duration = Duration::from_secs(24 * 3600);
/// Most folders of cgroups that are remembered.
const MAX_FOLDERS: usize = 256;
/// Most TCP connections that meet the policy at a time.
const MAX_BARRED: usize = 512;

/// Asks for programs.
#[derive(Debug)]
pub(super) struct Judge {
    egress: Egress,
    owners: Owners,
    folders: BTreeMap<u64, PathBuf>,
    /// The table that is in force.
    pub(super) rules: Table,
}

/// What the policy says of a connect.
#[derive(Debug)]
pub(super) enum Verdict {
    Permitted,
    /// Of this identity; it must not be carried.
    Denied(Identity),
    /// Its route has gone since it began.
    Unrouted,
    /// It can neither be carried nor made as plain TCP.
    OutOfReach(i32),
    /// The program has closed the socket.
    Gone,
}

impl Judge {
    /// # Errors
    /// `EPERM` without CAP_NET_RAW.
    pub(super) fn new() -> io::Result<Self> {
        let denied = || io::Error::from_raw_os_error(libc::EPERM);
        let egress = Egress::new().ok_or_else(denied)?;
        Ok(Self {
            egress,
            owners: Owners::new()?,
            folders: BTreeMap::new(),
            rules: Table::default(),
        })
    }
}

impl Redirector {
    /// Whether a connect may be carried, and what is remembered of it.
    pub(super) fn judge(&mut self, of: &Connecting) -> Verdict {
        let gate = SocketAddr::new(loopback(of.own.ip()), of.gate);
        let owner = match self.judge.owners.of(of.own, gate) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Verdict::Gone,
            owner => owner,
        };
        let who = owner.and_then(|owner| self.identity(owner, of.actor.group()));
        let verdict = who.and_then(|who| {
            let egress = &mut self.judge.egress;
            let near = SocketAddr::new(of.own.ip(), ANY_PORT);
            if !egress.permits(&who, &Flow::new(Protocol::Tcp, near, gate))? {
                return Ok(Verdict::OutOfReach(libc::EHOSTUNREACH));
            }
            if is_unrouted(of.peer) {
                return Ok(Verdict::Unrouted);
            }
            let source = SocketAddr::new(of.source, of.own.port());
            let flow = Flow::new(Protocol::Tcp, source, of.peer);
            let permitted = egress.permits(&who, &flow)?;
            Ok(match permitted {
                true => Verdict::Permitted,
                // No SYN may tell the destination of it either.
                false if self.judge.rules.is_sctp_only(of.peer) => Verdict::OutOfReach(libc::EPERM),
                false => Verdict::Denied(who),
            })
        });
        let verdict = verdict.unwrap_or(Verdict::OutOfReach(libc::ECONNABORTED));
        match verdict {
            Verdict::Permitted | Verdict::Gone | Verdict::Unrouted => {}
            Verdict::OutOfReach(libc::EHOSTUNREACH) => {
                let gate = SocketAddr::new(gate.ip(), 0);
                self.tables.add_denied(of.actor, gate, GATE_DENIED);
            }
            Verdict::Denied(_) | Verdict::OutOfReach(_) => {
                self.tables.add_denied(of.actor, of.peer, DENIED);
            }
        }
        verdict
    }

    fn identity(&mut self, owner: Owner, group: u32) -> io::Result<Identity> {
        let folders = &mut self.judge.folders;
        if !folders.contains_key(&owner.cgroup) {
            let folder = self.group.folder(owner.cgroup);
            let folder = folder.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            if folders.len() >= MAX_FOLDERS {
                folders.clear();
            }
            folders.insert(owner.cgroup, folder);
        }
        let folder = folders.get(&owner.cgroup).cloned().unwrap_or_default();
        Ok(Identity::new(owner.user, group).in_group(folder, owner.cgroup))
    }

    /// Whether filters of the cgroup let a datagram pass that was taken from its socket. Netfilter has seen it
    /// before, as the program's own.
    pub(super) fn may_send(&mut self, datagram: &Datagram) -> bool {
        let flow = Flow::new(Protocol::Udp, datagram.source, datagram.peer);
        let who = self.identity(datagram.owner, 0);
        who.and_then(|who| self.judge.egress.permits(&who, &flow)).unwrap_or(false)
    }

    /// Lets a connect meet the policy.
    pub(super) fn bar(&mut self, id: u64, of: Connecting, gate: GateId, who: &Identity) {
        self.barred += 1;
        let many = self.connections.waiting().filter(|(_, one)| one.is_barred()).count();
        let made = match many < MAX_BARRED {
            true => self.connect_as(who, of.bound.then_some(of.own), of.peer),
            false => Err(io::Error::from_raw_os_error(libc::ECONNABORTED)),
        };
        match made {
            Ok(own) => {
                let phase = Phase::Barred { own };
                self.connections.put(id, Connection { of, gate, phase, transport: None });
            }
            Err(error) => {
                self.gates.leave(gate);
                self.refuse(&of, error.raw_os_error().unwrap_or(libc::ECONNABORTED));
            }
        }
    }

    /// Begins a TCP connection of the program's identity.
    fn connect_as(
        &mut self,
        who: &Identity,
        source: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> io::Result<OwnedFd> {
        let v6 = destination.is_ipv6();
        let own = self.judge.egress.tcp_socket(who, v6)?;
        // It would come to the gate itself.
        self.tables.exempt(own.as_fd())?;
        if let Some(source) = source {
            SockRef::from(&own).bind(&SocketAddr::new(source.ip(), 0).into())?;
        }
        socket::connect(own.as_fd(), destination, v6)?;
        Ok(own)
    }

    /// Looks at the TCP connections that have met the policy.
    pub(super) fn handle_barred(&mut self) {
        let decided = |phase: &Phase| match phase {
            Phase::Barred { own } => socket::ready(own.as_fd(), libc::POLLOUT) != 0,
            Phase::Unrouted { .. }
            | Phase::Asking { .. }
            | Phase::Held
            | Phase::Joining(_)
            | Phase::Active => false,
        };
        let waiting = self.connections.waiting().filter(|(_, one)| decided(&one.phase));
        let waiting: Vec<u64> = waiting.map(|(id, _)| id).collect();
        for id in waiting {
            let Some(Phase::Barred { own }) = self.connections.phase(id) else { continue };
            match socket::take_error(own.as_fd()) {
                0 => self.open_after_all(id),
                errno => self.fail(id, errno),
            }
        }
    }

    /// The policy has let it pass: it is another one, or was about the packet that asked.
    fn open_after_all(&mut self, id: u64) {
        let Some(connection) = self.connections.take(id) else { return };
        let gate = SocketAddr::new(loopback(connection.of.own.ip()), connection.of.gate);
        if self.judge.owners.of(connection.of.own, gate).is_err() {
            // The program has not waited for it.
            return self.gates.leave(connection.gate);
        }
        self.barred -= 1;
        self.open(id, connection.of, connection.gate);
    }
}

fn is_unrouted(destination: SocketAddr) -> bool {
    socket::route_source(destination).is_err_and(|e| e.raw_os_error() == Some(libc::ENETUNREACH))
}
