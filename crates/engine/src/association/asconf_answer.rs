//! Addresses that come and go: what the peer requests (RFC 5061 sections 5.2 and 5.3).

use super::asconf::AddressChanges;
use super::authentication::{Admission, Authenticity};
use super::context::Context;
use super::control::Control;
use super::packets::Packets;
use super::path_manager::Addressing;
use super::receive::Arrival;
use super::state::State;
use super::tcb::Association;
use crate::event::{AddressChange, Event};
use crate::path::{PathAddr, PathState, pairing};
use crate::transmit::REPLY_SIZE;
use alloc::vec::Vec;
use core::net::IpAddr;
use manypath_wire::cause::{Cause, CauseWriter, Causes};
use manypath_wire::chunk::{Asconf, AsconfAck, Chunk};
use manypath_wire::error::NoRoom;
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{
    AddressRequest, ErrorIndication, Parameter, ParameterWriter, Parameters, UnknownParameter,
};

/// Bytes of the responses of one ASCONF-ACK: with AUTH it fits the smallest MTU of IPv4.
const MAX_RESPONSES: usize = 480;
/// A request in an error cause in an error indication: the largest is one about an IPv6 address.
const MAX_ERROR: usize = 64;
/// Answers that are kept, for a peer that bundles its repetitions (section 5.5).
const MAX_ANSWERS: usize = 4;

/// Why the peer's address is not added or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Objection {
    LastAddress,
    SourceAddress,
    NoResources,
    NotAllowed,
    UnknownAddress,
}

/// The responses to the requests of one ASCONF.
struct Responses<'b> {
    writer: ParameterWriter<'b>,
    /// A request has failed: successes have to be said from now on (rule A7).
    failed: bool,
    /// An address found no place: all later requests fail as well (rule F11).
    refusing: bool,
}

impl Association {
    /// A packet with our tag came from an address that is not the peer's. If it is an authentic ASCONF
    /// that names one that is, it is processed; nothing else is (section 5.2 rules D2 and D5, section
    /// 5.3.2).
    pub(super) fn handle_unknown_source(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        packet: Packet<'_>,
        protected: bool,
    ) {
        let via = self.paths.control_path();
        let mut arrival = Arrival::new(packet, addr, via, Authenticity::None);
        arrival.protected = protected;
        let mut chunks = packet.chunks();
        let mut answered = false;
        loop {
            arrival.rest = chunks.rest();
            let Some(Ok(chunk)) = chunks.next() else { break };
            let reports = (self.id, &mut self.control);
            match (self.security.admit(cx, reports, &mut arrival, &chunk), chunk) {
                // In a record "The lookup address MUST NOT be used" (DTLS chunk draft, section 3.2).
                (Admission::Process, Chunk::Asconf(asconf))
                    if protected || self.addressing().may_be_asked(&asconf) =>
                {
                    let Some(answer) = self.addressing().answer_asconf(cx, addr, &asconf) else {
                        continue;
                    };
                    reply(cx, addr, answer, &mut self.packets());
                    answered = true;
                }
                (Admission::Process | Admission::Skip, _) => {}
                (Admission::Stop, _) => break,
            }
        }
        cx.counters.unknown_addresses += u64::from(!answered);
    }
}

