//! Over which paths a COOKIE ECHO leaves: its repetitions, and copies of the first one (`Config::handshake_race`).

use super::packets::Packets;
use super::state::CookieEchoed;
use super::unverified::LARGEST_SMALL_HEARTBEAT;
use crate::path::{PathId, Rank, ip_len};
use manypath_wire::chunk::types;
use manypath_wire::packet::CommonHeader;

/// The path of the handshake is always the first.
pub(super) const HANDSHAKE: PathId = PathId(0);
/// Type, flags and length of a chunk.
const CHUNK_HEADER: usize = 4;

impl Packets<'_> {
    /// The path of the COOKIE ECHO after `sent` earlier ones, with a cookie of so many bytes: repetitions take the paths
    /// in turn, as far as the cookie fits, on an unconfirmed path together with a HEARTBEAT (RFC 9260 section 5.4).
    pub(super) fn echo_path(&self, sent: u32, cookie: usize) -> PathId {
        let turn = sent as usize % self.paths.len().max(1);
        self.takes_cookie(turn, cookie, false).unwrap_or(HANDSHAKE)
    }

    /// The path that gets a copy of the first COOKIE ECHO now.
    pub(super) fn next_copy(&self, echoed: &mut CookieEchoed) -> Option<PathId> {
        let normal = |id: &PathId| {
            self.paths.get(*id).and_then(|path| path.regime().rank()) == Some(Rank::Normal)
        };
        loop {
            let place = echoed.next_copy.filter(|place| *place < self.paths.len())?;
            echoed.next_copy = Some(place + 1);
            if let Some(id) = self.takes_cookie(place, echoed.cookie.len(), true).filter(normal) {
                return Some(id);
            }
        }
    }

    /// The path at a place in the list, if a COOKIE ECHO with so long a cookie may leave there. Of what may be sent to
    /// unverified addresses a copy leaves enough for two HEARTBEATs to each.
    fn takes_cookie(&self, place: usize, cookie: usize, copy: bool) -> Option<PathId> {
        let path = self.paths.iter().nth(place)?;
        let auth = self.security.auth_len(types::COOKIE_ECHO);
        let heartbeat =
            LARGEST_SMALL_HEARTBEAT + self.security.auth_len(types::HEARTBEAT).max(auth);
        let beside = if path.health().is_confirmed() { auth } else { heartbeat };
        let value = cookie.next_multiple_of(4) + beside;
        let packet = CommonHeader::LEN + CHUNK_HEADER + value;
        let unverified =
            self.paths.iter().filter(|path| copy && !path.health().is_verified()).count();
        let probe = ip_len(&path.addr(), CommonHeader::LEN + LARGEST_SMALL_HEARTBEAT);
        let kept = 2 * unverified * probe;
        let affords = self.unverified.affords(path, packet + kept);
        let fits = value <= largest_value(path.packet_size()) && affords;
        fits.then_some(path.id())
    }
}

/// The longest value of a chunk that is alone in a packet of `size` bytes.
pub(super) fn largest_value(size: usize) -> usize {
    size.saturating_sub(CommonHeader::LEN + CHUNK_HEADER)
}
