//! The sockets of a program, and what events of the engine mean to them.

use crate::address::at_port;
use crate::association::{Association, SendDefaults};
use crate::constants::*;
use crate::errno::Errno;
use crate::notification::{Notification, Subscriptions, path_state};
use crate::socket::{Family, Settings, Socket, Style};
use crate::structures::sctp_assoc_t;
use manypath_engine::{
    AddressChange, AssociationId, AssociationStatus, CloseReason, Config, Duration, Endpoint,
    Event, Instant, KeyChange, Outgoing, PathId, PathState,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Names a socket. Never used again after it is closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub u64);

/// What a call needs besides the sockets.
#[derive(Debug)]
pub struct Host<'a> {
    /// The time.
    pub now: Instant,
    /// The engine under the sockets.
    pub endpoint: &'a mut Endpoint,
}

impl Host<'_> {
    pub(crate) fn status(&self, id: AssociationId) -> Option<AssociationStatus> {
        self.endpoint.status(self.now, id)
    }
}

/// What `poll` tells of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Readiness {
    /// Whether reading, or accepting, would not wait.
    pub readable: bool,
    /// Whether writing would not wait.
    pub writable: bool,
}

/// The sockets of a program over one endpoint.
#[derive(Debug)]
pub struct Sockets {
    pub(crate) sockets: BTreeMap<SocketId, Socket>,
    /// Whose the engine's associations are.
    pub(crate) owners: BTreeMap<AssociationId, (SocketId, sctp_assoc_t)>,
    /// The addresses of this host.
    pub(crate) locals: Vec<IpAddr>,
    /// The interfaces of those that are IPv6 link-local.
    pub(crate) links: BTreeMap<IpAddr, u32>,
    template: Settings,
    /// The sockets that have changed, and whether that is news from the network.
    pub(crate) changed: BTreeMap<SocketId, bool>,
    last_socket: u64,
    last_association: sctp_assoc_t,
    pub(crate) next_port: u16,
    /// When associations may have been idle for too long.
    pub(crate) idle: BTreeSet<(Instant, SocketId, sctp_assoc_t)>,
    /// How many sockets have each port.
    pub(crate) ports: BTreeMap<u16, usize>,
    /// The sockets that listen, by their ports.
    pub(crate) listeners: BTreeMap<u16, Vec<SocketId>>,
}

/// Notifications of an association that wait to be read, but for those that return data (RFC 6458 section 6.1.10).
const MAX_UNREAD_NOTIFICATIONS: usize = 1000;
/// First of the numbers of associations: those before it have meanings of their own.
const FIRST_ASSOCIATION: sctp_assoc_t = SCTP_ALL_ASSOC + 1;

impl Sockets {
    /// No sockets on a host with the addresses `locals`. `encapsulation` is the peers' UDP port (RFC 6951),
    /// 0 for SCTP directly over IP; `seed` makes the ports that are chosen here hard to guess.
    pub fn new(locals: Vec<IpAddr>, encapsulation: u16, seed: u16) -> Self {
        Self {
            sockets: BTreeMap::new(),
            owners: BTreeMap::new(),
            locals,
            links: BTreeMap::new(),
            template: template(encapsulation, Config::production()),
            changed: BTreeMap::new(),
            last_socket: 0,
            last_association: FIRST_ASSOCIATION - 1,
            next_port: 49152 + seed % 16384,
            idle: BTreeSet::new(),
            ports: BTreeMap::new(),
            listeners: BTreeMap::new(),
        }
    }

    /// The same with other parameters of the engine and its extensions, as far as sockets of Linux do
    /// not have values of their own.
    pub fn with_parameters(mut self, config: Config) -> Self {
        let partial_reliability = config.partial_reliability;
        self.template = template(self.template.encapsulation, config);
        self.template.config.partial_reliability = partial_reliability;
        self
    }

