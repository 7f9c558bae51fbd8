//! Flows that lead beyond this host, which relays them to other hosts by TCP.
//!
//! ```text
//! RELAY OPEN ─▶ whose? ─▶ name? ─▶ open to relays? ─▶ TCP ─▶ ACCEPT ─▶ relay
//!                          │  thread     │ of this host's own rules: by another relay
//!                          └─────────────┘
//! ```
//!
//! A relay is never open: it serves peers that have shown a key that was authorized for that, on associations that they
//! have begun. What they may reach says [`filter`]; names are looked at after they were resolved.

mod chain;
mod filter;

pub(crate) use chain::cancel_chain;

use crate::attempt::{Attempts, sends_names};
use crate::base::{Base, FlowUse};
use crate::ids::{DialId, RelayId};
use crate::log;
use crate::names::{Asker, Party};
use crate::relays::Relays;
use crate::services::{Services, dial};
use crate::socket::connect;
use manypath_control::status::RelayedPeerStatus;
use manypath_engine::{AssociationId, Duration, Instant};
use manypath_flow::{Beyond, Destination, FlowId, Passed, Refusal};
use manypath_keys::PublicKey;
use manypath_rules::{Network, Options};
use manypath_trust::Fingerprint;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tracing::debug;

/// Names of one peer that wait to be resolved: others have names, too.
const MAX_NAMES: usize = 32;
/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;
/// How long what was read of this host's own addresses counts.
const ADDRESSES_COUNT: Duration = Duration::from_secs(1);

/// What the relay has done for one peer.
#[derive(Debug, Default)]
struct Usage {
    open: usize,
    opened: u64,
    denied: u64,
    failed: u64,
    to_destinations: u64,
    from_destinations: u64,
}

/// A connection beyond this host, from its RELAY OPEN to its end.
#[derive(Debug)]
struct Onward {
    peer: PublicKey,
    flow: (AssociationId, FlowId),
    /// As the log names it.
    destination: Destination,
    /// Addresses that have not been tried, the best last.
    untried: Vec<SocketAddr>,
    /// The one that is tried.
    current: Option<SocketAddr>,
    /// Why the one before it could not be connected to.
    failed: Option<Refusal>,
    /// No other relay leads there now.
    own_way: bool,
    client: SocketAddr,
    /// The relays by which it has come, this one included.
    passed: Passed,
}

/// Connections that this host relays, and for whom.
#[derive(Debug, Default)]
pub(crate) struct OnwardRoom {
    all: BTreeMap<u64, Onward>,
    peers: BTreeMap<PublicKey, Usage>,
    own: Option<(Instant, Vec<Network>)>,
    /// Connections that are to try their next address.
    again: VecDeque<DialId>,
    /// Who has asked for names that are not resolved yet, whatever became of the connections.
    asking: BTreeMap<u64, PublicKey>,
}

impl OnwardRoom {
    /// A connection is over: what it has moved to its destination and from there.
    pub(crate) fn note_end(&mut self, id: RelayId, (from, to): (u64, u64)) {
        if let Some(one) = self.all.remove(&id.0) {
            self.note_end_of(one.peer, (from, to));
        }
    }

    /// The same of one, or of a flow of datagrams, for `peer`.
    pub(crate) fn note_end_of(&mut self, peer: PublicKey, (from, to): (u64, u64)) {
        let usage = self.usage(peer);
        usage.open -= 1;
        usage.to_destinations += to;
        usage.from_destinations += from;
    }

    fn usage(&mut self, peer: PublicKey) -> &mut Usage {
        self.peers.entry(peer).or_default()
    }

    /// Forgets a connection that has come to nothing.
    pub(super) fn forget(&mut self, id: DialId) -> bool {
        let Some(one) = self.all.remove(&id.0) else { return false };
        self.usage(one.peer).open -= 1;
        true
    }

    /// Whether a connection leads beyond this host.
    pub(super) fn has(&self, id: DialId) -> bool {
        self.all.contains_key(&id.0)
    }

    /// Whether the peer of an association may have one more flow beyond this host, which it has then. Without `passed`
    /// that has been here before.
    pub(crate) fn admit<T>(
        &mut self,
        base: &Base,
        association: AssociationId,
        passed: Option<T>,
    ) -> Result<(PublicKey, T), (Refusal, &'static str)> {
        if !base.core.phase.serves_peers() {
            return Err((Refusal::Busy, "dial_denied_ending"));
        }
        let peer = base.keys.peer_of(association).filter(|_| !base.is_ours(association));
        let (Some(peer), Some(relay)) = (peer, &base.core.config.relay) else {
            return Err((Refusal::NotRelay, "onward_denied_peer"));
        };
        let usage = self.usage(peer);
        let Some(passed) = passed else {
            usage.denied += 1;
            return Err((Refusal::Circle, "onward_denied_circle"));
        };
        let name = base.keys.name_of(association);
        let key = Fingerprint::of(&peer).to_string();
        if relay.quota.is_some_and(|quota| base.core.quotas.is_used_up(&key, name, quota)) {
            usage.denied += 1;
            return Err((Refusal::OverQuota, "onward_denied_over_quota"));
        }
        if usage.open >= relay.connections {
            usage.denied += 1;
            return Err((Refusal::Busy, "onward_denied_too_many"));
        }
        (usage.open, usage.opened) = (usage.open + 1, usage.opened + 1);
        Ok((peer, passed))
    }

