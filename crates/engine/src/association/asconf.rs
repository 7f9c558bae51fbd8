//! Addresses that come and go: the requests that we make (RFC 5061 sections 5.1 and 5.3), and what the
//! peer says to them. What the peer requests is in `asconf_answer`, the paths that follow from either
//! in `addresses`.
//!
//! One ASCONF is under way at a time; it is repeated unchanged when T4-rto has expired. What the user
//! wants meanwhile waits for the next one. An address that is added is no source of packets before it
//! is acknowledged; one that is removed is none from the ASCONF on.

use super::addresses::AddressError;
use super::context::Context;
use super::handshake::Withheld;
use super::path_manager::Addressing;
use super::receive::Arrival;
use super::state::Retry;
use super::tcb::Association;
use crate::event::{AddressChange, CloseReason, Event, ReconfigurationOutcome};
use crate::path::heartbeat::Probed;
use crate::path::{PathId, Paths};
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use manypath_wire::Tsn;
use manypath_wire::cause::{Cause, Causes};
use manypath_wire::chunk::{Asconf, AsconfAck, Chunk};
use manypath_wire::packet::PacketWriter;
use manypath_wire::parameter::{AddressRequest, Parameter, ParameterWriter, Parameters};

/// Bytes of the requests of one ASCONF: with AUTH it fits the smallest MTU of IPv4.
const MAX_REQUESTS: usize = 400;
/// Most changes of the user that wait.
const MAX_WAITING: usize = 32;

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) change: AddressChange,
    pub(super) address: IpAddr,
    /// The peer is not told the address: it is the source of the packet.
    pub(super) untold: bool,
}

/// The ASCONF under way.
#[derive(Debug)]
struct Running {
    sequence: u32,
    /// With their correlation ids.
    requests: Vec<(u32, Request)>,
    /// The requests as they are sent.
    parameters: Vec<u8>,
    /// An address of ours by which the peer can find the association.
    lookup: IpAddr,
    retry: Retry,
    path: PathId,
    /// The path that it is to take first, because it is about its own source.
    introduces: Option<PathId>,
    /// Paths from the addresses that it adds, if no others are left: nothing else is sent on them until
    /// it is acknowledged.
    pending: Vec<PathId>,
}

/// The changes of addresses of an association.
#[derive(Debug)]
pub(crate) struct AddressChanges {
    /// Our addresses, as far as the peer has acknowledged them or is not told them.
    pub(super) own: Vec<IpAddr>,
    /// Their realm; none outside of all realms.
    pub(super) realm: Option<u32>,
    /// Those that the peer is never told, and whether they have introduced themselves.
    pub(super) untold: Vec<(IpAddr, bool)>,
    /// The peer was told our addresses. It knows the only one that was not told by the source of our
    /// packets alone, which a NAT may have changed.
    told: bool,
    next_sequence: u32,
    next_correlation: u32,
    waiting: VecDeque<Request>,
    running: Option<Running>,
    /// The path that the ASCONF to come is to take first.
    introduces: Option<PathId>,
    /// The peer does not understand requests to add and remove, or to prefer addresses.
    refuses: (bool, bool),
    /// The peer's next sequence number.
    pub(super) expected: u32,
    /// The last answers, with their sequence numbers.
    pub(super) answers: VecDeque<(u32, Vec<u8>)>,
    /// The address that the peer wants to be primary as soon as it is confirmed.
    pub(super) wanted_primary: Option<IpAddr>,
    /// The peer is behind a NAT: its packets come from addresses that it does not know.
    pub(super) translated: bool,
    /// Addresses that such a peer has named and that are not used any more, because nobody has ever answered there.
    pub(super) unreached: Vec<IpAddr>,
    /// Paths to addresses of the peer that it has removed before anybody has answered there.
    pub(super) probed: Vec<Probed>,
}

impl AddressChanges {
    /// Numbers begin with those of the TSNs (rule A2).
    pub(super) fn new(own: Vec<IpAddr>, told: bool, ours: Tsn, peers: Tsn) -> Self {
        Self {
            own,
            realm: None,
            untold: Vec::new(),
            told,
            next_sequence: ours.0,
            next_correlation: 0,
            waiting: VecDeque::new(),
            running: None,
            introduces: None,
            refuses: (false, false),
            expected: peers.0,
            answers: VecDeque::new(),
            wanted_primary: None,
            translated: false,
            unreached: Vec::new(),
            probed: Vec::new(),
        }
    }