impl Addressing<'_> {
    /// An ASCONF arrived.
    pub(super) fn handle_asconf(
        &mut self,
        cx: &mut Context<'_>,
        arrival: &Arrival<'_>,
        asconf: &Asconf<'_>,
    ) {
        let Some((sequence, responses)) = self.answer_asconf(cx, arrival.addr, asconf) else {
            return;
        };
        let path = self.paths.by_addr(&arrival.addr).unwrap_or(arrival.via);
        if self.control.push(path, Control::AsconfAck(sequence, responses)).is_err() {
            cx.counters.control_drops += 1;
        }
    }

    /// The ASCONF-ACK for an ASCONF that came over `addr`: its sequence number and responses. None if
    /// there is none (rules E1 to E5).
    fn answer_asconf(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        asconf: &Asconf<'_>,
    ) -> Option<(u32, Vec<u8>)> {
        let takes = self.state.sends_data() || matches!(self.state, State::ShutdownSent(_));
        let Some(changes) = self.addresses.as_mut().filter(|_| takes) else {
            cx.counters.unexpected_chunks += 1;
            return None;
        };
        if asconf.sequence != changes.expected {
            let cached = changes.answer(asconf.sequence);
            cx.counters.stale_asconfs += 1;
            return cached;
        }
        changes.expected = asconf.sequence.wrapping_add(1);
        let mut bytes = alloc::vec![0; MAX_RESPONSES];
        let writer = ParameterWriter::new(&mut bytes);
        let mut responses = Responses { writer, failed: false, refusing: false };
        for parameter in asconf.parameters.iter().map_while(Result::ok) {
            if self.process_change(cx, addr, &parameter, &mut responses).is_err() {
                break;
            }
        }
        let used = responses.writer.finish();
        bytes.truncate(used);
        if let Some(changes) = &mut self.addresses {
            changes.keep(asconf.sequence, bytes.clone());
        }
        Some((asconf.sequence, bytes))
    }

    /// Whether an authentic ASCONF names an address of the peer. One that was answered before may name
    /// one that it has removed itself: its answer is lost, and it is repeated from elsewhere.
    fn may_be_asked(&self, asconf: &Asconf<'_>) -> bool {
        let answers = self.addresses.iter().flat_map(|changes| &changes.answers);
        let mut answered = answers.map(|(sequence, _)| *sequence);
        asconf.address.is_unspecified()
            || self.peer_addresses.contains(&asconf.address)
            || self.addresses.iter().any(|changes| changes.unreached.contains(&asconf.address))
            || answered.any(|sequence| sequence == asconf.sequence)
    }

    /// Does what one parameter requests and writes what is said to it. Without room for that nothing
    /// more is done: what is not mentioned after a failure has failed as well (rule A7).
    fn process_change(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        parameter: &Parameter<'_>,
        responses: &mut Responses<'_>,
    ) -> Result<(), NoRoom> {
        if let Parameter::Unknown(unknown) = parameter {
            return responses.process_unknown(unknown);
        }
        let refusing = responses.refusing;
        let Some((request, result)) = self.perform_change(cx, addr, parameter, refusing) else {
            // RFC 5061 section 4.2: "If the receiver chooses NOT to abort, the parameter MUST be ignored."
            return Ok(());
        };
        let Err(objection) = result else { return responses.succeed(request.correlation) };
        cx.counters.refused_addresses += 1;
        responses.refusing |= objection == Objection::NoResources;
        let mut copied = [0; MAX_ERROR];
        let mut copy = ParameterWriter::new(&mut copied);
        copy.push(parameter)?;
        let used = copy.finish();
        responses.fail(request.correlation, &objection.cause(&copied[..used]))
    }

    /// Does what one parameter requests. None if it is no request.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other parameter is ignored alike")]
    fn perform_change(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        parameter: &Parameter<'_>,
        refusing: bool,
    ) -> Option<(AddressRequest, Result<(), Objection>)> {
        let (request, result) = match *parameter {
            Parameter::AddIpAddress(it) | Parameter::DeleteIpAddress(it) if refusing => {
                (it, Err(Objection::NoResources))
            }
            Parameter::AddIpAddress(it) => (it, self.add_peer_address(cx, addr, it.address)),
            Parameter::DeleteIpAddress(it) => (it, self.delete_peer_address(cx, addr, it.address)),
            Parameter::SetPrimaryAddress(it) => {
                (it, self.prefer_peer_address(cx, addr, it.address))
            }
            _ => return None,
        };
        Some((request, result))
    }

    /// The peer has one more address. An unspecified one is the source of the packet. It may be of a
    /// family for which we get an address later: there is no path to it yet.
    fn add_peer_address(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        address: IpAddr,
    ) -> Result<(), Objection> {
        let wildcard = address.is_unspecified();
        let address = if wildcard { addr.remote.ip() } else { address };
        if !cx.config.accept_address_changes || !pairing::acceptable(&self.handshake.path, address)
        {
            return Err(Objection::NotAllowed);
        }
        if self.peer_addresses.contains(&address) {
            return Ok(());
        }
        if self.peer_addresses.len() >= pairing::MAX_ADDRESSES && !self.forget_failed(cx) {
            return Err(Objection::NoResources);
        }
        self.peer_addresses.push(address);
        if let Some(changes) = &mut self.addresses {
            changes.translated |= wildcard;
            changes.unreached.retain(|other| *other != address);
        }
        if addr.remote.ip() == address {
            let _full = self.add_path(cx, addr).is_none();
        }
        self.refresh_paths(cx);
        let change = AddressChange::Added;
        cx.emit(self.id, Event::PeerAddress { address, change });
        Ok(())
    }

    /// Makes room for an address of the peer: what a NAT has made of one that it has no more is not
    /// deleted by anybody.
    fn forget_failed(&mut self, cx: &mut Context<'_>) -> bool {
        let failed = |address: &&IpAddr| {
            let mut paths = self.paths.iter().filter(|path| path.addr().remote.ip() == **address);
            paths.next().is_some_and(|path| path.health().state() == PathState::Inactive)
                && paths.all(|path| path.health().state() == PathState::Inactive)
        };
        let Some(address) = self.peer_addresses.iter().find(failed).copied() else { return false };
        self.remove_peer_address(cx, address);
        true
    }

    /// The peer has one address less. An unspecified one stands for all but the source of the packet.
    fn delete_peer_address(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        address: IpAddr,
    ) -> Result<(), Objection> {
        let source = addr.remote.ip();
        if !cx.config.accept_address_changes {
            return Err(Objection::NotAllowed);
        }
        let victims: Vec<_> = if address.is_unspecified() {
            self.peer_addresses.iter().copied().filter(|other| *other != source).collect()
        } else {
            self.peer_addresses.iter().copied().filter(|other| *other == address).collect()
        };
        let stays = |remote: IpAddr| !victims.contains(&remote);
        if !victims.is_empty() && !self.paths.iter().any(|path| stays(path.addr().remote.ip())) {
            return Err(Objection::LastAddress);
        }
        if address == source {
            return Err(Objection::SourceAddress);
        }
        for victim in victims {
            self.remove_peer_address(cx, victim);
        }
        self.refresh_paths(cx);
        Ok(())
    }

    /// The peer prefers one of its addresses (section 5.4).
    fn prefer_peer_address(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        address: IpAddr,
    ) -> Result<(), Objection> {
        let address = if address.is_unspecified() { addr.remote.ip() } else { address };
        if !cx.config.accept_address_changes {
            return Err(Objection::NotAllowed);
        }
        if self.prefer(cx, address) { Ok(()) } else { Err(Objection::UnknownAddress) }
    }
}