    /// A flow of datagrams that was admitted comes to nothing.
    pub(crate) fn end_datagrams(&mut self, peer: PublicKey, denied: bool) {
        let usage = self.usage(peer);
        usage.open -= 1;
        *(if denied { &mut usage.denied } else { &mut usage.failed }) += 1;
    }

    /// Whether flows beyond this host may lead to `address`; nothing while this host's own addresses are unknown.
    pub(crate) fn is_open(&mut self, base: &Base, address: SocketAddr) -> Option<bool> {
        let named = base.core.config.relay.as_ref().map_or(&[][..], |relay| &relay.to);
        let own = own_networks_lately(&mut self.own, base.core.now)?;
        let is_open = filter::is_open(address, named, own, base.core.config.loopback_paths);
        if !is_open {
            debug!(target: log::CONNECTION, "not relayed: {address} is closed to relays");
        }
        Some(is_open)
    }

    /// The same for packets, which have no ports: a destination whose ports are named is not open to them.
    pub(crate) fn is_open_to_packets(&mut self, base: &Base, address: IpAddr) -> bool {
        let named = base.core.config.relay.as_ref().map_or(&[][..], |relay| &relay.to);
        let Some(own) = own_networks_lately(&mut self.own, base.core.now) else {
            return false;
        };
        filter::is_open_to_packets(address, named, own, base.core.config.loopback_paths)
    }

    /// The next address that is open to relays. Without one the flow is refused.
    fn next_address(&mut self, base: &mut Base, id: DialId) -> Option<SocketAddr> {
        loop {
            let one = self.all.get_mut(&id.0)?;
            let Some(address) = one.untried.pop() else {
                let (why, counter) = match one.failed {
                    Some(why) => (why, "onward_dials_failed"),
                    None => (Refusal::DestinationClosed, "onward_denied_destination"),
                };
                self.end(base, id, why, counter);
                return None;
            };
            match self.is_open(base, address) {
                Some(true) => {
                    self.all.get_mut(&id.0)?.current = Some(address);
                    return Some(address);
                }
                Some(false) => {}
                None => {
                    self.end(base, id, Refusal::Busy, "onward_addresses_unknown");
                    return None;
                }
            }
        }
    }

    /// An address could not be connected to: the next one is tried, or the error is the answer.
    pub(super) fn on_failed(&mut self, id: DialId, error: &io::Error) {
        let Some(one) = self.all.get_mut(&id.0) else { return };
        one.failed = Some(match dial::errno_of(error) {
            Some(errno) => Refusal::Errno(errno),
            None => Refusal::Busy,
        });
        self.again.push_back(id);
    }

    /// A flow beyond this host comes to nothing.
    fn end(&mut self, base: &mut Base, id: DialId, why: Refusal, counter: &'static str) {
        let Some(one) = self.all.get(&id.0) else { return };
        let (association, flow) = one.flow;
        debug!(target: log::CONNECTION, "association {}: {}: {why:?}", association.0, one.destination);
        let usage = self.peers.entry(one.peer).or_default();
        let count = match why == Refusal::DestinationClosed {
            true => &mut usage.denied,
            false => &mut usage.failed,
        };
        *count += 1;
        self.forget(id);
        base.refuse(association, flow, why, counter);
    }

    /// For people. `datagrams` is what flows of datagrams have moved, for whom.
    pub(crate) fn statuses(
        &self,
        relays: &Relays,
        datagrams: &[(PublicKey, (u64, u64))],
    ) -> Vec<RelayedPeerStatus> {
        let status = |(peer, usage): (&PublicKey, &Usage)| {
            let own = self.all.iter().filter(|(_, one)| one.peer == *peer);
            let moved = own.filter_map(|(id, _)| Some(relays.get(&RelayId(*id))?.bytes()));
            let datagrams = datagrams.iter().filter(|(whose, _)| whose == peer);
            let moved = moved.chain(datagrams.map(|(_, moved)| *moved));
            let (from, to) = moved.fold((0, 0), |(from, to), (f, t)| (from + f, to + t));
            RelayedPeerStatus {
                peer: Fingerprint::of(peer).to_string(),
                open: usage.open as u64,
                opened: usage.opened,
                denied: usage.denied,
                failed: usage.failed,
                to_destinations_bytes: usage.to_destinations + to,
                from_destinations_bytes: usage.from_destinations + from,
            }
        };
        self.peers.iter().map(status).collect()
    }
}

