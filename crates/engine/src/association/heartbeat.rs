//! HEARTBEATs of an association (RFC 9260 sections 5.4 and 8.3).

use super::authentication::Security;
use super::context::Context;
use super::control::ControlQueue;
use super::mtu::write_padding;
use super::path_manager::{Addressing, PathManager};
use super::state::State;
use super::tcb::Association;
use crate::path::heartbeat::{self, Expiry};
use crate::path::{MtuSearch, Path, PathId, PathState, Paths};
use crate::recv::Receiver;
use crate::send::Sender;
use manypath_wire::chunk::{Chunk, Heartbeat, Unknown, types};
use manypath_wire::packet::PacketWriter;

/// Headers of a HEARTBEAT chunk and of its parameter.
const HEARTBEAT_HEADERS: usize = 4 + 4;

impl Association {
    /// A HEARTBEAT ACK arrived. The first one of an address shows that it is the peer's, a second one
    /// that packets of full size get there.
    pub(super) fn handle_heartbeat_ack(&mut self, cx: &mut Context<'_>, info: &[u8]) {
        if self.path_manager().handle_mtu_answer(cx, info) {
            return self.errors.clear();
        }
        if self.paths.end_measurement(cx.now, info) {
            return;
        }
        let id = heartbeat::path_of(info);
        let path = id.and_then(|id| self.paths.get_mut(id));
        let answer = path.and_then(|path| {
            let answer = path.on_heartbeat_ack(cx.now, info)?;
            Some((path.id(), path.addr().remote, answer))
        });
        let Some((id, remote, answer)) = answer else {
            cx.counters.bad_heartbeat_acks += 1;
            return;
        };
        self.paths.verify(remote);
        self.paths.sample(cx.now, id, Some(answer.round_trip));
        self.errors.clear();
        self.path_manager().note_policy_heard(id, info);
        self.path_manager().note_heartbeat(cx, id, answer.full_sized);
        if !answer.full_sized && self.path_manager().probe_with_full_size(id) {
            return;
        }
        self.addressing().path_confirmed(cx, id);
        if self.sender.silence().hear_standby(cx.now, id, &mut self.paths) {
            self.path_manager().suspect_silent_paths(cx);
        }
        if let Some(path) = self.path_manager().probed(id) {
            path.rest_probing(cx.now, cx.config, cx.rng);
        }
        if let Some(peer) = &mut self.peer {
            let ends = (&mut self.sender, &mut peer.receiver);
            release_memory(ends, &mut self.control, &mut self.paths);
        }
    }

    /// The heartbeat timer of `id` has expired.
    pub(super) fn handle_heartbeat_timeout(&mut self, cx: &mut Context<'_>, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else { return };
        let expiry = path.on_heartbeat_timeout(cx.now, cx.config, cx.rng);
        // With DATA outstanding T3-rtx counts the same silence (RFC 7829 section 3.2 item 6).
        if expiry == Expiry::Quiet || path.in_flight() > 0 {
            return;
        }
        path.rtt_mut().back_off();
        let counts = self.path_manager().counts_for_association(id);
        let group = self.sender.choice().couple(&mut self.paths);
        if let Some(path) = self.paths.get_mut(id) {
            path.subflow_mut().on_suspect_silent(&group);
        }
        self.path_error(cx, id, counts);
        self.addressing().introduce(id);
        self.addressing().drop_unreached(cx, id);
    }
}

impl Addressing<'_> {
    /// A HEARTBEAT arrived over `via`: it is answered from COOKIE-ECHOED until SHUTDOWN-SENT or
    /// SHUTDOWN-ACK-SENT. An answer that is queued in COOKIE-ECHOED leaves after the COOKIE ACK has
    /// come, because nothing but COOKIE ECHOs may be sent before (section 5.1 C).
    ///
    /// `bytes` begin with the chunk. All of it comes back, RFC 9260 section 8.3: "together with any other
    /// received TLVs, copied unchanged from the received HEARTBEAT chunk".
    pub(super) fn handle_heartbeat(&mut self, cx: &mut Context<'_>, via: PathId, bytes: &[u8]) {
        let Ok(chunk) = Unknown::from_bytes(bytes) else { return };
        if !self.state.sends_data() && !matches!(self.state, State::CookieEchoed(_)) {
            cx.counters.unexpected_chunks += 1;
            return;
        }
        self.on_probed(cx, via);
        if self.control.push_heartbeat_ack(via, &chunk).is_err() {
            cx.counters.control_drops += 1;
        }
    }
}

