//! Packets: what is due, in which order, bundled and lined up in runs (RFC 9260 section 6.10).
//!
//! A run is one packet, or DATA packets of equal size on one path with a shorter one at its end.
//! Packets after the first are limited to the first one's size, so they cannot come out larger.

use super::context::Context;
use super::control::cause_bytes;
use super::mtu::write_padding;
use super::state::State;
use super::tcb::Association;
use crate::config::SackPath;
use crate::ecn::Ecn;
use crate::event::Event;
use crate::path::{Path, PathId, Rank};
use crate::time::{Duration, Instant};
use crate::transmit::{PacketBatch, Transmit};
use manypath_wire::cause::{Cause, Causes};
use manypath_wire::chunk::{Chunk, CookieEcho, Error, Heartbeat, Shutdown, types};
use manypath_wire::packet::{CommonHeader, PacketWriter};

/// Room for the parameters of an INIT: 16 addresses, 308 bytes about authentication, and a few small ones.
const INIT_PARAMETERS: usize = 1024;
/// Most bytes of unrecognized parameters that are reported.
const MAX_REPORT: usize = 252;
/// Most packets in a row that are withheld from addresses that are not verified: what waits is less.
const MAX_WITHHELD: usize = 128;
/// The common header and that of an INIT.
const INIT_HEADERS: usize = CommonHeader::LEN + 20;
/// The common header and that of a COOKIE ECHO.
const COOKIE_ECHO_HEADERS: usize = CommonHeader::LEN + 4;

/// Headers of a HEARTBEAT chunk and of its parameter.
const HEARTBEAT_HEADERS: usize = 4 + 4;
/// What IP, UDP and SCTP put before a SACK.
const HEADERS_OF_SACK: usize = 20 + 8 + CommonHeader::LEN;
/// Room for a SACK without blocks and the header of a DATA chunk.
const SACK_AND_DATA_HEADERS: usize = 16 + 16;

/// One finished packet.
#[derive(Clone, Copy, Debug)]
struct Built {
    len: usize,
    only_data: bool,
    ecn: Ecn,
}

impl Association {
    /// Fills `batch` with the next run.
    pub(crate) fn poll_transmit(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        batch.clear();
        if self.security.is_key_used_up() {
            return None;
        }
        if self.security.protection.as_mut().is_some_and(|it| it.keys_mut().take_rekey()) {
            cx.emit(self.id, Event::RekeyDue);
        }
        self.abandon_overdue(cx);
        self.addressing().regulate(cx);
        match self.state {
            State::CookieWait(_) => self.transmit_init(cx, batch),
            State::CookieEchoed(_) => match self.transmit_cookie_echo(cx, batch) {
                None if self.sends_early_data() => self.transmit_data(cx, batch),
                transmit => transmit,
            },
            State::Closed => None,
            State::Established
            | State::ShutdownPending
            | State::ShutdownSent(_)
            | State::ShutdownReceived
            | State::ShutdownAckSent(_) => self.transmit_run(cx, batch),
        }
    }

    /// INIT, alone in its packet with tag 0. IP may fragment it where it is too large for the path.
    fn transmit_init(&mut self, cx: &Context<'_>, batch: &mut PacketBatch) -> Option<Transmit> {
        let State::CookieWait(waiting) = &self.state else { return None };
        if !waiting.t1.is_due() {
            return None;
        }
        let addr = *waiting.candidates.get(waiting.current)?;
        self.handshake.path = addr;
        self.paths.forget_policies();
        let first = self.paths.primary();
        let path = self.paths.get_mut(first)?;
        path.readdress(addr, cx.mtu(&addr));
        let (size, rto) = (path.packet_size(), path.rtt().rto());
        let mut parameters = [0; INIT_PARAMETERS];
        let announcement = self.announcement(cx);
        let least = usize::from(cx.config.init_size).saturating_sub(INIT_HEADERS);
        let init = announcement.to_init(self.families(cx), least, &mut parameters).ok()?;
        let room = size.max(INIT_HEADERS + init.parameters.as_bytes().len());
        let mut packet = PacketWriter::new(batch.slot(room), self.header());
        packet.push(&Chunk::Init(init)).ok()?;
        self.statistics.on_packet_sent(&packet);
        let len = packet.finish();
        if let Some(t1) = self.state.retry_mut() {
            t1.on_send(cx.now, rto);
        }
        let transmit = self.one_packet(first, len, batch)?;
        Some(Transmit { may_fragment: len > size, ..transmit })
    }