    /// When the ASCONF under way is to be repeated (T4-rto).
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.running.as_ref()?.retry.expiry()
    }

    /// Whether the ASCONF under way asks for `change` of `address`.
    pub(super) fn is_changing(&self, change: AddressChange, address: IpAddr) -> bool {
        let mut running = self.running.iter().flat_map(|it| &it.requests);
        running.any(|(_, it)| (it.change, it.address) == (change, address))
    }

    /// Our addresses when all that was requested has been done.
    fn planned(&self) -> Vec<IpAddr> {
        let running = self.running.iter().flat_map(|it| &it.requests).map(|(_, request)| request);
        let mut planned = self.own.clone();
        for request in running.chain(&self.waiting).filter(|it| !it.is_wildcard()) {
            planned.retain(|address| *address != request.address || !request.removes());
            if request.change == AddressChange::Added {
                planned.push(request.address);
            }
        }
        planned
    }

    /// The removal of an address that is to be added again, if it has not left: what it would take away is in use.
    fn take_back(&mut self, request: Request) -> Option<Request> {
        let undone = |it: &Request| it.removes() && it.address == request.address;
        let at = self.waiting.iter().rposition(undone);
        at.filter(|_| request.change == AddressChange::Added).and_then(|at| self.waiting.remove(at))
    }

    fn refuses(&self, change: AddressChange) -> bool {
        match change {
            AddressChange::Added | AddressChange::Removed => self.refuses.0,
            AddressChange::MadePrimary => self.refuses.1,
        }
    }

    fn check(&self, request: Request) -> Result<(), AddressError> {
        let planned = self.planned();
        let has = planned.contains(&request.address);
        if self.refuses(request.change) {
            return Err(AddressError::NotSupported);
        }
        match request.change {
            AddressChange::Added if has => Err(AddressError::AlreadyThere),
            AddressChange::Removed | AddressChange::MadePrimary if !has => {
                Err(AddressError::UnknownAddress)
            }
            AddressChange::Removed if planned.len() == 1 => Err(AddressError::LastAddress),
            AddressChange::Added | AddressChange::Removed | AddressChange::MadePrimary => {
                if self.waiting.len() < MAX_WAITING { Ok(()) } else { Err(AddressError::TooMany) }
            }
        }
    }
}

impl Request {
    /// Whether it is about the source of its packet, or about all other addresses (RFC 5061 sections
    /// 4.2.1 and 4.2.2).
    fn is_wildcard(&self) -> bool {
        self.address.is_unspecified()
    }

    pub(super) fn removes(&self) -> bool {
        self.change == AddressChange::Removed
    }

    fn parameter(&self, correlation: u32) -> Parameter<'static> {
        let address = if self.untold { wildcard(self.address) } else { self.address };
        let request = AddressRequest { correlation, address };
        match self.change {
            AddressChange::Added => Parameter::AddIpAddress(request),
            AddressChange::Removed => Parameter::DeleteIpAddress(request),
            AddressChange::MadePrimary => Parameter::SetPrimaryAddress(request),
        }
    }
}

impl Association {
    /// The peer has answered an ASCONF (rules A5 to A8, F0).
    pub(super) fn handle_asconf_ack(
        &mut self,
        cx: &mut Context<'_>,
        arrival: &Arrival<'_>,
        ack: &AsconfAck<'_>,
    ) {
        let Some(changes) = &mut self.addresses else { return };
        match changes.running.take_if(|running| running.sequence == ack.sequence) {
            Some(running) => {
                self.errors.clear();
                self.addressing().conclude_asconf(cx, arrival, running, ack);
            }
            // Larger than any that was sent.
            None if ack.sequence.wrapping_sub(changes.next_sequence) < 1 << 31 => {
                cx.counters.protocol_violations += 1;
                let reason = CloseReason::ProtocolViolation("ASCONF-ACK for no ASCONF");
                self.ending().abort_because(cx, &Cause::IllegalAsconfAck, reason);
            }
            None => cx.counters.stale_asconfs += 1,
        }
    }
}