impl PathManager<'_> {
    /// Probing begins: unconfirmed paths at once, confirmed ones when they are idle.
    pub(super) fn start_heartbeats(&mut self, cx: &mut Context<'_>) {
        for path in self.paths.iter_mut() {
            match path.health().state() {
                PathState::Active => {
                    path.rest_probing(cx.now, cx.config, cx.rng);
                    path.change_mtu(MtuSearch::start);
                    if path.regime().has_untold_policy() {
                        path.heartbeat_mut().probe_now();
                    }
                }
                // A HEARTBEAT may have left with the COOKIE ECHO.
                PathState::Unconfirmed | PathState::PotentiallyFailed | PathState::Inactive => {
                    path.heartbeat_mut().probe_again(cx.now);
                }
            }
        }
    }

    /// Packets are protected from now on, and what left before without protection gets no answer.
    pub(crate) fn probe_under_protection(&mut self) {
        let waits = |path: &Path| !path.health().is_confirmed() && !path.health().is_suspended();
        self.paths.ids(waits).iter().for_each(|id| self.probe(*id));
    }

    /// Sends a HEARTBEAT on `id` as soon as possible, unless none are sent in this state. It carries the path's policy
    /// to the peer; its loss is noticed as that of any.
    pub(super) fn probe(&mut self, id: PathId) {
        if let Some(path) = self.probed(id) {
            path.heartbeat_mut().probe_now();
        }
    }

    /// The address of a path that is not Active has answered a small HEARTBEAT: a large one follows.
    fn probe_with_full_size(&mut self, id: PathId) -> bool {
        let Some(path) = self.probed(id).filter(|path| !path.health().is_active()) else {
            return false;
        };
        path.health_mut().clear_errors();
        path.heartbeat_mut().probe_now();
        true
    }

    /// Whether a lost HEARTBEAT on `id` is an error of the association as well: only on the path that
    /// would carry data (RFC 9260 section 8.1). Of several such paths the one with the fewest errors
    /// decides, so that a dead path does not end an association whose other path is only idle. Where no path may carry
    /// data, because no address is confirmed any more, no other timer would ever end it: all paths count then.
    fn counts_for_association(&self, id: PathId) -> bool {
        let usable = self.sender.choice().usable(self.paths);
        let is_stranded = usable.is_empty() && self.paths.iter().all(|path| path.in_flight() == 0);
        let counts = |path: &Path| is_stranded || usable.contains(path.id());
        let Some(path) = self.paths.get(id).filter(|path| counts(path)) else { return false };
        let mut others = self.paths.iter().filter(|it| it.id() != id && counts(it));
        (is_stranded || self.sender.unacked() == 0)
            && others.all(|it| it.health().errors() > path.health().errors())
    }
}

/// An idle association, which is one that is only probed, keeps no memory for data.
fn release_memory(
    (sender, receiver): (&mut Sender, &mut Receiver),
    control: &mut ControlQueue,
    paths: &mut Paths,
) {
    if !sender.is_drained() || receiver.queued() > 0 {
        return;
    }
    sender.release_memory();
    receiver.release_memory();
    control.release_memory();
    for path in paths.iter_mut() {
        path.release_memory();
    }
}

/// Appends a HEARTBEAT for `path`.
pub(super) fn write(
    cx: &mut Context<'_>,
    path: &mut Path,
    security: &Security,
    packet: &mut PacketWriter<'_>,
) {
    // Its answer must fit as well.
    let auth = security.auth_len_of_answer(types::HEARTBEAT_ACK);
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
pub(super) fn tells_narrow_from_dead(path: &Path) -> bool {
    let failing = path.health().is_confirmed() && !path.health().is_active();
    failing && path.search().is_on() && !path.heartbeat().lacks_large_answer()
}