    /// The same with the behavior of Linux where RFC 6458 leaves it open or specifies another:
    /// * Receiving fails with `ENOTCONN` on a one-to-one socket whose association has ended without a SHUTDOWN of the
    ///   peer; [`waits_in_vain`](Self::waits_in_vain) tells of another case.
    /// * `SCTP_EOF` and `SCTP_ABORT` are refused on one-to-one sockets.
    /// * Sending on a connected one-to-one socket to an address that is not the peer's fails with `EADDRNOTAVAIL`,
    ///   but for one that was peeled off.
    /// * An abandoned message comes back in the fragments in which it would have been sent.
    /// * `sac_info` has the ABORT chunk of a peer without its header.
    pub fn following_linux(mut self) -> Self {
        self.template.follows_linux = true;
        self
    }

    /// Opens a socket.
    pub fn open(&mut self, style: Style, ipv6: bool) -> SocketId {
        let settings = Settings {
            family: Family { ipv6, only_ipv6: false },
            mapped: ipv6,
            ..self.template.clone()
        };
        self.add(Socket::new(style, settings))
    }

    pub(crate) fn add(&mut self, socket: Socket) -> SocketId {
        self.last_socket += 1;
        let id = SocketId(self.last_socket);
        self.sockets.insert(id, socket);
        self.mark(id);
        id
    }

    /// The sockets of which something may have changed that somebody waits for, once, and whether the
    /// network has brought it.
    pub fn take_changed(&mut self) -> BTreeMap<SocketId, bool> {
        std::mem::take(&mut self.changed)
    }

    /// Whether it is of the one-to-one style.
    pub fn is_one_to_one(&self, id: SocketId) -> bool {
        self.sockets.get(&id).is_some_and(Socket::is_one_to_one)
    }

    /// Whether it is of the family AF_INET6.
    pub fn is_ipv6(&self, id: SocketId) -> bool {
        self.sockets.get(&id).is_some_and(|socket| socket.settings.family.ipv6)
    }

    /// Whether its IPv4 addresses are given as IPv6 ones.
    pub fn maps_addresses(&self, id: SocketId) -> bool {
        self.sockets.get(&id).is_some_and(|socket| socket.settings.mapped)
    }

    /// What `poll` tells of a socket.
    pub fn readiness(&mut self, host: &mut Host<'_>, id: SocketId) -> Readiness {
        let Some(socket) = self.sockets.get_mut(&id) else { return Readiness::default() };
        if socket.backlog.is_some() && socket.is_one_to_one() {
            return Readiness { readable: !socket.waiting.is_empty(), writable: false };
        }
        let only = socket.only().and_then(|id| socket.associations.get(&id));
        let connected = only.is_some_and(|one| one.streams.is_some() || one.closed.is_some());
        let at_end = only.is_some_and(Association::is_at_end) || socket.shut.0;
        let failed = socket.error.is_some();
        let writable = (connected || !socket.is_one_to_one()) && socket.blocked.is_empty();
        let readable = at_end || failed || socket.has_input(host.endpoint);
        Readiness { readable, writable: writable || failed }
    }

    pub(crate) fn socket(&mut self, id: SocketId) -> Result<&mut Socket, Errno> {
        self.sockets.get_mut(&id).ok_or(Errno::BADF)
    }

    /// The association of a socket that a call means.
    pub(crate) fn association(
        &mut self,
        id: SocketId,
        association: sctp_assoc_t,
    ) -> Result<&mut Association, Errno> {
        let socket = self.socket(id)?;
        let chosen = socket.chosen(association).ok_or(Errno::INVALID)?;
        socket.associations.get_mut(&chosen).ok_or(Errno::INVALID)
    }

    pub(crate) fn next_association(&mut self) -> sctp_assoc_t {
        self.last_association = self.last_association.checked_add(1).unwrap_or(FIRST_ASSOCIATION);
        self.last_association
    }

    pub(crate) fn mark(&mut self, id: SocketId) {
        self.changed.entry(id).or_insert(false);
    }