impl Addressing<'_> {
    /// An ASCONF that is under way goes on from addresses that it may not even mention, if there is no
    /// other way left for it, unless they are withheld.
    pub(crate) fn take_detour(&mut self, cx: &Context<'_>) {
        let running = self.addresses.as_ref().is_some_and(|changes| changes.running.is_some());
        if !(running && self.paths.is_cut_off()) || self.handshake.is_withheld() {
            return;
        }
        let locals = cx.own_locals(self.realm(cx));
        let usable: Vec<_> = locals.iter().map(|local| local.addr.ip()).collect();
        let pending = self.add_sources(cx, &usable);
        let running = self.addresses.as_mut().and_then(|changes| changes.running.as_mut());
        if let Some(running) = running.filter(|_| !pending.is_empty()) {
            running.pending = pending;
            running.retry.send_again();
        }
    }

    /// Makes an ASCONF of what waits, unless one is under way (rule A3).
    pub(super) fn start_asconf(&mut self, cx: &Context<'_>) {
        self.introduce_untold();
        let Some(changes) = &mut self.addresses else { return };
        if changes.running.is_some() || changes.waiting.is_empty() || !self.state.sends_data() {
            return;
        }
        let adds = |request: &Request| request.change == AddressChange::Added;
        // Without a new address it could not leave.
        if self.paths.iter().all(|path| path.health().is_suspended())
            && !changes.waiting.iter().any(adds)
        {
            return;
        }
        let (requests, parameters) = changes.take_requests();
        let sequence = changes.take_sequence();
        let leaving = |address: &IpAddr| {
            requests.iter().any(|(_, it)| it.removes() && it.address == *address)
        };
        let told = || changes.own.iter().filter(|own| !changes.is_untold(**own));
        let staying = told().find(|address| !leaving(address)).or(told().next()).copied();
        let any = requests.first().map(|(_, request)| wildcard(request.address));
        let Some(lookup) = staying.or(any) else { return };
        let moves = requests.iter().any(|(_, request)| request.is_wildcard());
        let lookup = if moves && !changes.told { wildcard(lookup) } else { lookup };
        let plain: Vec<_> = requests.iter().map(|(_, request)| *request).collect();
        let pending = self.leave_sources(cx, &plain);
        let (retry, path) = (Retry::new(), self.paths.control_path());
        let Some(changes) = &mut self.addresses else { return };
        let introduces = changes.introduces.take();
        changes.running = Some(Running {
            sequence,
            requests,
            parameters,
            lookup,
            retry,
            path,
            introduces,
            pending,
        });
    }

    /// Appends the ASCONF that is due on path `id`.
    pub(super) fn write_asconf(
        &mut self,
        cx: &Context<'_>,
        id: PathId,
        packet: &mut PacketWriter<'_>,
    ) {
        if path(self.addresses.as_deref(), self.paths) != id {
            return;
        }
        let own = self.paths.get(id).map(|path| path.rtt().rto());
        let rto = self.paths.control_rto().max(own.unwrap_or_default());
        let running = self.addresses.as_mut().and_then(|changes| changes.running.as_mut());
        let Some(running) = running.filter(|running| running.retry.is_due()) else { return };
        let parameters = Parameters::from_bytes(&running.parameters);
        let asconf = Asconf { sequence: running.sequence, address: running.lookup, parameters };
        if packet.push(&Chunk::Asconf(asconf)).is_ok() {
            running.retry.on_send(cx.now, rto);
            running.path = id;
        }
    }

    /// T4-rto has expired (rules B1 to B5). The next path is one that has failed less. Returns the path that has failed
    /// once more, and whether that counts for the association.
    pub(super) fn retry_asconf(&mut self, now: Instant) -> Option<(PathId, bool)> {
        let running = self.addresses.as_mut().and_then(|changes| changes.running.as_mut());
        let running = running.filter(|_| self.state.sends_data())?;
        if !running.retry.expire(now) {
            return None;
        }
        let (path, counts) = (running.path, running.introduces != Some(running.path));
        if let Some(path) = self.paths.get_mut(path) {
            path.rtt_mut().back_off();
        }
        Some((path, counts))
    }

    /// The user wants one of our addresses to be added, removed or preferred.
    pub(crate) fn change_address(
        &mut self,
        cx: &mut Context<'_>,
        change: AddressChange,
        address: IpAddr,
    ) -> Result<(), AddressError> {
        let request = self.checked_request(cx, change, address)?;
        if request.untold {
            return self.change_untold(cx, request);
        }
        let Some(changes) = &mut self.addresses else { return Ok(()) };
        match changes.take_back(request) {
            None => changes.waiting.push_back(request),
            Some(removal) => {
                self.conclude_change(cx, removal, false, None);
                self.conclude_change(cx, request, false, None);
            }
        }
        Ok(())
    }

    /// The request for a change, if it is possible.
    fn checked_request(
        &self,
        cx: &Context<'_>,
        change: AddressChange,
        address: IpAddr,
    ) -> Result<Request, AddressError> {
        // As long as there is data to be delivered.
        if !self.state.sends_data() {
            return Err(AddressError::NotEstablished);
        }
        let changes = self.addresses.as_ref().ok_or(AddressError::NotSupported)?;
        let added = change == AddressChange::Added;
        if added && self.handshake.withheld != Withheld::No {
            return Err(AddressError::Withheld);
        }
        let fits = cx.realm_of(address) == changes.realm;
        if added && !(fits && cx.locals.iter().any(|local| local.addr.ip() == address)) {
            return Err(AddressError::UnknownAddress);
        }
        let untold =
            changes.is_untold(address) || added && !cx.may_tell(address, &self.handshake.path);
        let request = Request { change, address, untold };
        changes.check(request)?;
        Ok(request)
    }

    /// All our addresses have gone and `address` has come: the association moves there. What else is
    /// requested holds behind a NAT, too, where the peer knows us by another address.
    pub(crate) fn move_to(&mut self, cx: &Context<'_>, address: IpAddr) {
        let Ok(request) = self.checked_request(cx, AddressChange::Added, address) else { return };
        let Some(changes) = &mut self.addresses else { return };
        changes.waiting.push_back(request);
        let source = wildcard(address);
        let mut requests = Vec::new();
        match request.untold {
            true => changes.untold.push((address, true)),
            false => requests.push((AddressChange::Added, source)),
        }
        let gone = |old: &IpAddr| !cx.locals.iter().any(|local| local.addr.ip() == *old);
        for old in changes.planned().into_iter().filter(gone) {
            match changes.is_untold(old) {
                true => changes.forget_untold(old),
                false => requests.push((AddressChange::Removed, old)),
            }
        }
        if !changes.told {
            requests.push((AddressChange::Removed, source));
        }
        let request = |(change, address)| Request { change, address, untold: false };
        changes.waiting.extend(requests.into_iter().map(request));
    }

    fn conclude_asconf(
        &mut self,
        cx: &mut Context<'_>,
        arrival: &Arrival<'_>,
        running: Running,
        ack: &AsconfAck<'_>,
    ) {
        self.paths.sample(cx.now, running.path, running.retry.round_trip(cx.now));
        if let Some(path) = self.paths.get_mut(running.path) {
            path.health_mut().clear_errors();
        }
        self.confirm_pending(cx, arrival.addr, &running.pending);
        self.confirm_pending(cx, arrival.addr, running.introduces.as_slice());
        let first_failed = running.requests.iter().position(|(id, _)| failure(ack, *id).is_some());
        for (at, (correlation, request)) in running.requests.into_iter().enumerate() {
            let after = first_failed.is_some_and(|failed| at >= failed);
            let failed = after && !succeeded(ack, correlation);
            self.conclude_change(cx, request, failed, failure(ack, correlation).flatten());
        }
        self.refresh_paths(cx);
        self.drop_foreign_sources();
    }

    fn conclude_change(
        &mut self,
        cx: &mut Context<'_>,
        request: Request,
        failed: bool,
        cause: Option<Cause<'_>>,
    ) {
        let Some(changes) = &mut self.addresses else { return };
        let Request { change, address, .. } = request;
        if request.is_wildcard() {
            return;
        }
        let denied = matches!(cause, Some(Cause::NoAuthorization(_)));
        let outcome = match (failed, denied) {
            (false, _) => ReconfigurationOutcome::Performed,
            (true, true) => ReconfigurationOutcome::Denied,
            (true, false) => ReconfigurationOutcome::Failed,
        };
        // Rules F3a and F3b.
        let understood = !matches!(cause, Some(Cause::UnrecognizedParameters(_)));
        match change {
            AddressChange::Added | AddressChange::Removed => changes.refuses.0 |= !understood,
            AddressChange::MadePrimary => changes.refuses.1 |= !understood,
        }
        if !failed {
            changes.own.retain(|own| *own != address || !request.removes());
            if change == AddressChange::Added && !changes.own.contains(&address) {
                changes.own.push(address);
            }
        }
        cx.emit(self.id, Event::LocalAddress { address, change, outcome });
    }

    /// The peer does not know ASCONF after all (rule A9).
    pub(super) fn give_up_asconf(&mut self, cx: &mut Context<'_>) {
        let Some(changes) = &mut self.addresses else { return };
        changes.refuses = (true, true);
        self.abandon_asconf(cx);
        self.refresh_paths(cx);
        self.drop_foreign_sources();
    }

    /// What was asked for about addresses will not be done.
    pub(super) fn abandon_asconf(&mut self, cx: &mut Context<'_>) {
        let Some(changes) = &mut self.addresses else { return };
        let running = changes.running.take().into_iter().flat_map(|it| it.requests);
        let waiting = core::mem::take(&mut changes.waiting);
        for request in running.map(|(_, request)| request).chain(waiting) {
            self.conclude_change(cx, request, true, None);
        }
    }
}

