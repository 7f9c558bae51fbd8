//! Packets without our tag (RFC 9260 sections 8.4, 8.5 and 8.5.1).

use super::Endpoint;
use super::api::context;
use super::demux::answer_header;
use crate::association::addresses::is_leaving;
use crate::association::doubt::{self, is_abort};
use crate::path::PathAddr;
use crate::time::Instant;
use manypath_wire::cause::{Cause, Causes};
use manypath_wire::chunk::{Abort, Chunk, ShutdownComplete, types};
use manypath_wire::packet::Packet;

/// What an out-of-the-blue packet is answered with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Silence,
    ShutdownComplete,
    Abort,
}

impl Endpoint {
    /// The tag of `packet` is not one of ours. If its addresses belong to an association it is
    /// dropped, except for the chunks that may carry the tag of their sender.
    pub(super) fn handle_stranger(&mut self, now: Instant, addr: PathAddr, packet: Packet<'_>) {
        let header = packet.header();
        let Some(id) = self.by_address(addr.remote.ip(), header) else {
            return self.answer_out_of_the_blue(now, addr, packet);
        };
        let Some(association) = self.registry.get(id) else { return };
        let reflected = association.peer_tag() == Some(header.tag);
        let setting_up = association.state.is_setting_up();
        if association.security.requires_protection() && reflected {
            self.counters.unprotected_packets += 1;
            if is_abort(packet, true) {
                self.with(now, id, doubt::begin);
            }
            return;
        }
        for chunk in packet.chunks().map_while(Result::ok) {
            if let Chunk::Abort(abort) = chunk
                && abort.tag_reflected
                && reflected
            {
                // The peer has let the address go before we know it (RFC 5061 section 5.3.1).
                if is_leaving(association.addresses.as_deref(), addr.local.ip()) {
                    self.counters.unexpected_chunks += 1;
                    return;
                }
                // Its sender has no state from which it could authenticate anything.
                if association.security.demands(types::ABORT) {
                    self.counters.unauthenticated_chunks += 1;
                    return;
                }
                return self.with(now, id, |a, cx| a.ending().aborted_by_peer(cx, &abort));
            }
            if let Chunk::ShutdownComplete(complete) = chunk
                && complete.tag_reflected
                && reflected
            {
                return self.with(now, id, |a, cx| a.ending().completed_by_peer(cx));
            }
            if chunk == Chunk::ShutdownAck && setting_up {
                return self.answer_out_of_the_blue(now, addr, packet);
            }
        }
        self.counters.bad_tag += u64::from(!self.strays.leave());
    }

    fn answer_out_of_the_blue(&mut self, now: Instant, addr: PathAddr, packet: Packet<'_>) {
        if self.strays.leave() {
            return;
        }
        self.counters.out_of_the_blue += 1;
        if !self.config.respond_to_ootb {
            return;
        }
        let header = answer_header(packet.header(), packet.header().tag);
        let mut cx = context!(self, now);
        let answer = answer(&packet);
        if answer == Answer::Silence || !cx.may_answer(&addr) {
            return;
        }
        match answer {
            Answer::Silence => {}
            Answer::ShutdownComplete => {
                let complete = ShutdownComplete { tag_reflected: true };
                cx.reply(addr, header, &Chunk::ShutdownComplete(complete));
            }
            Answer::Abort => {
                let abort = Abort { tag_reflected: true, causes: Causes::EMPTY };
                cx.reply(addr, header, &Chunk::Abort(abort));
            }
        }
    }
}

/// Rules 2 to 8 of section 8.4, in their order. An INIT with a tag is none that rule 3 is about. Rule 8
/// would have it answered, but RFC 9260 section 12.3: "The receiver of an INIT chunk MUST silently
/// discard the INIT chunk and all further chunks" in a packet with a tag.
fn answer(packet: &Packet<'_>) -> Answer {
    let chunks = || packet.chunks().map_while(Result::ok);
    let contains = |wanted: fn(&Chunk<'_>) -> bool| chunks().any(|chunk| wanted(&chunk));
    if contains(|chunk| matches!(chunk, Chunk::Abort(_))) {
        Answer::Silence
    } else if contains(|chunk| matches!(chunk, Chunk::ShutdownAck)) {
        Answer::ShutdownComplete
    } else if contains(|chunk| {
        matches!(chunk, Chunk::ShutdownComplete(_) | Chunk::CookieAck | Chunk::Init(_))
            || has_stale_cookie(chunk)
    }) {
        Answer::Silence
    } else {
        Answer::Abort
    }
}

fn has_stale_cookie(chunk: &Chunk<'_>) -> bool {
    let Chunk::Error(error) = chunk else { return false };
    let mut causes = error.causes.iter().map_while(Result::ok);
    causes.any(|cause| matches!(cause, Cause::StaleCookie { .. }))
}