    /// COOKIE ECHO, then the report of unrecognized parameters, then DATA: the user's first bytes
    /// travel one round trip earlier. On an unconfirmed path a HEARTBEAT goes along instead of DATA
    /// (section 5.4). IP may fragment it where the path has become too narrow for the cookie. Copies of the
    /// first one follow it over the other paths (`Config::cookie_race`). In an association that resumes, DATA
    /// follows in packets of its own, because a DTLS chunk is always alone.
    fn transmit_cookie_echo(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        let State::CookieEchoed(echoed) = &self.state else { return None };
        let mut t1 = echoed.t1.clone();
        let id = match t1.is_due() {
            true => self.echo_path(t1.sends()),
            false => self.next_copy()?,
        };
        let State::CookieEchoed(echoed) = &self.state else { return None };
        let path = self.paths.get(id)?;
        let confirmed = path.is_confirmed();
        if t1.is_due() {
            t1.on_send(cx.now, path.rtt().rto());
        }
        let size = path.packet_size();
        let cookie = echoed.cookie.len().next_multiple_of(4);
        let needed = COOKIE_ECHO_HEADERS + self.security.auth_len(types::COOKIE_ECHO) + cookie;
        let buffer = batch.slot(size.max(needed));
        let mut packet = self.security.begin_cookie_echo(buffer, self.header());
        packet.push(&Chunk::CookieEcho(CookieEcho { cookie: &echoed.cookie })).ok()?;
        write_report(&echoed.report, &mut packet);
        if confirmed && !self.security.is_resumed() {
            self.sender.fill(cx.now, id, &mut self.paths, &mut packet);
        } else if !confirmed {
            self.write_heartbeat(cx, id, &mut packet);
        }
        let len = self.complete_packet(id, packet);
        if let Some(retry) = self.state.retry_mut() {
            *retry = t1;
        }
        if !self.spend(cx, id, len) {
            return None;
        }
        let transmit = self.one_packet(id, len, batch)?;
        Some(Transmit { may_fragment: len > size, ..transmit })
    }

    /// The path that gets a copy of the first COOKIE ECHO now.
    fn next_copy(&mut self) -> Option<PathId> {
        loop {
            let State::CookieEchoed(echoed) = &mut self.state else { return None };
            let place = echoed.next_copy.filter(|place| *place < self.paths.len())?;
            echoed.next_copy = Some(place + 1);
            let len = echoed.cookie.len();
            let normal = |id: &PathId| {
                self.paths.get(*id).and_then(|path| path.regime().rank()) == Some(Rank::Normal)
            };
            if let Some(id) = self.takes_cookie(place, len, true).filter(normal) {
                return Some(id);
            }
        }
    }

    /// The next packet with control chunks, else the next run of DATA.
    fn transmit_run(&mut self, cx: &mut Context<'_>, batch: &mut PacketBatch) -> Option<Transmit> {
        if let Some(mut reconfiguring) = self.reconfiguring() {
            reconfiguring.start();
        }
        self.start_asconf(cx);
        if self.is_renumbering() {
            return self.transmit_asconf(cx, batch);
        }
        for _ in 0..MAX_WITHHELD {
            let Some(id) = self.next_control_path(cx) else { break };
            let size = self.paths.get(id)?.packet_size();
            let Some(built) = self.build(cx, id, batch.slot(size)) else { break };
            if self.spend(cx, id, built.len) {
                batch.commit(built.len);
                return Some(self.finish_run(id, batch, built, 1));
            }
        }
        let measurement = self.transmit_measurement(cx, batch);
        if let Some(probe) = measurement.or_else(|| self.transmit_mtu_probe(cx, batch)) {
            return Some(probe);
        }
        if !self.state.sends_data() {
            return None;
        }
        self.transmit_data(cx, batch)
    }

    /// The next run of DATA.
    fn transmit_data(&mut self, cx: &mut Context<'_>, batch: &mut PacketBatch) -> Option<Transmit> {
        self.sender.relieve_slow_paths(cx.now, &mut self.paths);
        let run = self.sender.path_order(cx.now, &self.paths).into_iter().find_map(|id| {
            let open = |path: &Path| !path.is_suspended() && cx.is_open(&path.addr());
            let open = self.paths.get(id).is_some_and(open);
            let ready = open && self.sender.has_data_for(cx.now, id, &self.paths);
            if ready { self.data_run(cx, id, batch) } else { None }
        });
        if run.is_none() {
            self.sender.note_waiting(cx.now, &mut self.paths);
        }
        run
    }