impl AddressChanges {
    /// Asks the peer to add the source of a packet from `local` that goes over `path`, unless something
    /// else is under way.
    pub(super) fn request_source(&mut self, local: IpAddr, path: PathId) {
        if self.running.is_some() || !self.waiting.is_empty() || self.refuses.0 {
            return;
        }
        let (change, address) = (AddressChange::Added, wildcard(local));
        self.waiting.push_back(Request { change, address, untold: false });
        self.introduces = Some(path);
    }

    /// Whether something is under way or waits.
    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some() || !self.waiting.is_empty()
    }

    /// The number of the next ASCONF.
    fn take_sequence(&mut self) -> u32 {
        let sequence = self.next_sequence;
        self.next_sequence = sequence.wrapping_add(1);
        sequence
    }

    /// What fits into one ASCONF of all that waits, with correlation ids. An address does not leave and
    /// come back in the same one: a path from there would be old and new at once.
    fn take_requests(&mut self) -> (Vec<(u32, Request)>, Vec<u8>) {
        let mut parameters = alloc::vec![0; MAX_REQUESTS];
        let mut writer = ParameterWriter::new(&mut parameters);
        let mut requests = Vec::new();
        while let Some(request) = self.waiting.front() {
            let correlation = self.next_correlation;
            let returns = request.change == AddressChange::Added
                && requests.iter().any(|(_, it): &(u32, Request)| it.address == request.address);
            if returns {
                break;
            }
            if writer.push(&request.parameter(correlation)).is_err() {
                break;
            }
            self.next_correlation = correlation.wrapping_add(1);
            requests.extend(self.waiting.pop_front().map(|request| (correlation, request)));
        }
        let used = writer.finish();
        parameters.truncate(used);
        (requests, parameters)
    }
}