    fn mark_news(&mut self, id: SocketId) {
        self.changed.insert(id, true);
    }

    /// Something has happened to an association.
    pub fn on_event(&mut self, host: &mut Host<'_>, id: AssociationId, event: Event) {
        if let (Event::Connected { initiated: false, .. }, false) =
            (&event, self.owners.contains_key(&id))
        {
            self.adopt(host, id);
        }
        let Some((owner, number)) = self.owners.get(&id).copied() else {
            return discard(host, id, &event);
        };
        self.mark_news(owner);
        let Some(socket) = self.sockets.get_mut(&owner) else { return };
        let Some(association) = socket.associations.get_mut(&number) else { return };
        // What was sent may have arrived, and must not arrive twice.
        if let Event::Undelivered { message, sent: false, reliability } = &event
            && association.may_begin_elsewhere()
            && !socket.settings.explicit_end
        {
            association.carried.push((message.clone(), *reliability));
            return;
        }
        if let Event::Closed(reason) = event {
            if !self.begin_elsewhere(host, owner, number, &reason) {
                self.on_closed(host, owner, number, reason);
            }
            return;
        }
        if matches!(event, Event::Writable) {
            socket.blocked.remove(&number);
        }
        if matches!(event, Event::Readable | Event::Connected { .. }) {
            association.last_active = host.now;
        }
        let begins = matches!(event, Event::Connected { .. });
        let told = notifications(host, association, &socket.settings, event);
        // The engine tells it where we can authenticate chunks.
        let config = &socket.settings.config;
        let authenticates = config.authentication || config.address_reconfiguration;
        let unauthenticated = (begins && !authenticates)
            .then(|| Notification::key(KeyChange::NoAuthentication, 0, number));
        let wanted = told
            .into_iter()
            .chain(unauthenticated)
            .filter(|one| socket.settings.events.has(one.kind));
        // A peer can cause most of them at will, and must not fill the memory of a program that reads slowly.
        let has_room = association.notifications.len() < MAX_UNREAD_NOTIFICATIONS;
        let wanted = wanted.filter(|one| has_room || gives_back(one));
        association.notifications.extend(wanted);
        socket.ready.insert(number);
        if begins {
            self.watch_idle(owner, number);
        }
    }

    fn on_closed(
        &mut self,
        host: &mut Host<'_>,
        owner: SocketId,
        number: sctp_assoc_t,
        reason: CloseReason,
    ) {
        let Some(socket) = self.sockets.get_mut(&owner) else { return };
        let Some(association) = socket.associations.get_mut(&number) else { return };
        self.owners.remove(&association.engine);
        let established = association.streams.is_some();
        let error = Errno::of_end(&reason, established);
        for (message, _) in std::mem::take(&mut association.carried) {
            let told = given_up(host, association, &socket.settings, &message, false);
            association.notifications.extend(told);
        }
        if socket.settings.events.has(SCTP_ASSOC_CHANGE) {
            let given = host.endpoint.take_abort_reason(association.engine);
            let follows_linux = socket.settings.follows_linux;
            let abort = given.map(|given| abort_chunk(&given, follows_linux)).unwrap_or_default();
            association.notifications.push_back(end(&reason, association, &abort));
        }
        association.closed = Some(reason);
        socket.blocked.remove(&number);
        socket.ready.insert(number);
        if socket.backlog.is_some() && error.is_some() && socket.waiting.contains(&number) {
            socket.waiting.retain(|waiting| *waiting != number);
            drop_unread(host, association.engine);
            socket.associations.remove(&number);
        } else if socket.only() == Some(number) {
            socket.error = error;
        }
    }
}

/// Nobody wants it any more. What arrives must be read, or the peer would wait for its window.
fn discard(host: &mut Host<'_>, id: AssociationId, event: &Event) {
    if matches!(event, Event::Readable | Event::Closed(_)) {
        drop_unread(host, id);
    }
}