    fn data_run(
        &mut self,
        cx: &mut Context<'_>,
        id: PathId,
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        let size = self.paths.get(id)?.packet_size();
        let needed = self.sender.next_repeat_size(cx.now, id, &self.paths);
        if let Some(needed) = needed.map(|len| len + CommonHeader::LEN).filter(|len| *len > size) {
            return self.fragmented(cx, (id, needed), batch);
        }
        let first = self.build(cx, id, batch.slot(size))?;
        batch.commit(first.len);
        let mut packets = 1;
        while first.only_data
            && packets < batch.max_packets()
            && self.paths.get(id).is_some_and(|path| path.regime().may_spend(batch.bytes().len()))
            && self.sender.has_data_for(cx.now, id, &self.paths)
            && self.sender.next_ecn(cx.now, id, &self.paths) == first.ecn
        {
            let Some(next) = self.build_data(cx, id, batch.slot(first.len)) else { break };
            debug_assert_eq!(next.ecn, first.ecn, "the next packet was looked at");
            batch.commit(next.len);
            packets += 1;
            if next.len < first.len {
                break;
            }
        }
        Some(self.finish_run(id, batch, first, packets))
    }

    /// A chunk that is to be sent again and was made for a larger MTU: it keeps its TSN and so cannot
    /// be cut anew, but IP may fragment its packet.
    fn fragmented(
        &mut self,
        cx: &mut Context<'_>,
        (id, size): (PathId, usize),
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        let built = self.build_data(cx, id, batch.slot(size))?;
        cx.counters.fragmented_packets += 1;
        let transmit = self.one_packet(id, built.len, batch)?;
        Some(Transmit { may_fragment: true, ..transmit })
    }

    /// The path of the most urgent control chunk.
    fn next_control_path(&self, cx: &Context<'_>) -> Option<PathId> {
        let heartbeats = self.state.sends_heartbeats();
        let wanting = || self.paths.iter().find(|path| path.heartbeat().is_wanted());
        let retry_due = self.state.retry().is_some_and(super::state::Retry::is_due);
        self.control
            .next_path()
            .or_else(|| wanting().filter(|_| heartbeats).map(|path| path.id()))
            .or_else(|| self.is_reconfiguration_due().then(|| self.control_path()))
            .or_else(|| self.is_asconf_due().then(|| self.asconf_path()))
            .or_else(|| self.is_forward_due().then(|| self.control_path()))
            .or_else(|| self.cwr_path())
            .or_else(|| self.sack_path(cx))
            .or_else(|| retry_due.then(|| self.shutdown_path()))
    }

    fn is_reconfiguration_due(&self) -> bool {
        self.state.sends_data() && self.reconfiguration.is_due()
    }

    fn is_asconf_due(&self) -> bool {
        self.state.sends_data() && self.addresses.as_ref().is_some_and(|changes| changes.is_due())
    }

    /// An ASCONF alone, from an address that may not be used for anything else yet (RFC 5061 section
    /// 5.3 rule F1).
    fn transmit_asconf(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        let id = self.control_path();
        let mut packet = self.begin_packet(batch.slot(self.paths.get(id)?.packet_size()));
        self.write_asconf(cx, id, &mut packet);
        if packet.is_empty() {
            return None;
        }
        let len = self.complete_packet(id, packet);
        if !self.spend(cx, id, len) {
            return None;
        }
        self.one_packet(id, len, batch)
    }

    /// Whether the peer is to be told to skip something (RFC 3758 section 3.5).
    fn is_forward_due(&self) -> bool {
        self.state.sends_data() && self.sender.is_forward_due()
    }

