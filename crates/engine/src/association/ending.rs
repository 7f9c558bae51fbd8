//! What ends an association at once: an ABORT of either side (RFC 9260 section 9.1), the last chunks of a shutdown
//! (section 9.2), an answer to our INIT that cannot be taken, the network's word that nobody is there.

use super::announcement::Refusal;
use super::context::Context;
use super::control::cause_bytes;
use super::packets::Packets;
use super::receive::{Arrival, is_alone};
use super::setup::reply_refusal;
use super::state::State;
use super::tcb::{Association, Peer};
use super::user::{announce_undelivered, end_partial_delivery};
use crate::event::{AssociationId, CloseReason, Event};
use crate::path::PathAddr;
use crate::send::Sender;
use manypath_wire::VerificationTag;
use manypath_wire::cause::{Cause, Causes};
use manypath_wire::chunk::{Abort, Chunk, ShutdownComplete};
use manypath_wire::packet::CommonHeader;

/// Most bytes of a user's abort reason that are sent.
const MAX_REASON: usize = 256;

/// What the end of an association needs: where it is in its life, what has not got across, and a packet to say so.
pub(crate) struct Ending<'a> {
    id: AssociationId,
    local_tag: VerificationTag,
    /// Copies of our INIT have left.
    copied: bool,
    pub(super) state: &'a mut State,
    pub(super) sender: &'a mut Sender,
    peer: &'a mut Option<Peer>,
    pub(super) packets: Packets<'a>,
}

impl Association {
    pub(crate) fn ending(&mut self) -> Ending<'_> {
        let header = self.header();
        Ending {
            id: self.id,
            local_tag: self.handshake.local_tag,
            copied: self.handshake.copied,
            state: &mut self.state,
            sender: &mut self.sender,
            peer: &mut self.peer,
            packets: Packets {
                header,
                first: self.handshake.path,
                paths: &mut self.paths,
                security: &mut self.security,
                statistics: &mut self.statistics,
                unverified: &mut self.unverified,
            },
        }
    }
}