/// The path for the ASCONF under way: repeated, it takes the best one.
pub(super) fn path(changes: Option<&AddressChanges>, paths: &Paths) -> PathId {
    let running = changes.and_then(|changes| changes.running.as_ref());
    let first = running.filter(|running| running.retry.sends() == 0);
    let wanted = first.and_then(|running| running.introduces);
    let there =
        wanted.filter(|id| paths.get(*id).is_some_and(|path| !path.health().is_suspended()));
    there.unwrap_or_else(|| paths.control_path())
}

/// Whether an ASCONF is to be sent.
pub(super) fn is_due(changes: Option<&AddressChanges>) -> bool {
    changes.and_then(|it| it.running.as_ref()).is_some_and(|running| running.retry.is_due())
}

/// Whether nothing but an ASCONF may be sent: no address is left that the peer knows.
pub(super) fn is_renumbering(changes: Option<&AddressChanges>) -> bool {
    changes.and_then(|it| it.running.as_ref()).is_some_and(|running| !running.pending.is_empty())
}

/// The unspecified address of the family of `address`.
fn wildcard(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Whether the request with this correlation id is said to have failed, and the first cause.
fn failure<'a>(ack: &AsconfAck<'a>, correlation: u32) -> Option<Option<Cause<'a>>> {
    ack.parameters.iter().map_while(Result::ok).find_map(|parameter| {
        let Parameter::ErrorIndication(error) = parameter else { return None };
        (error.correlation == correlation).then(|| first(error.causes))
    })
}

fn succeeded(ack: &AsconfAck<'_>, correlation: u32) -> bool {
    let said = Parameter::SuccessIndication(correlation);
    ack.parameters.iter().map_while(Result::ok).any(|parameter| parameter == said)
}

fn first(causes: Causes<'_>) -> Option<Cause<'_>> {
    causes.iter().next().and_then(Result::ok)
}

#[cfg(test)]
mod tests {
    use super::{AddressChanges, Tsn};

    #[test]
    fn sequence_numbers_wrap() {
        let mut changes = AddressChanges::new(std::vec![], true, Tsn(u32::MAX), Tsn(7));
        assert_eq!([changes.take_sequence(), changes.take_sequence()], [u32::MAX, 0]);
        assert_eq!(changes.expected, 7);
    }
}