    /// Where a SACK that is due goes: back over the path of the DATA, unless that has failed or was
    /// never confirmed (section 6.4).
    fn sack_path(&self, cx: &Context<'_>) -> Option<PathId> {
        let due = self.peer.as_ref()?.receiver.acks().due(cx.now)?;
        if !self.state.sends_sacks() {
            return None;
        }
        let sources = self.peer.as_ref()?.receiver.acks().sources();
        // What the peer repeats tells that the last SACKs were lost, maybe on the fastest path.
        let must_return = self.peer.as_ref()?.receiver.acks().must_return();
        let among = || self.paths.iter().filter(|p| p.is_active() && sources.contains(p.id()));
        let chosen = match cx.config.experiment.sack_path {
            SackPath::Standard => None,
            SackPath::SmallestSrtt if must_return => None,
            SackPath::SmallestSrtt => {
                let time = |path: &&Path| path.rtt().smoothed().unwrap_or(Duration::MAX);
                among().min_by_key(|path| (path.sack_debt(), time(path)))
            }
            SackPath::RoundRobin => among().min_by_key(|path| path.last_sack()),
        };
        let due = chosen.map_or(due, |path| path.id());
        let active = self.paths.get(due).is_some_and(|path| path.is_active());
        Some(if active { due } else { self.control_path() })
    }

    /// Whether a SACK that may still wait goes along because there is room for it beside all that is
    /// to be sent (section 6.1).
    fn sack_rides_along(&self, id: PathId, packet: &PacketWriter<'_>) -> bool {
        let pending = self.peer.as_ref().is_some_and(|peer| peer.receiver.acks().is_pending());
        let active = self.paths.get(id).is_some_and(|path| path.is_active());
        let data = self.sender.unsent();
        let room = packet.room_for(types::SACK).min(packet.room_for(types::DATA));
        pending && active && data > 0 && data + SACK_AND_DATA_HEADERS <= room
    }

    /// A packet with everything that is due on `id`: control chunks first.
    fn build(&mut self, cx: &mut Context<'_>, id: PathId, buffer: &mut [u8]) -> Option<Built> {
        let mut packet = self.begin_packet(buffer);
        let unconfirmed = !self.paths.get(id)?.is_confirmed();
        let heartbeats = self.state.sends_heartbeats();
        let acked = self.control.write_cookie_ack(id, &mut packet);
        let wanted = self.paths.get(id)?.heartbeat().is_wanted();
        let mut stays_small = false;
        if heartbeats && (wanted || (acked && unconfirmed)) {
            self.write_heartbeat(cx, id, &mut packet);
            stays_small = self.tells_narrow_from_dead(id);
        }
        cx.counters.control_drops += self.control.write(id, &mut packet);
        self.path_manager().write_cwr(cx.now, id, &mut packet);
        if self.sack_path(cx) == Some(id) || self.sack_rides_along(id, &packet) {
            self.write_sack(cx.now, id, &mut packet);
        }
        if self.is_reconfiguration_due() && self.control_path() == id {
            let rto = self.control_rto();
            self.reconfiguration.write(cx.now, (id, rto), &mut packet);
        }
        if self.is_asconf_due() {
            self.write_asconf(cx, id, &mut packet);
        }
        if self.is_forward_due() && self.control_path() == id {
            // Without room it remains due.
            let _no_room = self.sender.write_forward(cx.now, id, &mut self.paths, &mut packet);
        }
        self.write_shutdown(cx, id, &mut packet);
        let only_data = packet.is_empty();
        let mut ecn = Ecn::NotEct;
        let sends_data = self.state.sends_data() || self.sends_early_data();
        if sends_data && !unconfirmed && !stays_small {
            ecn = self.sender.fill(cx.now, id, &mut self.paths, &mut packet).ecn;
        }
        if packet.is_empty() {
            return None;
        }
        Some(Built { len: self.complete_packet(id, packet), only_data, ecn })
    }

    fn build_data(&mut self, cx: &Context<'_>, id: PathId, buffer: &mut [u8]) -> Option<Built> {
        let mut packet = self.begin_packet(buffer);
        let ecn = self.sender.fill(cx.now, id, &mut self.paths, &mut packet).ecn;
        let filled = !packet.is_empty();
        filled.then(|| Built { len: self.complete_packet(id, packet), only_data: true, ecn })
    }

    /// A SACK with what goes in front of it.
    fn write_sack(&mut self, now: Instant, id: PathId, packet: &mut PacketWriter<'_>) {
        self.write_echoes(packet);
        let Some(peer) = &mut self.peer else { return };
        let before = packet.len();
        let written = peer.receiver.write_sack(packet);
        if written {
            self.statistics.on_sack_sent();
        }
        if let Some(path) = self.paths.get_mut(id).filter(|_| written) {
            path.on_sack_sent(now, packet.len() - before + HEADERS_OF_SACK);
        }
    }