impl Ending<'_> {
    /// Ends the association.
    pub(super) fn close(&mut self, cx: &mut Context<'_>, reason: CloseReason) {
        if !self.state.is_closed() {
            *self.state = State::Closed;
            // Who aborts reads no more.
            end_partial_delivery(cx, self.id, self.peer, reason != CloseReason::LocalAbort);
            announce_undelivered(cx, self.id, self.sender);
            cx.emit(self.id, Event::Closed(reason));
        }
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
            let path = self.packets.paths.control_path();
            self.packets.reply(cx, path, &Chunk::Abort(abort));
        }
        self.close(cx, reason);
    }

    /// An ABORT arrived (sections 8.5.1 B and 9.1). It must have our tag and no T bit, or the peer's
    /// tag and the T bit. One to an address that the peer is being told to be ours no more means nothing: who sent it
    /// looked for another association.
    pub(super) fn handle_abort(
        &mut self,
        cx: &mut Context<'_>,
        arrival: &Arrival<'_>,
        abort: &Abort<'_>,
        is_leaving: bool,
    ) {
        if is_leaving {
            cx.counters.unexpected_chunks += 1;
        } else if self.is_tag_good(arrival, abort.tag_reflected) {
            if arrival.protected || !self.refuses_copy(cx, arrival.addr, abort) {
                self.aborted_by_peer(cx, abort);
            }
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

    /// Whether an ABORT from `addr` refuses one of several copies of our INIT, and another one counts. Each is answered by
    /// itself: behind a NAT a late one comes from an address that the peer does not know, and one of a crowded address
    /// may find no place. What else an ABORT says is true of the association. Once it is up, the way of a copy that was
    /// refused is not confirmed, or none of its paths.
    pub(crate) fn refuses_copy(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        abort: &Abort<'_>,
    ) -> bool {
        let of_an_address = |cause: Result<_, _>| {
            matches!(cause, Ok(Cause::OutOfResource | Cause::RestartWithNewAddresses(_)))
        };
        let mut causes = abort.causes.iter();
        let refuses = causes.next().is_some_and(of_an_address) && causes.next().is_none();
        if !self.copied || abort.tag_reflected || !refuses {
            return false;
        }
        let another_counts = match self.state {
            State::CookieWait(waiting) => waiting.refused(addr),
            State::Closed => false,
            State::CookieEchoed(_)
            | State::Established
            | State::ShutdownPending
            | State::ShutdownSent(_)
            | State::ShutdownReceived
            | State::ShutdownAckSent(_) => {
                let path = self.packets.paths.by_addr(&addr);
                let path = path.and_then(|id| self.packets.paths.get(id));
                path.is_none_or(|path| !path.health().is_confirmed())
            }
        };
        cx.counters.refused_init_copies += u64::from(another_counts);
        another_counts
    }

    /// The peer's host knows no SCTP, says an ICMP message about a packet of ours, an INIT or not. RFC
    /// 9260 section 10: "an implementation MUST treat this message as an abort with the T bit set if
    /// it does not contain an INIT chunk".
    pub(crate) fn handle_no_protocol(&mut self, cx: &mut Context<'_>, of_init: bool) {
        if matches!(self.state, State::CookieWait(_)) {
            self.close(cx, CloseReason::Unreachable);
        } else if !of_init {
            self.aborted_by_peer(cx, &Abort { tag_reflected: true, causes: Causes::EMPTY });
        }
    }

    /// A SHUTDOWN ACK arrived.
    pub(super) fn handle_shutdown_ack(&mut self, cx: &mut Context<'_>, arrival: &Arrival<'_>) {
        match self.state {
            State::ShutdownSent(_) | State::ShutdownAckSent(_) => {
                let complete = ShutdownComplete { tag_reflected: false };
                self.packets.reply(cx, arrival.via, &Chunk::ShutdownComplete(complete));
                self.close(cx, CloseReason::Graceful);
            }
            // Treated as out of the blue: the peer's former association is not yet over.
            State::CookieWait(_) | State::CookieEchoed(_) => {
                let complete = ShutdownComplete { tag_reflected: true };
                let tag = arrival.packet.header().tag;
                let header = CommonHeader { tag, ..self.packets.header };
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

    fn is_tag_good(&self, arrival: &Arrival<'_>, reflected: bool) -> bool {
        let tag = arrival.packet.header().tag;
        let peers = || self.peer.as_ref().map(|peer| peer.announcement.tag);
        if reflected { peers() == Some(tag) } else { self.local_tag == tag }
    }

    /// The network said that nobody listens at one of the addresses to which INITs go. Whether the end is near is a
    /// question of how many are left.
    pub(super) fn candidate_unreachable(&mut self, cx: &mut Context<'_>, addr: PathAddr) {
        let State::CookieWait(waiting) = &mut *self.state else { return };
        if !waiting.candidates.contains(&addr) {
            return;
        }
        if !waiting.unreachable.contains(&addr) {
            waiting.unreachable.push(addr);
        }
        if waiting.unreachable.len() == waiting.candidates.len() {
            self.close(cx, CloseReason::Unreachable);
        } else if waiting.candidates.get(waiting.current) == Some(&addr) {
            waiting.leave_candidate();
        }
    }

    /// T1-init or T1-cookie has expired after `sends` INITs or COOKIE ECHOs.
    pub(super) fn retry_setup(&mut self, cx: &mut Context<'_>, sends: u32) {
        if sends > cx.config.max_init_retransmits {
            return self.give_up(cx, CloseReason::NoAnswer);
        }
        let limit =
            self.packets.paths.iter().next().map_or(cx.config.rto_max, |path| path.rtt().rto_max());
        let limit = cx.config.rto_max_init.map_or(limit, |most| most.min(limit));
        if let Some(t1) = self.state.retry_mut() {
            t1.back_off(limit);
        }
        if let State::CookieWait(waiting) = &mut *self.state {
            waiting.next_candidate();
        }
    }

    /// "it MUST destroy the TCB and SHOULD send an ABORT chunk with the T bit set" (section 3.3.3).
    pub(super) fn refuse_zero_tag(&mut self, cx: &mut Context<'_>, addr: PathAddr) {
        let header = CommonHeader { tag: self.local_tag, ..self.packets.header };
        let causes = cause_bytes(&Cause::InvalidMandatoryParameter);
        let abort = Abort { tag_reflected: true, causes: Causes::from_bytes(&causes) };
        cx.reply(addr, header, &Chunk::Abort(abort));
        cx.counters.protocol_violations += 1;
        self.close(cx, CloseReason::ProtocolViolation("INIT ACK with a zero tag"));
    }

    /// The INIT ACK of the peer with this tag, which came over `addr`, cannot be taken.
    pub(super) fn refuse_init_ack(
        &mut self,
        cx: &mut Context<'_>,
        addr: PathAddr,
        tag: VerificationTag,
        (refusal, reason): (Refusal<'_>, CloseReason),
    ) {
        let header = CommonHeader { tag, ..self.packets.header };
        reply_refusal(cx, addr, header, refusal);
        self.close(cx, reason);
    }
}
