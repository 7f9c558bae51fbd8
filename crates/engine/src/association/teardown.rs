//! The end of an association: ABORT and graceful shutdown (RFC 9260 section 9).

use super::context::Context;
use super::control::cause_bytes;
use super::receive::{Arrival, is_alone};
use super::state::{Retry, ShutdownSent, State};
use super::tcb::Association;
use crate::event::{CloseReason, Event};
use crate::path::PathId;
use crate::transmit::REPLY_SIZE;
use manypath_wire::Tsn;
use manypath_wire::cause::{Cause, Causes};
use manypath_wire::chunk::{Abort, Chunk, ShutdownComplete};

/// Most bytes of a user's abort reason that are sent.
const MAX_REASON: usize = 256;
/// T5-shutdown-guard in multiples of RTO.Max (section 9.2).
const GUARD: u32 = 5;

impl Association {
    /// The user wants a graceful end.
    pub(crate) fn shutdown(&mut self, cx: &mut Context<'_>) {
        self.sender.on_ending();
        match self.state {
            State::Established => self.state = State::ShutdownPending,
            // The peer keeps no state yet, and there is nothing to deliver.
            State::CookieWait(_) if self.sender.is_drained() => {
                self.close(cx, CloseReason::Graceful);
            }
            State::CookieWait(_) | State::CookieEchoed(_) => self.shutdown_wanted = true,
            State::ShutdownPending
            | State::ShutdownSent(_)
            | State::ShutdownReceived
            | State::ShutdownAckSent(_)
            | State::Closed => {}
        }
        self.advance_shutdown(cx);
    }

    /// The user wants the end at once.
    pub(crate) fn abort(&mut self, cx: &mut Context<'_>, reason: &[u8]) {
        let reason = &reason[..reason.len().min(MAX_REASON)];
        self.abort_because(cx, &Cause::UserInitiatedAbort(reason), CloseReason::LocalAbort);
    }

    /// The peer broke the protocol in the way that `text` says.
    pub(super) fn violation(&mut self, cx: &mut Context<'_>, text: &'static str) {
        cx.counters.protocol_violations += 1;
        let cause = Cause::ProtocolViolation(text.as_bytes());
        self.abort_because(cx, &cause, CloseReason::ProtocolViolation(text));
    }

    /// Sends an ABORT with `cause`, if the peer has any state, and ends the association.
    pub(super) fn abort_because(
        &mut self,
        cx: &mut Context<'_>,
        cause: &Cause<'_>,
        reason: CloseReason,
    ) {
        self.abort_with(cx, &cause_bytes(cause), reason);
    }

    /// Gives the association up because the peer does not answer. An ABORT tells it, should it be able
    /// to hear us: it need not find out by itself, and data of its own finds no silence.
    pub(super) fn give_up(&mut self, cx: &mut Context<'_>, reason: CloseReason) {
        self.abort_with(cx, &[], reason);
    }

    fn abort_with(&mut self, cx: &mut Context<'_>, causes: &[u8], reason: CloseReason) {
        if self.peer.is_some() && !self.state.is_closed() {
            let abort = Abort { tag_reflected: false, causes: Causes::from_bytes(causes) };
            self.reply(cx, self.control_path(), &Chunk::Abort(abort));
        }
        self.close(cx, reason);
    }

    /// An ABORT arrived (sections 8.5.1 B and 9.1). It must have our tag and no T bit, or the peer's
    /// tag and the T bit.
    pub(super) fn handle_abort(
        &mut self,
        cx: &mut Context<'_>,
        arrival: &Arrival<'_>,
        abort: &Abort<'_>,
    ) {
        if self.is_leaving(arrival.addr.local.ip()) {
            cx.counters.unexpected_chunks += 1;
        } else if self.is_tag_good(arrival, abort.tag_reflected) {
            self.aborted_by_peer(cx, abort);
        } else {
            cx.counters.bad_tag += 1;
        }
    }

    /// An ABORT whose tag is good. In SHUTDOWN-ACK-SENT both sides have everything: the peer has
    /// completed the shutdown, and something that came late met no association there any more.
    ///
    /// RFC 9260 section 3.3.7: "If an endpoint receives an ABORT chunk with a format error or no TCB is
    /// found, it MUST silently discard it."
    pub(crate) fn aborted_by_peer(&mut self, cx: &mut Context<'_>, abort: &Abort<'_>) {
        if abort.causes.iter().any(|cause| cause.is_err()) {
            cx.counters.malformed_chunks += 1;
            return;
        }
        if matches!(self.state, State::ShutdownAckSent(_)) {
            return self.close(cx, CloseReason::Graceful);
        }
        let first = abort.causes.iter().next().and_then(Result::ok);
        if let Some(Cause::UserInitiatedAbort(reason)) = first {
            cx.abort_reasons.keep(self.id, reason);
        }
        self.close(cx, CloseReason::PeerAborted(first.map(|cause| cause.code())));
    }

    /// A SHUTDOWN arrived.
    pub(super) fn handle_shutdown(&mut self, cx: &mut Context<'_>, via: PathId, cum_tsn: Tsn) {
        self.shutdown_source = Some(via);
        match self.state {
            State::Established | State::ShutdownPending => {
                self.state = State::ShutdownReceived;
                cx.emit(self.id, Event::PeerShutdown);
                self.acknowledge_shutdown_tsn(cx, via, cum_tsn);
            }
            State::ShutdownReceived => self.acknowledge_shutdown_tsn(cx, via, cum_tsn),
            // Both have sent one (section 9.2).
            State::ShutdownSent(_) => self.state = State::ShutdownAckSent(Retry::new()),
            State::ShutdownAckSent(ref mut t2) => t2.send_again(),
            State::CookieWait(_) | State::CookieEchoed(_) | State::Closed => {
                cx.counters.unexpected_chunks += 1;
            }
        }
    }

