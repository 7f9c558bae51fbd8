//! Graceful shutdown (RFC 9260 section 9.2), until its last chunks: those are in `ending`.

use super::asconf::is_renumbering;
use super::context::Context;
use super::state::{Retry, ShutdownSent, State};
use super::tcb::{Association, Peer};
use crate::event::{CloseReason, Event};
use crate::path::{PathId, Paths};
use crate::send::SackView;
use crate::time::Instant;
use manypath_wire::Tsn;
use manypath_wire::chunk::{Chunk, Shutdown};
use manypath_wire::packet::PacketWriter;

/// T5-shutdown-guard in multiples of RTO.Max (section 9.2).
const GUARD: u32 = 5;

impl Association {
    /// The user wants a graceful end.
    pub(crate) fn shutdown(&mut self, cx: &mut Context<'_>) {
        self.sender.queue_mut().end();
        match self.state {
            State::Established => self.state = State::ShutdownPending,
            // The peer keeps no state yet, and there is nothing to deliver.
            State::CookieWait(_) if self.sender.is_drained() => {
                self.ending().close(cx, CloseReason::Graceful);
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

    /// A SHUTDOWN arrived.
    pub(super) fn handle_shutdown(&mut self, cx: &mut Context<'_>, via: PathId, cum_tsn: Tsn) {
        self.paths.note_shutdown(via);
        match self.state {
            State::Established | State::ShutdownPending => {
                self.state = State::ShutdownReceived;
                cx.emit(self.id, Event::PeerShutdown);
            }
            State::ShutdownReceived => {}
            // Both have sent one (section 9.2).
            State::ShutdownSent(_) => return self.state = State::ShutdownAckSent(Retry::new()),
            State::ShutdownAckSent(ref mut t2) => return t2.send_again(),
            State::CookieWait(_) | State::CookieEchoed(_) | State::Closed => {
                cx.counters.unexpected_chunks += 1;
                return;
            }
        }
        match self.sender.handle_sack(cx.now, &SackView::of_shutdown(cum_tsn), via, &mut self.paths)
        {
            Ok(outcome) => self.after_sack(cx, &outcome),
            Err(text) => self.ending().violation(cx, text),
        }
    }

    /// Moves on when all outstanding data has been acknowledged.
    pub(super) fn advance_shutdown(&mut self, cx: &mut Context<'_>) {
        if !self.sender.is_drained() || is_renumbering(self.addresses.as_deref()) {
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
}

/// In SHUTDOWN-SENT every packet proves that the peer is alive, and DATA is answered by a
/// SHUTDOWN at once, with a SACK for what its TSN cannot acknowledge.
///
/// Section 9.2 says that any packet SHOULD restart T2-shutdown. Here only DATA does: a peer that
/// has lost the SHUTDOWN goes on probing its failed paths, and its HEARTBEATs would keep T2 from
/// ever expiring.
pub(super) fn end_packet(state: &mut State, peer: Option<&mut Peer>, has_data: bool) {
    let State::ShutdownSent(sent) = state else { return };
    sent.t2.forgive();
    if has_data {
        sent.t2.send_again();
        if let Some(peer) = peer {
            peer.receiver.on_shutdown_sent();
        }
    }
}

/// SHUTDOWN or SHUTDOWN ACK, if one is due and goes out on `id`.
pub(super) fn write(
    now: Instant,
    id: PathId,
    (state, peer, paths): (&mut State, Option<&Peer>, &Paths),
    packet: &mut PacketWriter<'_>,
) {
    let is_due = state.retry().is_some_and(Retry::is_due);
    if !is_due || paths.shutdown_path() != id {
        return;
    }
    let Some(rto) = paths.get(id).map(|path| path.rtt().rto()) else { return };
    let Some(peer) = peer else { return };
    let mut chunk = Chunk::ShutdownAck;
    if matches!(state, State::ShutdownSent(_)) {
        chunk = Chunk::Shutdown(Shutdown { cum_tsn: peer.receiver.cum_tsn() });
    }
    if let Some(retry) = state.retry_mut().filter(|_| packet.push(&chunk).is_ok()) {
        retry.on_send(now, rto);
    }
}