/// Takes out of the engine what nobody will read.
pub(crate) fn drop_unread(host: &mut Host<'_>, id: AssociationId) {
    while host.endpoint.read(id).is_some() {}
}

/// The ABORT chunk (RFC 9260 section 3.3.7) of a peer whose user gave this reason. Linux leaves out its header.
fn abort_chunk(reason: &[u8], follows_linux: bool) -> Vec<u8> {
    const HEADER: [u8; 2] = [6, 0];
    const USER_INITIATED: [u8; 2] = [0, 12];
    let len = |more: usize| u16::try_from(reason.len() + more).unwrap_or(u16::MAX).to_be_bytes();
    let header = if follows_linux { Vec::new() } else { [HEADER, len(8)].concat() };
    [&header, &USER_INITIATED[..], &len(4), reason].concat()
}

/// What the end of an association is called.
fn end(reason: &CloseReason, association: &Association, abort: &[u8]) -> Notification {
    let streams = association.streams.unwrap_or_default();
    let error = match reason {
        CloseReason::PeerAborted(code) => code.unwrap_or(0),
        CloseReason::Graceful
        | CloseReason::NoAnswer
        | CloseReason::Unreachable
        | CloseReason::NoAdaptation
        | CloseReason::NoProtection
        | CloseReason::NoAuthentication
        | CloseReason::LocalAbort
        | CloseReason::TooManyFailures
        | CloseReason::ProtocolViolation(_) => 0,
    };
    let state = match (association.streams, reason) {
        (None, _) => SCTP_CANT_STR_ASSOC,
        (Some(_), CloseReason::Graceful) => SCTP_SHUTDOWN_COMP,
        (Some(_), _) => SCTP_COMM_LOST,
    };
    Notification::change(state, error.to_be(), streams, abort, association.id)
}

/// Whether the notification has data that the program has sent.
fn gives_back(one: &Notification) -> bool {
    [SCTP_SEND_FAILED, SCTP_SEND_FAILED_EVENT].contains(&one.kind)
}

/// What an event is told as, and what it changes.
fn notifications(
    host: &mut Host<'_>,
    association: &mut Association,
    settings: &Settings,
    event: Event,
) -> Vec<Notification> {
    let (id, mapped) = (association.id, settings.mapped);
    let one = match event {
        Event::Connected { adaptation, outbound_streams, inbound_streams, .. } => {
            association.streams = Some((outbound_streams, inbound_streams));
            if settings.events.has(SCTP_SENDER_DRY_EVENT) {
                host.endpoint.tell_when_dry(host.now, association.engine);
            }
            let streams = (outbound_streams, inbound_streams);
            let up = Notification::change(SCTP_COMM_UP, 0, streams, &[], id);
            let adaptation = adaptation.map(|indication| Notification::adaptation(indication, id));
            return std::iter::once(up).chain(adaptation).collect();
        }
        Event::Restarted => {
            let streams = association.streams.unwrap_or_default();
            Notification::change(SCTP_RESTART, 0, streams, &[], id)
        }
        Event::SenderDry => Notification::dry(id),
        Event::PeerShutdown => {
            association.peer_shutdown = true;
            Notification::shutdown(id)
        }
        Event::PathChanged { path, state } => {
            return path_change(host, association, mapped, path, state).into_iter().collect();
        }
        Event::PeerAddress { address, change } => {
            let state = match change {
                AddressChange::Added => SCTP_ADDR_ADDED,
                AddressChange::Removed => SCTP_ADDR_REMOVED,
                AddressChange::MadePrimary => SCTP_ADDR_MADE_PRIM,
            };
            let address = SocketAddr::new(address, association.peer.port());
            Notification::address(address, mapped, state, id)
        }
        Event::SendFailed { message, sent, .. } | Event::Undelivered { message, sent, .. } => {
            return given_up(host, association, settings, &message, sent);
        }
        Event::PeerError { causes } => Notification::peer_error(&causes, id),
        Event::PartialDeliveryAborted(message) => {
            association.is_begun = false;
            Notification::partial(&message, id)
        }
        Event::Authentication { change, key } => Notification::key(change, key, id),
        Event::StreamsReset { direction, streams, outcome } => {
            Notification::streams_reset(direction, &streams, outcome, id)
        }
        Event::AssociationReset { outcome, local_tsn, peer_tsn } => {
            Notification::reset(outcome, local_tsn.0, peer_tsn.0, id)
        }
        Event::StreamsAdded { outcome, outbound_streams, inbound_streams } => {
            association.streams = Some((outbound_streams, inbound_streams));
            Notification::added(outcome, (outbound_streams, inbound_streams), id)
        }
        Event::Readable
        | Event::Writable
        | Event::KeysWanted
        | Event::RekeyDue
        | Event::PeerDoubted
        | Event::LocalAddress { .. }
        | Event::PathPolicy { .. }
        | Event::Closed(_) => return Vec::new(),
    };
    vec![one]
}

