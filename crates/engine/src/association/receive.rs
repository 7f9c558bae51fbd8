//! Packets that carry our tag: chunk by chunk to the handlers (RFC 9260 sections 6.10 and 8.5).

use super::addresses::is_leaving;
use super::authentication::{Admission, Authenticity};
use super::context::Context;
use super::ecn;
use super::state::State;
use super::statistics::DataTraits;
use super::tcb::Association;
use super::teardown;
use super::unverified;
use super::user::announce_aborted_parts;
use crate::config::{NrSack, SackPath};
use crate::delivery::Delivery;
use crate::ecn::Ecn;
use crate::event::{CloseReason, Event};
use crate::path::{Path, PathAddr, PathId, Paths};
use crate::recv::{DataOutcome, Receiver};
use crate::send::SackView;
use crate::time::Duration;
use core::ops::ControlFlow::{self, Break, Continue};
use manypath_wire::Tsn;
use manypath_wire::cause::{Cause, Causes};
use manypath_wire::chunk::{Chunk, Unknown, types};
use manypath_wire::packet::Packet;

/// Most bytes of a chunk that an ERROR reports back.
const MAX_REPORTED: usize = 512;

/// A packet while its chunks are being processed.
#[derive(Debug)]
pub(super) struct Arrival<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    /// Its addresses.
    pub addr: PathAddr,
    /// The path it came over.
    pub via: PathId,
    /// The packet from the chunk under work on.
    pub rest: &'a [u8],
    /// What is known of the authenticity of the chunk under work.
    pub authenticity: Authenticity,
    /// It came in a DTLS chunk.
    pub protected: bool,
    /// What the IP header says of congestion.
    pub ecn: Ecn,
    /// The lowest new TSN in it so far.
    pub lowest_tsn: Option<Tsn>,
    has_data: bool,
    /// A SACK must be sent at once.
    immediate: bool,
}

impl<'a> Arrival<'a> {
    /// None of its chunks has been processed.
    pub(super) fn new(
        packet: Packet<'a>,
        addr: PathAddr,
        via: PathId,
        authenticity: Authenticity,
    ) -> Self {
        let (ecn, lowest_tsn) = (Ecn::NotEct, None);
        let (has_data, immediate, protected) = (false, false, false);
        let rest = &[];
        Self {
            packet,
            addr,
            via,
            rest,
            authenticity,
            protected,
            ecn,
            lowest_tsn,
            has_data,
            immediate,
        }
    }
}

