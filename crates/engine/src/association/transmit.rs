//! Packets: what is due, in which order, bundled and lined up in runs (RFC 9260 section 6.10).
//!
//! A run is one packet, or DATA packets of equal size on one path with a shorter one at its end.
//! Packets after the first are limited to the first one's size, so they cannot come out larger.

use super::acknowledgement;
use super::asconf;
use super::context::Context;
use super::control::cause_bytes;
use super::ecn;
use super::ending::Ending;
use super::heartbeat;
use super::packets::{Built, Packets};
use super::state::State;
use super::tcb::Association;
use super::teardown;
use crate::ecn::Ecn;
use crate::event::Event;
use crate::path::{Path, PathId, PathState};
use crate::send::Sender;
use crate::time::Instant;
use crate::transmit::{PacketBatch, Transmit};
use manypath_wire::cause::{Cause, Causes};
use manypath_wire::chunk::{Chunk, CookieEcho, Error, types};
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
        self.paths.set_blocked(cx.blocked);
        self.upper_layer().abandon_overdue(cx);
        self.addressing().regulate(cx);
        match self.state {
            State::CookieWait(_) => self.transmit_init(cx, batch),
            State::CookieEchoed(_) => match self.transmit_cookie_echo(cx, batch) {
                None if self.security.sends_early_data(&self.state) => {
                    self.transmit_data(cx, batch)
                }
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

    /// INIT, alone in its packet with tag 0. IP may fragment it where it is too large for the path. Copies follow it
    /// over the other ways that are tried at once (`Config::handshake_race`).
    fn transmit_init(&mut self, cx: &Context<'_>, batch: &mut PacketBatch) -> Option<Transmit> {
        let State::CookieWait(waiting) = &mut self.state else { return None };
        let (is_copy, addr) = (!waiting.t1.is_due(), waiting.next_init()?);
        self.handshake.path = addr;
        self.handshake.copied |= is_copy;
        self.paths.forget_policies();
        let id = match self.paths.by_addr(&addr) {
            Some(id) => id,
            None if is_copy => {
                self.paths.add(addr, cx.mtu(&addr), PathState::Unconfirmed, cx.config)?
            }
            None => self.paths.primary(),
        };
        let path = self.paths.get_mut(id)?;
        path.readdress(addr, cx.mtu(&addr));
        let (size, rto) = (path.packet_size(), path.rtt().rto());
        let families = self.handshake.families(cx, cx.realm_of(addr.local.ip()));
        let mut parameters = [0; INIT_PARAMETERS];
        let announcement = self.handshake.announcement(cx, &self.security);
        let least = usize::from(cx.config.init_size).saturating_sub(INIT_HEADERS);
        let init = announcement.to_init(families, least, &mut parameters).ok()?;
        let room = size.max(INIT_HEADERS + init.parameters.as_bytes().len());
        let mut packet = PacketWriter::new(batch.slot(room), self.header());
        packet.push(&Chunk::Init(init)).ok()?;
        self.statistics.on_packet_sent(&packet);
        let len = packet.finish();
        // Copies leave at the same time: one timer is that of all.
        if let Some(t1) = self.state.retry_mut().filter(|_| !is_copy) {
            t1.on_send(cx.now, rto);
        }
        let transmit = self.packets().one(id, len, batch)?;
        Some(Transmit { may_fragment: len > size, ..transmit })
    }

    /// COOKIE ECHO, then the report of unrecognized parameters, then DATA: the user's first bytes
    /// travel one round trip earlier. On an unconfirmed path a HEARTBEAT goes along instead of DATA
    /// (section 5.4). IP may fragment it where the path has become too narrow for the cookie. Copies of the
    /// first one follow it over the other paths (`Config::handshake_race`). In an association that resumes, DATA
    /// follows in packets of its own, because a DTLS chunk is always alone.
    fn transmit_cookie_echo(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        let Ending { state: State::CookieEchoed(echoed), packets, .. } = self.ending() else {
            return None;
        };
        let mut t1 = echoed.t1.clone();
        let id = match t1.is_due() {
            true => packets.echo_path(t1.sends(), echoed.cookie.len()),
            false => packets.next_copy(echoed)?,
        };
        let State::CookieEchoed(echoed) = &self.state else { return None };
        let path = self.paths.get(id)?;
        let confirmed = path.health().is_confirmed();
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
        } else if let Some(path) = self.paths.get_mut(id).filter(|_| !confirmed) {
            heartbeat::write(cx, path, &self.security, &mut packet);
        }
        let len = self.packets().complete(id, packet);
        if let Some(retry) = self.state.retry_mut() {
            *retry = t1;
        }
        let mut packets = self.packets();
        if !packets.spend(cx, id, len) {
            return None;
        }
        let transmit = packets.one(id, len, batch)?;
        Some(Transmit { may_fragment: len > size, ..transmit })
    }

    /// The next packet with control chunks, else the next run of DATA.
    fn transmit_run(&mut self, cx: &mut Context<'_>, batch: &mut PacketBatch) -> Option<Transmit> {
        if let Some(mut reconfiguring) = self.reconfiguring() {
            reconfiguring.start();
        }
        // "MUST NOT be used unless DTLS chunk handling is enabled in both directions" (draft section 3.2).
        if self.security.key_agreement().is_none() || self.security.is_protected() {
            self.addressing().start_asconf(cx);
        }
        if asconf::is_renumbering(self.addresses.as_deref()) {
            return self.transmit_asconf(cx, batch);
        }
        for _ in 0..MAX_WITHHELD {
            let Some(id) = self.next_control_path(cx) else { break };
            let size = self.paths.get(id)?.packet_size();
            let Some(built) = self.build(cx, id, batch.slot(size)) else { break };
            let mut packets = self.packets();
            if packets.spend(cx, id, built.len) {
                batch.commit(built.len);
                return Some(packets.run(id, batch, built, 1));
            }
        }
        if self.state.sends_heartbeats()
            && let Some(probe) = self.packets().transmit_probe(cx, batch)
        {
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
            let takes = |path: &Path| !path.health().is_suspended() && self.paths.is_open(id);
            let open = self.paths.get(id).is_some_and(takes);
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
            return fragmented(cx, (id, needed), self.sending(), batch);
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
            let next = build_data(cx.now, id, &mut self.sending(), batch.slot(first.len));
            let Some(next) = next else { break };
            debug_assert_eq!(next.ecn, first.ecn, "the next packet was looked at");
            batch.commit(next.len);
            packets += 1;
            if next.len < first.len {
                break;
            }
        }
        Some(self.packets().run(id, batch, first, packets))
    }

    /// The path of the most urgent control chunk.
    fn next_control_path(&self, cx: &Context<'_>) -> Option<PathId> {
        let heartbeats = self.state.sends_heartbeats();
        let wanting = || self.paths.iter().find(|path| path.heartbeat().is_wanted());
        let retry_due = self.state.retry().is_some_and(super::state::Retry::is_due);
        let sends = self.state.sends_data();
        let is_reconfiguration_due = sends && self.reconfiguration.is_due();
        let is_asconf_due = sends && asconf::is_due(self.addresses.as_deref());
        // The peer is to be told to skip something (RFC 3758 section 3.5).
        let is_forward_due = sends && self.sender.is_forward_due();
        let sack = || {
            let peer = self.peer.as_ref().filter(|_| self.state.sends_sacks())?;
            acknowledgement::path(cx, &peer.receiver, &self.paths)
        };
        self.control
            .next_path()
            .or_else(|| wanting().filter(|_| heartbeats).map(|path| path.id()))
            .or_else(|| is_reconfiguration_due.then(|| self.paths.control_path()))
            .or_else(|| is_asconf_due.then(|| asconf::path(self.addresses.as_deref(), &self.paths)))
            .or_else(|| is_forward_due.then(|| self.paths.control_path()))
            .or_else(|| ecn::cwr_path(&self.paths).filter(|_| heartbeats))
            .or_else(sack)
            .or_else(|| retry_due.then(|| self.paths.shutdown_path()))
    }

    /// An ASCONF alone, from an address that may not be used for anything else yet (RFC 5061 section
    /// 5.3 rule F1).
    fn transmit_asconf(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut PacketBatch,
    ) -> Option<Transmit> {
        let id = self.paths.control_path();
        let size = self.paths.get(id)?.packet_size();
        let mut packet = self.packets().begin(batch.slot(size));
        self.addressing().write_asconf(cx, id, &mut packet);
        if packet.is_empty() {
            return None;
        }
        let mut packets = self.packets();
        let len = packets.complete(id, packet);
        if !packets.spend(cx, id, len) {
            return None;
        }
        packets.one(id, len, batch)
    }

    /// A packet with everything that is due on `id`: control chunks first.
    fn build(&mut self, cx: &mut Context<'_>, id: PathId, buffer: &mut [u8]) -> Option<Built> {
        let mut packet = self.packets().begin(buffer);
        let unconfirmed = !self.paths.get(id)?.health().is_confirmed();
        let heartbeats = self.state.sends_heartbeats();
        let acked = self.control.write_cookie_ack(id, &mut packet);
        let wanted = self.paths.get(id)?.heartbeat().is_wanted();
        let mut stays_small = false;
        if heartbeats && (wanted || (acked && unconfirmed)) {
            let path = self.paths.get_mut(id)?;
            heartbeat::write(cx, path, &self.security, &mut packet);
            stays_small = heartbeat::tells_narrow_from_dead(path);
        }
        cx.counters.control_drops += self.control.write(id, &mut packet);
        self.path_manager().write_cwr(cx.now, id, &mut packet);
        if let Some(receiver) = self.peer.as_mut().map(|peer| &mut peer.receiver) {
            let beside = (id, self.sender.queue().bytes());
            let due = self.state.sends_sacks()
                && acknowledgement::path(cx, receiver, &self.paths) == Some(id);
            if due || acknowledgement::rides_along(receiver, &self.paths, beside, &packet) {
                let counted = (&mut self.paths, &mut self.statistics);
                acknowledgement::write(cx.now, id, receiver, counted, &mut packet);
            }
        }
        let sends = self.state.sends_data();
        if sends && self.reconfiguration.is_due() && self.paths.control_path() == id {
            let rto = self.paths.control_rto();
            self.reconfiguration.write(cx.now, (id, rto), &mut packet);
        }
        if sends && asconf::is_due(self.addresses.as_deref()) {
            self.addressing().write_asconf(cx, id, &mut packet);
        }
        if sends && self.sender.is_forward_due() && self.paths.control_path() == id {
            // Without room it remains due.
            let _no_room = self.sender.write_forward(cx.now, id, &mut self.paths, &mut packet);
        }
        let ending = (&mut self.state, self.peer.as_ref(), &self.paths);
        teardown::write(cx.now, id, ending, &mut packet);
        let only_data = packet.is_empty();
        let mut ecn = Ecn::NotEct;
        let sends_data = sends || self.security.sends_early_data(&self.state);
        if sends_data && !unconfirmed && !stays_small {
            ecn = self.sender.fill(cx.now, id, &mut self.paths, &mut packet).ecn;
        }
        if packet.is_empty() {
            return None;
        }
        Some(Built { len: self.packets().complete(id, packet), only_data, ecn })
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

/// A packet of DATA alone.
fn build_data(
    now: Instant,
    id: PathId,
    (sender, packets): &mut (&mut Sender, Packets<'_>),
    buffer: &mut [u8],
) -> Option<Built> {
    let mut packet = packets.begin(buffer);
    let ecn = sender.fill(now, id, packets.paths, &mut packet).ecn;
    let filled = !packet.is_empty();
    filled.then(|| Built { len: packets.complete(id, packet), only_data: true, ecn })
}

/// A chunk that is to be sent again and was made for a larger MTU: it keeps its TSN and so cannot
/// be cut anew, but IP may fragment its packet.
fn fragmented(
    cx: &mut Context<'_>,
    (id, size): (PathId, usize),
    mut sending: (&mut Sender, Packets<'_>),
    batch: &mut PacketBatch,
) -> Option<Transmit> {
    let built = build_data(cx.now, id, &mut sending, batch.slot(size))?;
    cx.counters.fragmented_packets += 1;
    let transmit = sending.1.one(id, built.len, batch)?;
    Some(Transmit { may_fragment: true, ..transmit })
}