impl AddressChanges {
    /// What ASCONF `sequence` was answered with.
    fn answer(&self, sequence: u32) -> Option<(u32, Vec<u8>)> {
        self.answers.iter().find(|(number, _)| *number == sequence).cloned()
    }

    fn keep(&mut self, sequence: u32, responses: Vec<u8>) {
        if self.answers.len() == MAX_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((sequence, responses));
    }
}

impl Objection {
    /// What is said about `request`, copied whole.
    fn cause(self, request: &[u8]) -> Cause<'_> {
        match self {
            Self::LastAddress => Cause::DeleteLastAddress(request),
            Self::SourceAddress => Cause::DeleteSourceAddress(request),
            Self::NoResources => Cause::ResourceShortage(request),
            Self::NotAllowed => Cause::NoAuthorization(request),
            Self::UnknownAddress => Cause::UnresolvableAddress(request),
        }
    }
}

impl Responses<'_> {
    /// A parameter of unknown type: its highest bits say what is to be done (rule V2).
    fn process_unknown(&mut self, unknown: &UnknownParameter<'_>) -> Result<(), NoRoom> {
        let (action, raw) = (unknown.action(), unknown.raw());
        let correlation = raw.get(4..).and_then(<[u8]>::first_chunk).copied();
        if let (true, Some(correlation)) = (action.report, correlation) {
            let cause = Cause::UnrecognizedParameters(&raw[..raw.len().min(MAX_ERROR)]);
            self.fail(u32::from_be_bytes(correlation), &cause)?;
        }
        if action.stop { Err(NoRoom) } else { Ok(()) }
    }

    fn succeed(&mut self, correlation: u32) -> Result<(), NoRoom> {
        if !self.failed {
            return Ok(());
        }
        self.writer.push(&Parameter::SuccessIndication(correlation))
    }

    fn fail(&mut self, correlation: u32, cause: &Cause<'_>) -> Result<(), NoRoom> {
        self.failed = true;
        let mut buffer = [0; MAX_ERROR + 16];
        let mut causes = CauseWriter::new(&mut buffer);
        causes.push(cause)?;
        let used = causes.finish();
        let causes = Causes::from_bytes(&buffer[..used]);
        self.writer.push(&Parameter::ErrorIndication(ErrorIndication { correlation, causes }))
    }
}

/// The answer to an ASCONF, a sequence number and responses, goes where the request came from (rule E6), even if that
/// is no path.
fn reply(
    cx: &mut Context<'_>,
    addr: PathAddr,
    (sequence, responses): (u32, Vec<u8>),
    packets: &mut Packets<'_>,
) {
    let parameters = Parameters::from_bytes(&responses);
    let mut bytes = alloc::vec![0; REPLY_SIZE];
    let mut packet = packets.begin(&mut bytes);
    // `MAX_RESPONSES` leave room for all headers.
    let _no_room = packet.push(&Chunk::AsconfAck(AsconfAck { sequence, parameters })).is_err();
    let path = packets.paths.by_addr(&addr);
    let len = packets.complete(path, packet);
    bytes.truncate(len);
    if len > 0 {
        cx.answer(addr, bytes);
    }
}
