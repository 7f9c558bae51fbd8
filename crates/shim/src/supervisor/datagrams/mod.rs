//! Datagrams of the program.
//!
//! ```text
//! program's own UDP socket ◀─ loopback ─▶ the stack's end, one per destination ◀─▶ flow of datagrams
//! ```
//!
//! A socket that the program connects is connected to the stack's end instead, and what it sends and
//! receives needs no trap. Where the program names a destination with each datagram, or asks for the
//! source, the launcher sends and receives in its place, on the very socket, so that waiting, polling
//! and options stay the kernel's. A destination that the stack does not carry is left to the kernel.
//!
//! `connect` decides and joins, `end` goes back to plain UDP, `send` and `receive` are the calls,
//! `message` what they carry, `system` the kernel's side.

mod connect;
mod end;
mod message;
mod receive;
mod send;
mod system;

use crate::trap::Trap;
pub(super) use connect::Called;
pub(super) use message::Message;
use receive::HeldReceive;
pub(super) use send::MAX_MESSAGES;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// How long a destination that is not carried is left alone without asking again.
const PLAIN: Duration = Duration::from_secs(1);
/// Most such destinations, and most flows that carry nothing any more, that are remembered.
const REMEMBERED: usize = 1024;

/// Datagrams of one socket to one destination.
#[derive(Debug)]
pub(super) struct Flow {
    /// Its identity towards the stack.
    id: u64,
    /// The socket's identity.
    cookie: u64,
    /// Whether the socket is of the IPv6 family.
    v6: bool,
    destination: SocketAddr,
    /// Whether the program has connected the socket to it.
    connected: bool,
    /// Where the socket was when it was used for this: a process and a number in it.
    place: (libc::pid_t, RawFd),
    phase: Phase,
    /// Calls that wait for the decision.
    held: Vec<Trap>,
}

#[derive(Debug)]
enum Phase {
    /// The stack was asked and has not answered.
    Asking { until: Instant },
    /// The stack is asking the peer.
    Deciding,
    /// The stack's end is at `relay`; `local` is what `getsockname` tells.
    Carried { relay: SocketAddr, local: SocketAddr },
}

/// All datagrams of the program.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    /// Whether any are to be carried: otherwise no call of theirs is trapped.
    pub(super) wanted: bool,
    flows: BTreeMap<u64, Flow>,
    /// By the socket, the destination, and whether it is connected to it.
    by_destination: BTreeMap<(u64, SocketAddr, bool), u64>,
    by_relay: BTreeMap<(u64, SocketAddr), u64>,
    /// What each socket is connected to.
    connected: BTreeMap<u64, u64>,
    plain: VecDeque<(SocketAddr, Instant)>,
    receives: Vec<HeldReceive>,
}

impl Datagrams {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Whether only time can tell what becomes of something.
    pub(super) fn needs_clock(&self) -> bool {
        let asking = self.flows.values().any(|flow| matches!(flow.phase, Phase::Asking { .. }));
        asking || !self.receives.is_empty()
    }

    fn put(&mut self, flow: Flow) {
        let Flow { id, cookie, destination, connected, .. } = flow;
        self.by_destination.insert((cookie, destination, connected), id);
        if connected {
            self.connected.insert(cookie, id);
        }
        if let Phase::Carried { relay, .. } = flow.phase {
            self.by_relay.insert((cookie, relay), id);
        }
        self.flows.insert(id, flow);
    }

    fn take(&mut self, id: u64) -> Option<Flow> {
        let flow = self.flows.remove(&id)?;
        let Flow { cookie, destination, connected, .. } = flow;
        self.by_destination.remove(&(cookie, destination, connected));
        if connected {
            self.connected.remove(&cookie);
        }
        if let Phase::Carried { relay, .. } = flow.phase {
            self.by_relay.remove(&(cookie, relay));
        }
        Some(flow)
    }

    /// What the socket is connected to, if that is carried or about to be.
    fn connected(&self, cookie: u64) -> Option<&Flow> {
        self.flows.get(self.connected.get(&cookie)?)
    }

    /// Where datagrams of the socket to `destination` go.
    fn towards(&self, cookie: u64, destination: SocketAddr) -> Option<&Flow> {
        let id = [true, false]
            .iter()
            .find_map(|connected| self.by_destination.get(&(cookie, destination, *connected)))?;
        self.flows.get(id)
    }

    /// For whom the stack's end at `relay` stands.
    fn behind(&self, cookie: u64, relay: SocketAddr) -> Option<SocketAddr> {
        Some(self.flows.get(self.by_relay.get(&(cookie, relay))?)?.destination)
    }

    /// What a connected socket's names are: its own, its peer's, and whether it is an IPv6 socket.
    pub(super) fn names(&self, cookie: u64) -> Option<(SocketAddr, SocketAddr, bool)> {
        let flow = self.connected(cookie)?;
        let Phase::Carried { local, .. } = flow.phase else { return None };
        Some((local, flow.destination, flow.v6))
    }

    fn leave_alone(&mut self, destination: SocketAddr) {
        self.plain.retain(|(of, _)| *of != destination);
        self.plain.push_back((destination, Instant::now() + PLAIN));
        if self.plain.len() > REMEMBERED {
            self.plain.pop_front();
        }
    }

    fn is_left_alone(&self, destination: SocketAddr) -> bool {
        let now = Instant::now();
        self.plain.iter().any(|(of, until)| *of == destination && *until > now)
    }
}