    fn write_heartbeat(&mut self, cx: &mut Context<'_>, id: PathId, packet: &mut PacketWriter<'_>) {
        // Its answer must fit as well.
        let auth = self.security.auth_len_of_answer(types::HEARTBEAT_ACK);
        let Some(path) = self.paths.get_mut(id) else { return };
        let searches = path.search().is_on();
        let left = packet.room_for(types::HEARTBEAT).saturating_sub(HEARTBEAT_HEADERS + auth);
        // With padding beside it the answer is small, and tells of this direction alone.
        let room = if searches { 0 } else { left };
        let info = path.on_heartbeat_sent(cx.now, cx.config, cx.rng, room);
        // Without room it counts as lost and is repeated after an RTO.
        let _no_room = packet.push(&Chunk::Heartbeat(Heartbeat { info: &info })).is_err();
        if searches && path.heartbeat().lacks_large_answer() {
            write_padding(packet);
        }
    }

    /// Whether the last HEARTBEAT asks if small packets pass where large ones vanish: DATA beside it would
    /// make its packet a large one.
    fn tells_narrow_from_dead(&self, id: PathId) -> bool {
        self.paths.get(id).is_some_and(|path| {
            let failing = path.is_confirmed() && !path.is_active();
            failing && path.search().is_on() && !path.heartbeat().lacks_large_answer()
        })
    }

    /// SHUTDOWN or SHUTDOWN ACK, if one is due and goes out on `id`.
    fn write_shutdown(&mut self, cx: &Context<'_>, id: PathId, packet: &mut PacketWriter<'_>) {
        let is_due = self.state.retry().is_some_and(super::state::Retry::is_due);
        if !is_due || self.shutdown_path() != id {
            return;
        }
        let Some(rto) = self.paths.get(id).map(|path| path.rtt().rto()) else { return };
        let Some(peer) = &self.peer else { return };
        let mut chunk = Chunk::ShutdownAck;
        if matches!(self.state, State::ShutdownSent(_)) {
            chunk = Chunk::Shutdown(Shutdown { cum_tsn: peer.receiver.cum_tsn() });
        }
        if let Some(retry) = self.state.retry_mut().filter(|_| packet.push(&chunk).is_ok()) {
            retry.on_send(cx.now, rto);
        }
    }

    /// A packet to the peer without chunks.
    pub(super) fn begin_packet<'b>(&self, buffer: &'b mut [u8]) -> PacketWriter<'b> {
        self.security.begin_packet(buffer, self.header())
    }

    /// The packet over path `id`, if that is one, is complete. Returns its length.
    pub(super) fn complete_packet(
        &mut self,
        id: impl Into<Option<PathId>>,
        packet: PacketWriter<'_>,
    ) -> usize {
        self.statistics.on_packet_sent(&packet);
        let path = id.into().and_then(|id| self.paths.get(id));
        self.security.complete_packet(path, packet)
    }

    pub(super) fn one_packet(
        &mut self,
        id: PathId,
        len: usize,
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        batch.commit(len);
        let built = Built { len, only_data: false, ecn: Ecn::NotEct };
        Some(self.finish_run(id, batch, built, 1))
    }

    fn finish_run(
        &mut self,
        id: PathId,
        batch: &PacketBatch,
        first: Built,
        packets: usize,
    ) -> Transmit {
        let mut addr = self.handshake.path;
        if let Some(path) = self.paths.get_mut(id) {
            path.on_packets_sent(packets, batch.bytes().len());
            addr = path.addr();
        }
        let Built { len: segment_size, ecn, .. } = first;
        Transmit { path: addr, segment_size, packets, may_fragment: false, ecn }
    }
}

/// Reports unrecognized parameters of the INIT ACK (section 3.2.2).
fn write_report(report: &[u8], packet: &mut PacketWriter<'_>) {
    if !report.is_empty() && report.len() <= MAX_REPORT {
        let causes = cause_bytes(&Cause::UnrecognizedParameters(report));
        let error = Error { causes: Causes::from_bytes(&causes) };
        // "SHOULD bundle": without room it is left out.
        let _no_room = packet.push(&Chunk::Error(error)).is_err();
    }
}