    /// A SHUTDOWN ACK arrived.
    pub(super) fn handle_shutdown_ack(&mut self, cx: &mut Context<'_>, arrival: &Arrival<'_>) {
        match self.state {
            State::ShutdownSent(_) | State::ShutdownAckSent(_) => {
                let complete = ShutdownComplete { tag_reflected: false };
                self.reply(cx, arrival.via, &Chunk::ShutdownComplete(complete));
                self.close(cx, CloseReason::Graceful);
            }
            // Treated as out of the blue: the peer's former association is not yet over.
            State::CookieWait(_) | State::CookieEchoed(_) => {
                let complete = ShutdownComplete { tag_reflected: true };
                let header = manypath_wire::packet::CommonHeader {
                    tag: arrival.packet.header().tag,
                    ..self.header()
                };
                cx.counters.out_of_the_blue += 1;
                cx.reply(arrival.addr, header, &Chunk::ShutdownComplete(complete));
            }
            State::Established
            | State::ShutdownPending
            | State::ShutdownReceived
            | State::Closed => cx.counters.unexpected_chunks += 1,
        }
    }

    /// A SHUTDOWN COMPLETE arrived. Its tag follows the rules of ABORT (section 8.5.1 C).
    pub(super) fn handle_shutdown_complete(
        &mut self,
        cx: &mut Context<'_>,
        arrival: &Arrival<'_>,
        complete: ShutdownComplete,
    ) {
        if !self.is_tag_good(arrival, complete.tag_reflected) {
            cx.counters.bad_tag += 1;
        } else if is_alone(&arrival.packet) {
            self.completed_by_peer(cx);
        } else {
            cx.counters.unexpected_chunks += 1;
        }
    }

    /// A SHUTDOWN COMPLETE whose tag is good.
    pub(crate) fn completed_by_peer(&mut self, cx: &mut Context<'_>) {
        if matches!(self.state, State::ShutdownAckSent(_)) {
            self.close(cx, CloseReason::Graceful);
        } else {
            cx.counters.unexpected_chunks += 1;
        }
    }

    /// The state is SHUTDOWN-ACK-SENT: the peer missed our SHUTDOWN ACK, or what came of it.
    pub(crate) fn repeat_shutdown_ack(&mut self) -> bool {
        let State::ShutdownAckSent(t2) = &mut self.state else { return false };
        t2.send_again();
        true
    }

    /// Moves on when all outstanding data has been acknowledged.
    pub(super) fn advance_shutdown(&mut self, cx: &mut Context<'_>) {
        if !self.sender.is_drained() || self.is_renumbering() {
            return;
        }
        if matches!(self.state, State::ShutdownPending) {
            let guard = cx.now + cx.config.rto_max * GUARD;
            self.state = State::ShutdownSent(ShutdownSent { t2: Retry::new(), guard });
        } else if matches!(self.state, State::ShutdownReceived) {
            self.state = State::ShutdownAckSent(Retry::new());
        } else {
            return;
        }
        self.paths.iter_mut().for_each(|path| path.heartbeat_mut().stop());
        // No ASCONF leaves any more, and none under way may hold up what ends the association.
        self.addressing().abandon_asconf(cx);
    }

    /// In SHUTDOWN-SENT every packet proves that the peer is alive, and DATA is answered by a
    /// SHUTDOWN at once, with a SACK for what its TSN cannot acknowledge.
    ///
    /// Section 9.2 says that any packet SHOULD restart T2-shutdown. Here only DATA does: a peer that
    /// has lost the SHUTDOWN goes on probing its failed paths, and its HEARTBEATs would keep T2 from
    /// ever expiring.
    pub(super) fn shutdown_packet_end(&mut self, has_data: bool) {
        let State::ShutdownSent(sent) = &mut self.state else { return };
        sent.t2.forgive();
        if has_data {
            sent.t2.send_again();
            if let Some(peer) = &mut self.peer {
                peer.receiver.on_shutdown_sent();
            }
        }
    }

    fn acknowledge_shutdown_tsn(&mut self, cx: &mut Context<'_>, via: PathId, cum_tsn: Tsn) {
        match self.sender.handle_shutdown_tsn(cx.now, cum_tsn, via, &mut self.paths) {
            Ok(outcome) => self.after_sack(cx, &outcome),
            Err(text) => self.violation(cx, text),
        }
    }

    fn is_tag_good(&self, arrival: &Arrival<'_>, reflected: bool) -> bool {
        let tag = arrival.packet.header().tag;
        if reflected { self.peer_tag() == Some(tag) } else { self.handshake.local_tag == tag }
    }

    /// Sends a packet of one chunk to the peer even though the association may be gone by then.
    fn reply(&mut self, cx: &mut Context<'_>, path: PathId, chunk: &Chunk<'_>) {
        let Some(addr) = self.paths.get(path).map(|path| path.addr()) else { return };
        let mut bytes = alloc::vec![0; REPLY_SIZE];
        let mut packet = self.begin_packet(&mut bytes);
        // At most a cause of some hundred bytes: it fits.
        let _no_room = packet.push(chunk).is_err();
        let len = self.complete_packet(path, packet);
        bytes.truncate(len);
        if len > 0 && self.spend(cx, path, len) {
            cx.reply_packet(addr, bytes);
        }
    }
}