impl Association {
    pub(super) fn process_packet(
        &mut self,
        cx: &mut Context<'_>,
        (addr, packet, protected): (PathAddr, Packet<'_>, bool),
        (len, delivery): (usize, Delivery),
        authenticity: Authenticity,
    ) {
        let via = self.addressing().arrival_path(cx, addr);
        let via = via.or_else(|| self.handshake.path_of_answer(&self.state, &addr, packet));
        let Some(via) = via else {
            return self.handle_unknown_source(cx, addr, packet, protected);
        };
        unverified::earn(self, cx, &addr, len);
        if protected {
            self.security.note_checksum(via, packet.has_checksum());
        }
        if let Some(path) = self.paths.get_mut(via) {
            path.stats_mut().packets_received += 1;
            path.stats_mut().bytes_received += len as u64;
            // A packet at an address that is no path yet came another way.
            if path.addr() == addr {
                path.rtt_mut().note_order(delivery.in_order);
            }
        }
        self.statistics.on_packet();
        let ecn = delivery.ecn;
        let mut arrival =
            Arrival { ecn, protected, ..Arrival::new(packet, addr, via, authenticity) };
        let mut chunks = packet.chunks();
        loop {
            arrival.rest = chunks.rest();
            let Some(chunk) = chunks.next() else { break };
            let Ok(chunk) = chunk else {
                cx.counters.malformed_chunks += 1;
                break;
            };
            let reports = (self.id, &mut self.control);
            match self.security.admit(cx, reports, &mut arrival, &chunk) {
                Admission::Process => {}
                Admission::Skip => continue,
                Admission::Stop => break,
            }
            self.statistics.on_chunk(&chunk);
            if self.handle_chunk(cx, &mut arrival, chunk).is_break() || self.state.is_closed() {
                break;
            }
        }
        if let Some(path) = self.paths.get_mut(via).filter(|_| arrival.has_data) {
            path.on_data_received(cx.now, len);
            if cx.config.experiment.sack_path == SackPath::SmallestSrtt {
                path.insist_on_round_trip(cx.now, cx.config);
            }
        }
        self.end_packet(cx, &arrival);
    }

    fn handle_chunk(
        &mut self,
        cx: &mut Context<'_>,
        arrival: &mut Arrival<'_>,
        chunk: Chunk<'_>,
    ) -> ControlFlow<()> {
        let receiver = self.peer.as_ref().map(|peer| &peer.receiver);
        let agreed = |on: fn(&Receiver) -> bool| receiver.is_some_and(on);
        match chunk {
            Chunk::Data(data) => {
                let (tsn, unordered, immediate) = (data.tsn, data.unordered, data.immediate);
                let traits = Some(DataTraits { tsn, unordered, immediate });
                return self.handle_data(cx, arrival, traits, |it| it.handle_data(&data));
            }
            Chunk::IData(data) => {
                let (tsn, unordered, immediate) = (data.tsn, data.unordered, data.immediate);
                let traits = Some(DataTraits { tsn, unordered, immediate });
                return self.handle_data(cx, arrival, traits, |it| it.handle_i_data(&data));
            }
            Chunk::IForwardTsn(forward)
                if agreed(|it| it.expects_forward_tsn() || !it.is_interleaving()) =>
            {
                return self.handle_data(cx, arrival, None, |it| it.handle_i_forward_tsn(&forward));
            }
            Chunk::ForwardTsn(forward)
                if agreed(|it| it.expects_forward_tsn() && !it.is_interleaving()) =>
            {
                return self
                    .handle_data(cx, arrival, None, |it| Ok(it.handle_forward_tsn(&forward)));
            }
            Chunk::ReConfig(chunk) if self.reconfiguration.is_agreed() => {
                self.handle_re_config(cx, arrival.via, &chunk);
            }
            Chunk::Asconf(asconf) if self.addresses.is_some() => {
                self.addressing().handle_asconf(cx, arrival, &asconf);
            }
            Chunk::AsconfAck(ack) if self.addresses.is_some() => {
                self.handle_asconf_ack(cx, arrival, &ack);
            }
            Chunk::Sack(sack) => self.handle_sack(cx, arrival.via, &SackView::of_sack(&sack)),
            Chunk::NrSack(sack) if agreed(|it| it.nr_sack() != NrSack::Off) => {
                self.handle_sack(cx, arrival.via, &SackView::of_nr_sack(&sack));
            }
            Chunk::InitAck(ack) if is_alone(&arrival.packet) => {
                self.handle_init_ack(cx, arrival.addr, &ack);
            }
            // "They MUST be the only chunks present in the SCTP packets that carry them": the
            // packet is dropped. A lone INIT with our tag instead of zero is dropped as well.
            Chunk::Init(_) | Chunk::InitAck(_) => {
                cx.counters.unexpected_chunks += 1;
                return Break(());
            }
            Chunk::Heartbeat(heartbeat) => {
                self.path_manager().hear_policy(cx, arrival.via, heartbeat.info);
                self.addressing().handle_heartbeat(cx, arrival.via, arrival.rest);
            }
            Chunk::HeartbeatAck(ack) => self.handle_heartbeat_ack(cx, ack.info),
            Chunk::Abort(abort) => {
                let is_leaving = is_leaving(self.addresses.as_deref(), arrival.addr.local.ip());
                self.ending().handle_abort(cx, arrival, &abort, is_leaving);
                return Break(());
            }
            Chunk::Shutdown(shutdown) => self.handle_shutdown(cx, arrival.via, shutdown.cum_tsn),
            Chunk::ShutdownAck => self.ending().handle_shutdown_ack(cx, arrival),
            Chunk::ShutdownComplete(complete) => {
                self.ending().handle_shutdown_complete(cx, arrival, complete);
                return Break(());
            }
            Chunk::Error(error) => self.handle_error(cx, error.causes),
            // As the first chunk it has been dealt with before the association was looked up.
            Chunk::CookieEcho(_) => arrival.immediate = true,
            Chunk::CookieAck => self.handle_cookie_ack(cx, arrival.via),
            // RFC 9260 only reserves these; if ECN was not agreed on they mean nothing.
            Chunk::Ecne(ecne) => self.path_manager().handle_ecne(cx, ecne),
            Chunk::Cwr(cwr) => {
                if let Some(peer) = &mut self.peer {
                    peer.receiver.handle_cwr(arrival.via, cwr);
                }
            }
            // "The receiver of the PAD chunk MUST discard this chunk and continue"
            Chunk::Pad(_) => {}
            // Not negotiated, so it is a chunk of unknown type.
            Chunk::NrSack(_)
            | Chunk::Auth(_)
            | Chunk::Dtls(_)
            | Chunk::AsconfAck(_)
            | Chunk::ReConfig(_)
            | Chunk::ForwardTsn(_)
            | Chunk::IForwardTsn(_)
            | Chunk::Asconf(_) => {
                let unknown = Unknown::from_bytes(arrival.rest);
                return unknown
                    .map_or(Continue(()), |it| self.handle_unknown(cx, arrival.via, &it));
            }
            Chunk::Unknown(unknown) => return self.handle_unknown(cx, arrival.via, &unknown),
        }
        Continue(())
    }

    fn handle_data(
        &mut self,
        cx: &mut Context<'_>,
        arrival: &mut Arrival<'_>,
        data: Option<DataTraits>,
        handle: impl FnOnce(&mut Receiver) -> Result<DataOutcome, &'static str>,
    ) -> ControlFlow<()> {
        let takes = self.state.takes_data();
        let Some(peer) = self.peer.as_mut().filter(|_| takes) else {
            cx.counters.unexpected_chunks += 1;
            return Break(());
        };
        arrival.has_data = true;
        arrival.immediate |= data.is_some_and(|data| data.immediate);
        let cum = peer.receiver.cum_tsn();
        let outcome = handle(&mut peer.receiver);
        if let (Ok(outcome), Some(data)) = (&outcome, data) {
            self.statistics.on_data(data, cum, outcome);
        }
        match outcome {
            Ok(DataOutcome::Accepted) => {
                arrival.lowest_tsn = lowest(arrival.lowest_tsn, data.map(|data| data.tsn));
                let paths = &self.paths;
                peer.receiver.fit_buffer(cx.now, || slowest_round_trip(paths));
            }
            Ok(DataOutcome::Duplicate) => cx.counters.duplicate_data += 1,
            Ok(DataOutcome::BufferFull) => cx.counters.receive_buffer_drops += 1,
            Ok(DataOutcome::MemoryFull) => cx.counters.receive_memory_drops += 1,
            Ok(DataOutcome::BeyondReport) => cx.counters.tsns_too_far_ahead += 1,
            Ok(DataOutcome::AwaitsRestart) => cx.counters.data_before_reset += 1,
            Ok(DataOutcome::InvalidStream(stream)) => {
                cx.counters.invalid_streams += 1;
                self.control.report(cx, arrival.via, &Cause::InvalidStreamIdentifier(stream));
            }
            Ok(DataOutcome::NoUserData(tsn)) => {
                cx.counters.protocol_violations += 1;
                let reason = CloseReason::ProtocolViolation("DATA without user data");
                self.ending().abort_because(cx, &Cause::NoUserData(tsn), reason);
            }
            Err(text) => self.ending().violation(cx, text),
        }
        Continue(())
    }

    fn handle_sack(&mut self, cx: &mut Context<'_>, via: PathId, sack: &SackView<'_>) {
        if !(self.state.sends_data() || matches!(self.state, State::ShutdownSent(_))) {
            cx.counters.unexpected_chunks += 1;
            return;
        }
        match self.sender.handle_sack(cx.now, sack, via, &mut self.paths) {
            Ok(outcome) => self.after_sack(cx, &outcome),
            Err(text) => self.ending().violation(cx, text),
        }
    }

    /// What newly acknowledged data means for the paths and for the user.
    pub(super) fn after_sack(&mut self, cx: &mut Context<'_>, outcome: &crate::send::SackOutcome) {
        cx.counters.stale_sacks += u64::from(outcome.stale);
        if outcome.newly_acked {
            self.errors.clear();
        }
        for id in outcome.acked_paths.iter() {
            self.path_manager().path_acked(cx, id);
        }
        for id in outcome.silent_paths.iter() {
            self.path_manager().suspect(cx, id);
        }
        self.path_manager().look_for_black_holes(cx);
        self.path_manager().count_ecn_failures(cx);
        self.upper_layer().announce_writable(cx);
    }

    fn handle_error(&mut self, cx: &mut Context<'_>, causes: Causes<'_>) {
        let stale = |cause: Cause<'_>| matches!(cause, Cause::StaleCookie { .. });
        if causes.iter().map_while(Result::ok).any(stale) {
            self.handle_stale_cookie();
        }
        let asconf = |cause| matches!(cause, Cause::UnrecognizedChunkType(chunk) if chunk.first() == Some(&types::ASCONF));
        if causes.iter().map_while(Result::ok).any(asconf) {
            self.addressing().give_up_asconf(cx);
        }
        cx.counters.errors_received += 1;
        let causes = bytes::Bytes::copy_from_slice(causes.as_bytes());
        cx.emit(self.id, Event::PeerError { causes });
    }

    fn handle_unknown(
        &mut self,
        cx: &mut Context<'_>,
        via: PathId,
        unknown: &Unknown<'_>,
    ) -> ControlFlow<()> {
        cx.counters.unknown_chunks += 1;
        let interleaves = self.peer.as_ref().is_some_and(|peer| peer.receiver.is_interleaving());
        if interleaves && unknown.type_byte == types::FORWARD_TSN {
            self.ending().violation(cx, "FORWARD-TSN although I-DATA was agreed on");
            return Break(());
        }
        let action = unknown.action();
        if action.report {
            let raw = unknown.raw();
            self.control.report(
                cx,
                via,
                &Cause::UnrecognizedChunkType(&raw[..raw.len().min(MAX_REPORTED)]),
            );
        }
        if action.stop { Break(()) } else { Continue(()) }
    }

    /// What is decided once per packet.
    fn end_packet(&mut self, cx: &mut Context<'_>, arrival: &Arrival<'_>) {
        if arrival.has_data {
            self.addressing().note_arrival(cx.now, arrival.via);
            let marked = ecn::note(arrival, &mut self.paths, self.peer.as_mut());
            self.finish_deferred_reset(cx);
            if let Some(peer) = &mut self.peer {
                let active = || self.paths.active();
                let paths = (active().count(), || shortest_round_trip(&self.paths));
                let immediate = arrival.immediate || marked;
                peer.receiver.packet_end(cx.now, arrival.via, immediate, paths);
            }
            self.upper_layer().announce_readable(cx);
        }
        if let Some(peer) = &mut self.peer {
            announce_aborted_parts(cx, self.id, peer);
        }
        self.sender.nagle_mut().end_waiting();
        teardown::end_packet(&mut self.state, self.peer.as_mut(), arrival.has_data);
        self.advance_shutdown(cx);
    }
}

/// The lower one of two TSNs of a packet.
fn lowest(a: Option<Tsn>, b: Option<Tsn>) -> Option<Tsn> {
    match (a, b) {
        // A packet holds far less than half of all TSNs.
        (Some(a), Some(b)) if b.0.wrapping_sub(a.0) >= 1 << 31 => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}

/// Whether the packet holds a single chunk.
pub(super) fn is_alone(packet: &Packet<'_>) -> bool {
    packet.chunks().nth(1).is_none()
}

/// What a round trip over the shortest of the paths in use takes at least. The smoothed time says less: whoever receives
/// much sends little, such as grants, whose acknowledgements may wait and come over another path.
fn shortest_round_trip(paths: &Paths) -> Duration {
    let least = |path: &Path| path.rtt().least().or(path.rtt().smoothed());
    paths.active().filter_map(least).min().unwrap_or_default()
}

/// The longest round trip of the paths in use: data in order waits for the slowest.
fn slowest_round_trip(paths: &Paths) -> Duration {
    paths.active().filter_map(|path| path.rtt().smoothed()).max().unwrap_or_default()
}
