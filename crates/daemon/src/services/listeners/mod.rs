//! Listening sockets of programs under `manypath run`, and peers' connections that are led to them.
//!
//! A launcher announces each listener whose processes are all under its trap. A peer's flow to such
//! a listener becomes a loopback connection from this stack to the very address that the peer
//! used, so that it lands in the program's one accept queue; the launcher is told beforehand for
//! whom it stands, and lets `accept` and `getpeername` say so. Connections that come from the
//! peer's own kernel go to the program without us.
//!
//! Three things must hold before a connection is made, each for every connection anew: the rules
//! open the service, every socket that could get the connection is one that a launcher vouches for
//! (an uncovered program would take the peer for a local one), and the peer's address is one at which
//! its association was verified.

mod inject;
mod look;
mod offer;

use crate::ids::ListenerId;
use crate::kernel_tables::tcp::{self, KernelTable};
use manypath_control::Listener;
use manypath_control::status::ListenerStatus;
use manypath_engine::AssociationId;
use manypath_rules::Options;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

pub(crate) use inject::Injection;
pub(crate) use offer::{NotServed, may_serve, offered};

#[derive(Debug)]
struct Known {
    listener: Listener,
    /// Connections led to it.
    sctp: u64,
    /// Connections that came to it without us.
    plain: u64,
}

/// A connection that was led to a listener.
#[derive(Debug)]
struct Led {
    from: SocketAddr,
    to: SocketAddr,
    /// The launchers that were told.
    launchers: Vec<u64>,
}

/// All listeners that launchers have announced.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    known: BTreeMap<ListenerId, Known>,
    /// By the number of the dial, which is that of the relay.
    led: BTreeMap<u64, Led>,
    /// The same by their two ends.
    relays: BTreeMap<(SocketAddr, SocketAddr), u64>,
    /// Connections that wait until their launchers have taken the word of them.
    delayed: VecDeque<Injection>,
    /// Flows that wait until redirectors have looked for listeners.
    looks: Vec<look::Look>,
    /// What listens on this host.
    pub(crate) table: KernelTable,
    /// A look at which listeners are still there is due.
    pub(crate) watched: bool,
}

impl Listeners {
    /// Whether a listener was announced that could get a connection to `service`.
    pub(crate) fn concern(&self, service: SocketAddr) -> bool {
        self.known.values().any(|known| could_take(&known.listener, service))
    }

    fn knows(&self, inode: u64) -> bool {
        self.known.values().any(|known| known.listener.inode == inode)
    }

    /// The launchers of the sockets, if every one of them is vouched for.
    fn launchers_of(&self, inodes: &[u64]) -> Option<Vec<u64>> {
        let owner = |inode: &u64| {
            let known = self.known.iter().find(|(_, known)| known.listener.inode == *inode)?;
            Some(known.0.control)
        };
        let owners: Option<BTreeSet<u64>> = inodes.iter().map(owner).collect();
        owners.map(|owners| owners.into_iter().collect())
    }

    /// The peers whose flows wait until redirectors have looked, each as often as it has one.
    pub(crate) fn peers_looked_for(&self) -> impl Iterator<Item = Option<IpAddr>> {
        self.looks.iter().map(|one| one.peer)
    }

    /// The same of those that wait for launchers.
    pub(crate) fn peers_delayed(&self) -> impl Iterator<Item = Option<IpAddr>> {
        self.delayed.iter().map(|one| one.peer)
    }

    /// The associations of connections that wait for launchers, and what rules say of them.
    pub(crate) fn delayed_of(&self) -> impl Iterator<Item = (AssociationId, &Options)> {
        self.delayed.iter().map(Injection::of)
    }

    /// A launcher has taken note of a connection that is about to be made.
    pub(crate) fn note(&mut self, launcher: u64, from: SocketAddr, to: SocketAddr) {
        self.delayed.iter_mut().for_each(|one| one.note(launcher, from, to));
    }

    /// The launcher to whose listener a connection was led; the first one where several share it.
    pub(crate) fn launcher_of(&self, relay: u64) -> Option<u64> {
        self.led.get(&relay)?.launchers.first().copied()
    }

    /// The connections that were led to listeners of a launcher.
    pub(crate) fn led_by(&self, launcher: u64) -> Vec<u64> {
        let led = self.led.iter().filter(|(_, led)| led.launchers.contains(&launcher));
        led.map(|(relay, _)| *relay).collect()
    }

    /// Whether the launcher has listeners, or may have, and no connection was led to one or is about to be.
    pub(crate) fn is_free(&self, launcher: u64) -> bool {
        let offers = self.known.keys().any(|id| id.control == launcher);
        let delayed = self.delayed.iter().any(|one| one.is_for(launcher));
        offers && !delayed && self.led_by(launcher).is_empty()
    }

    /// Takes out the connections to be led to listeners of a launcher that it has not heard of.
    fn take_delayed(&mut self, launcher: u64) -> VecDeque<Injection> {
        let all = std::mem::take(&mut self.delayed);
        let (gone, kept): (VecDeque<_>, _) = all.into_iter().partition(|one| one.is_for(launcher));
        self.delayed = kept;
        gone
    }

    fn count_led(&mut self, inodes: &[u64]) {
        // Which of several sockets of one port gets the connection is the kernel's choice.
        let mut known = self.known.values_mut();
        if let Some(known) = known.find(|known| inodes.contains(&known.listener.inode)) {
            known.sctp += 1;
        }
    }

    fn add_led(&mut self, relay: u64, led: Led) {
        self.relays.insert((led.from, led.to), relay);
        self.led.insert(relay, led);
    }

    fn remove_led(&mut self, relay: u64) -> Option<Led> {
        let led = self.led.remove(&relay)?;
        // The same ports may have been used again meanwhile.
        if self.relays.get(&(led.from, led.to)) == Some(&relay) {
            self.relays.remove(&(led.from, led.to));
        }
        Some(led)
    }

    /// The relay, or the dial that is to become one, whose connection has these ends.
    pub(crate) fn relay_between(&self, from: SocketAddr, to: SocketAddr) -> Option<u64> {
        self.relays.get(&(from, to)).copied()
    }

    /// Forgets the listeners of a launcher that has gone; whether there were any.
    pub(crate) fn forget_launcher(&mut self, control: u64) -> bool {
        let before = self.known.len();
        self.known.retain(|id, _| id.control != control);
        self.known.len() < before
    }

    /// For people; listeners that have gone meanwhile are left out.
    pub(crate) fn status(&self, offered: impl Fn(&Listener) -> bool) -> Vec<ListenerStatus> {
        if self.known.is_empty() {
            return Vec::new();
        }
        let living = tcp::inodes();
        let lives = |known: &&Known| {
            living.as_ref().map_or(true, |living| living.contains(&known.listener.inode))
        };
        let known = self.known.values().filter(lives);
        known
            .map(|known| ListenerStatus {
                addr: known.listener.addr,
                v6_only: known.listener.v6_only,
                program: known.listener.program.clone(),
                offered: offered(&known.listener),
                sctp: known.sctp,
                plain: known.plain,
            })
            .collect()
    }
}

/// Whether the kernel could give a connection to `service` to this listener.
fn could_take(listener: &Listener, service: SocketAddr) -> bool {
    let (bound, wanted) = (listener.addr.ip(), service.ip());
    let every = bound.is_unspecified()
        && (bound.is_ipv4() == wanted.is_ipv4() || bound.is_ipv6() && !listener.v6_only);
    listener.addr.port() == service.port() && (bound == wanted || every)
}