/// A message was abandoned, or not delivered before the end of its association. Linux returns each fragment with the
/// flags of its DATA chunk, which mark the first and the last.
fn given_up(
    host: &Host<'_>,
    association: &Association,
    settings: &Settings,
    message: &Outgoing,
    sent: bool,
) -> Vec<Notification> {
    const FIRST: u16 = 2;
    const LAST: u16 = 1;
    let (id, new) = (association.id, settings.events.has(SCTP_SEND_FAILED_EVENT));
    // Nobody reads them, and all that waits to be sent would be copied where a peer aborts.
    if !new && !settings.events.has(SCTP_SEND_FAILED) {
        return Vec::new();
    }
    if !settings.follows_linux {
        return vec![Notification::failed(message, sent, new, 0, id)];
    }
    let len = message.payload.len();
    let size = match host.endpoint.fragment_size(association.engine) {
        0 => len.max(1),
        size => size,
    };
    let part = |from: usize| {
        let to = len.min(from + size);
        let place = if from == 0 { FIRST } else { 0 } | if to == len { LAST } else { 0 };
        let message = Outgoing { payload: message.payload.slice(from..to), ..message.clone() };
        Notification::failed(&message, sent, new, place, id)
    };
    (0..len.max(1)).step_by(size).map(part).collect()
}

fn path_change(
    host: &Host<'_>,
    association: &mut Association,
    mapped: bool,
    path: PathId,
    state: PathState,
) -> Option<Notification> {
    let status = host.status(association.engine)?;
    let address = status.paths.iter().find(|one| one.id == path)?.addr.remote;
    let again = association.confirmed.contains(&path);
    if state == PathState::Active {
        association.confirmed.insert(path);
    }
    let address = at_port(address, association.peer.port());
    Some(Notification::address(address, mapped, path_state(state, again)?, association.id))
}

/// What a new socket is like: as with Linux, where that does not forbid several paths at once.
fn template(encapsulation: u16, config: Config) -> Settings {
    let config = Config {
        streams: 10,
        inbound_streams: Some(2048),
        max_streams: 2048,
        nagle: true,
        partial_reliability: true,
        receive_buffer: 1 << 20,
        send_buffer: 1 << 20,
        rto_max: Duration::from_secs(60),
        // The peer may be any SCTP, and make a second association of the original that comes when a copy's is over.
        handshake_race: false,
        accept: false,
        report_undelivered: true,
        ..config
    };
    Settings {
        family: Family::default(),
        mapped: false,
        follows_linux: false,
        config,
        encapsulation,
        events: Subscriptions::default(),
        receive_info: false,
        next_info: false,
        defaults: SendDefaults::default(),
        context: 0,
        disable_fragments: false,
        explicit_end: false,
        follows_addresses: false,
        fragment_interleave: 0,
        stream_resets: 0,
        linger: None,
        reuse: false,
        reuse_port: false,
        autoclose: None,
    }
}
