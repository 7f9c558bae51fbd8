//! A peer that may have lost a protected association: it has restarted, and has no keys for that. What it says then
//! (ABORT, or a cookie of a new association) is not protected, so anybody may have said it. The peer is asked
//! under the keys, and only its silence ends the association: whoever forges such a packet gains nothing as long as the
//! peer answers.

use super::context::Context;
use super::cookie::Cookie;
use super::restart::{CookieAction, action};
use super::tcb::Association;
use crate::event::{CloseReason, Event};
use crate::path::Path;
use crate::path::heartbeat::LEAST_PAUSE;
use crate::time::{Duration, Instant};
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::Packet;

/// How often the peer is asked, each time over all paths.
const QUESTIONS: u32 = 3;

/// The peer was asked `asked` times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    asked: u32,
    /// Time for an answer.
    pub(super) until: Instant,
}

/// Whether the packet says that its sender ends the association.
pub(crate) fn is_abort(packet: Packet<'_>, tag_reflected: bool) -> bool {
    let mut chunks = packet.chunks().map_while(Result::ok);
    chunks.any(|chunk| matches!(chunk, Chunk::Abort(abort) if abort.tag_reflected == tag_reflected))
}

/// A packet without protection said that the peer does not know the association any more.
pub(crate) fn begin(association: &mut Association, cx: &mut Context<'_>) {
    if association.state.sends_heartbeats() && association.security.doubt().is_none() {
        cx.counters.doubted_peers += 1;
        cx.emit(association.id, Event::PeerDoubted);
        ask(association, cx, 0);
    }
}

/// The peer has sent back a cookie without protection, which is not taken.
pub(crate) fn on_cookie(association: &mut Association, cx: &mut Context<'_>, cookie: &Cookie) {
    if action(association, cookie) == CookieAction::Restart {
        begin(association, cx);
    }
}

/// Asks again when nothing has come in time, or ends the association.
pub(super) fn handle_timeout(association: &mut Association, cx: &mut Context<'_>) {
    match association.security.doubt().filter(|doubt| doubt.until <= cx.now) {
        Some(doubt) if doubt.asked < QUESTIONS => ask(association, cx, doubt.asked),
        Some(_) => association.ending().give_up(cx, CloseReason::PeerAborted(None)),
        None => {}
    }
}

/// Asks the peer, which has not answered `asked` questions.
fn ask(association: &mut Association, cx: &Context<'_>, asked: u32) {
    let (mut fastest, mut slowest, mut is_asked) = (None, LEAST_PAUSE, false);
    let usable = |path: &&mut Path| path.health().is_confirmed() && !path.health().is_suspended();
    for path in association.paths.iter_mut().filter(usable) {
        path.heartbeat_mut().probe_again(cx.now);
        is_asked |= path.heartbeat().is_wanted();
        // The time that a host took to restart has doubled the RTO again and again.
        let rto = path.rtt().first_rto().unwrap_or(cx.config.rto_initial);
        fastest = Some(fastest.map_or(rto, |least: Duration| least.min(rto)));
        slowest = slowest.max(rto);
    }
    // Whoever was not asked has not been silent.
    let asked = asked + u32::from(is_asked);
    let pause = pause(asked, fastest.unwrap_or(cx.config.rto_initial), slowest);
    association.security.set_doubt(Doubt { asked, until: cx.now + pause });
}

/// The time for an answer to this question: the RTO of the fastest path, twice as long for each one after the first. Over
/// the slowest path, the last one and with it all can be answered.
fn pause(asked: u32, fastest: Duration, slowest: Duration) -> Duration {
    // No HEARTBEAT leaves sooner after another one.
    let pause = fastest.max(LEAST_PAUSE) * (1 << asked.saturating_sub(1));
    if asked < QUESTIONS { pause } else { pause.max(slowest) }
}