/// What holds for a connection beyond this host: none of its rules are about those.
fn onward_options(base: &Base) -> Options {
    let quota = base.core.config.relay.as_ref().and_then(|relay| relay.quota);
    Options { quota, ..Options::default() }
}

/// This host's addresses, and the networks that they are in; none as long as they could not be read.
fn own_networks_lately(
    own: &mut Option<(Instant, Vec<Network>)>,
    now: Instant,
) -> Option<&[Network]> {
    let fresh = |(at, _): &(Instant, Vec<Network>)| now.since(*at) < ADDRESSES_COUNT;
    if !own.as_ref().is_some_and(fresh)
        && let Ok(read) = own_networks()
    {
        *own = Some((now, read));
    }
    own.as_ref().map(|(_, own)| own.as_slice())
}

/// A network of a whole family would close everything; its address alone is this host's.
fn own_networks() -> io::Result<Vec<Network>> {
    let networks = |one: &manypath_net::Interface| {
        let network = Some(one.prefix_len).filter(|prefix| *prefix > 0);
        let network = network.map(|prefix| Network::around(one.addr, prefix));
        [Some(Network::host(one.addr)), network]
    };
    Ok(manypath_net::interfaces()?.iter().flat_map(networks).flatten().collect())
}

impl Services {
    /// A peer asks for a flow beyond this host.
    pub(crate) fn on_incoming_beyond(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        relays: &mut Relays,
        (association, flow): (AssociationId, FlowId),
    ) {
        let beyond = base.get(&association).and_then(|one| one.mux.beyond(flow)).cloned();
        let Some(Beyond { destination, passed }) = beyond else { return };
        let passed = base.keys.mark().and_then(|own| passed.by(own));
        let (peer, passed) = match self.onward.admit(base, association, passed) {
            Ok(admitted) => admitted,
            Err((why, counter)) => return base.refuse(association, flow, why, counter),
        };
        let id = DialId(base.core.next_id());
        let client = base.core.peer_ip(association).unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let one = Onward {
            peer,
            flow: (association, flow),
            destination,
            untried: Vec::new(),
            current: None,
            failed: None,
            own_way: false,
            client: SocketAddr::new(client, 0),
            passed,
        };
        base.set_flow_use(association, flow, FlowUse::Dial(id));
        self.onward.all.insert(id.0, one);
        self.begin_onward(base, attempts, relays, id);
    }

    /// The name of a destination has been looked up.
    pub(crate) fn on_onward_name(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        relays: &mut Relays,
        id: DialId,
        addresses: Vec<IpAddr>,
    ) {
        self.onward.asking.remove(&id.0);
        let Some(one) = self.onward.all.get_mut(&id.0) else { return };
        let port = one.destination.port();
        let found = addresses.into_iter().map(|addr| SocketAddr::new(addr, port));
        one.untried = found.take(MAX_ADDRESSES).collect();
        one.untried.reverse();
        if one.untried.is_empty() {
            self.onward.end(base, id, Refusal::NoSuchName, "onward_names_unknown");
        } else {
            self.connect_onward(base, attempts, relays, id);
        }
    }

    fn begin_onward(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        relays: &mut Relays,
        id: DialId,
    ) {
        let Some(one) = self.onward.all.get_mut(&id.0) else { return };
        match one.destination.clone() {
            Destination::Address(address) => {
                one.untried = vec![address];
                self.connect_onward(base, attempts, relays, id);
            }
            Destination::Name(name, port) if !one.own_way && sends_names(&base.core, port) => {
                self.onward.chain_by_name(base, attempts, id, name, port);
            }
            Destination::Name(name, _) => {
                let peer = one.peer;
                let asking = &mut self.onward.asking;
                let has_room = asking.values().filter(|it| **it == peer).count() < MAX_NAMES;
                if has_room
                    && base.core.names.ask(Asker::Onward(id.0), Party::Peer(peer), name.as_str())
                {
                    asking.insert(id.0, peer);
                } else {
                    self.onward.end(base, id, Refusal::Busy, "onward_names_full");
                }
            }
        }
    }

    fn connect_onward(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        relays: &mut Relays,
        id: DialId,
    ) {
        let Some(address) = self.onward.next_address(base, id) else { return };
        let own_way = self.onward.all.get(&id.0).is_some_and(|one| one.own_way);
        if !own_way && attempts.relays.lead_to(&base.core, address) {
            return self.onward.chain(base, attempts, id, address);
        }
        self.dial_onward(base, relays, id, address);
    }

    pub(super) fn dial_onward(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        id: DialId,
        address: SocketAddr,
    ) {
        let Some(one) = self.onward.all.get(&id.0) else { return };
        let (flow, ends) = (one.flow, (one.client, crate::allow::canonical(address)));
        match connect(None, ends.1, false) {
            Ok(fd) => {
                let options = onward_options(base);
                self.start_dial(base, id, flow, ends, options, fd);
                self.check_dial(base, relays, id);
            }
            Err(error) => self.onward.on_failed(id, &error),
        }
    }
}

#[cfg(test)]
mod tests;
