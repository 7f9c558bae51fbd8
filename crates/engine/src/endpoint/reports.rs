//! What the network and the local system report: destinations that cannot be reached, packets that
//! are too large, sockets that are full (RFC 9260 section 10).

use super::index::PeerKey;
use super::{AssociationId, Endpoint};
use crate::association::{Association, Ports};
use crate::config::PathMtu;
use crate::path::PathAddr;
use crate::time::Instant;
use alloc::vec::Vec;
use core::net::SocketAddr;
use manypath_wire::VerificationTag;
use manypath_wire::chunk::types;

impl Endpoint {
    /// ICMP reported that `path` cannot be reached by the packet that begins with `quote`: what the
    /// message quotes after the UDP header, 20 bytes or more. A message that does not prove that its
    /// sender saw a packet of an association is counted and ignored (RFC 9260 section 10, RFC 6951
    /// section 5.5). Returns whether it proves that.
    pub fn handle_icmp_unreachable(&mut self, now: Instant, path: PathAddr, quote: &[u8]) -> bool {
        self.counters.unreachable_reports += 1;
        let concerned = self.senders_of(quote);
        for id in &concerned {
            self.with(now, *id, |association, cx| association.handle_unreachable(cx, path));
        }
        !concerned.is_empty()
    }

    /// ICMP reported that the host at `path` knows no SCTP (Protocol Unreachable, Unrecognized Next
    /// Header Type): the association is over (rule ICMP8), unless the packet was an INIT and there is
    /// an answer to it. The rules for `quote` and the result are those of
    /// [`Self::handle_icmp_unreachable`]. Only native SCTP gets such messages for itself.
    pub fn handle_icmp_no_protocol(&mut self, now: Instant, quote: &[u8]) -> bool {
        self.counters.unreachable_reports += 1;
        let concerned = self.senders_of(quote);
        let of_init = matches!(quoted(quote), Some(Quoted::Init(_)));
        for id in &concerned {
            self.with(now, *id, |association, cx| {
                association.ending().handle_no_protocol(cx, of_init)
            });
        }
        !concerned.is_empty()
    }

    /// ICMP reported that the packet that begins with `quote` was larger than the `mtu` bytes, IP header
    /// included, that a link on `path` takes. The rules for `quote` and the result are those of
    /// [`Self::handle_icmp_unreachable`]. The report speeds up a search for the MTU ([`PathMtu`]) and
    /// is ignored without one.
    ///
    /// [`PathMtu`]: crate::PathMtu
    pub fn handle_icmp_too_big(
        &mut self,
        now: Instant,
        path: PathAddr,
        mtu: u16,
        quote: &[u8],
    ) -> bool {
        self.counters.too_big_reports += 1;
        let concerned = self.senders_of(quote);
        for id in &concerned {
            self.with(now, *id, |association, cx| {
                association.path_manager().handle_too_big(cx, path, mtu)
            });
        }
        !concerned.is_empty()
    }

    /// Whether the size of packets is found by probes ([`PathMtu::Search`](crate::PathMtu)): then no
    /// packet may be fragmented by IP unless [`Transmit::may_fragment`] says so.
    pub fn searches_path_mtu(&self) -> bool {
        self.config.path_mtu == PathMtu::Search && self.config.heartbeats
    }

    /// The local system reported that `path` cannot be reached: sending failed.
    pub fn handle_unreachable(&mut self, now: Instant, path: PathAddr) {
        self.counters.unreachable_reports += 1;
        for id in self.registry.index.at_address(path.remote.ip()) {
            self.with(now, id, |association, cx| association.handle_unreachable(cx, path));
        }
    }

    /// The local system reported that a packet for `path` was larger than the `mtu` bytes that its
    /// interface takes now.
    pub fn handle_too_big(&mut self, now: Instant, path: PathAddr, mtu: u16) {
        self.counters.too_big_reports += 1;
        for id in self.registry.index.at_address(path.remote.ip()) {
            self.with(now, id, |association, cx| {
                association.path_manager().handle_too_big(cx, path, mtu)
            });
        }
    }

    /// Where the peer of the association whose own tag is `tag` was asked, or has called from: one of its addresses; and
    /// whether the association has `path`, confirmed or not.
    pub fn asked_at(&self, tag: u32, path: &PathAddr) -> Option<(SocketAddr, bool)> {
        let id = self.registry.index.by_tag(VerificationTag(tag))?;
        let association = self.registry.get(id)?;
        Some((association.handshake.path.remote, association.paths.by_addr(path).is_some()))
    }

    /// Whether an association is waiting for its peer's first answers at the far end of `path`, or does not know that
    /// the path works.
    pub fn is_path_in_doubt(&self, path: &PathAddr) -> bool {
        let of = |id: AssociationId| self.registry.get(id);
        let mut there = self.registry.index.at_address(path.remote.ip()).into_iter().filter_map(of);
        // The index has no address that is not confirmed.
        let is_doubted = |it: &Association| {
            let known = it.paths.by_addr(path).and_then(|id| it.paths.get(id));
            known.is_some_and(|path| !path.health().is_active())
        };
        there.any(|it| it.state.is_setting_up())
            || self.registry.ids().into_iter().filter_map(of).any(is_doubted)
    }

    /// Sockets at `local` take no more packets for now (`blocked`), or do again. Until then no DATA is
    /// handed out for the paths from there, so that it stays free to go elsewhere; control chunks are.
    pub fn handle_backpressure(&mut self, now: Instant, local: SocketAddr, blocked: bool) {
        self.blocked.retain(|other| *other != local);
        if blocked {
            self.blocked.push(local);
            return;
        }
        for id in self.registry.take_held_back() {
            self.with(now, id, |_, _| ());
        }
    }

    /// The associations that prove to have sent the packet that begins with `quote`. The verification
    /// tag proves it; the tag 0 of an INIT proves nothing, so the Initiate Tag must be there and be
    /// ours (rule ICMP6). A quote that is too short for that proves nothing either.
    fn senders_of(&mut self, quote: &[u8]) -> Vec<AssociationId> {
        let index = &self.registry.index;
        let found = match quoted(quote) {
            Some(Quoted::Init(init)) => {
                let id = index.by_tag(init.tag);
                let fits = |id: &AssociationId| {
                    self.registry.get(*id).is_some_and(|found| found.ports == init.ports)
                };
                id.filter(fits).into_iter().collect()
            }
            Some(Quoted::Other(key)) => index.by_peer(key),
            None => Vec::new(),
        };
        self.counters.unproven_reports += u64::from(found.is_empty());
        found
    }
}

/// The start of a packet of ours as an ICMP message quotes it.
enum Quoted {
    /// An INIT, with our own tag.
    Init(PeerKey),
    /// Any other packet, with the peer's tag.
    Other(PeerKey),
}

fn quoted(quote: &[u8]) -> Option<Quoted> {
    let port_at = |offset| Some(u16::from_be_bytes(field(quote, offset)?));
    let tag_at = |offset| Some(VerificationTag(u32::from_be_bytes(field(quote, offset)?)));
    let ports = Ports { local: port_at(0)?, peer: port_at(2)? };
    match tag_at(4)? {
        VerificationTag(0) if quote.get(12) == Some(&types::INIT) => {
            Some(Quoted::Init(PeerKey { tag: tag_at(16)?, ports }))
        }
        VerificationTag(0) => None,
        tag => Some(Quoted::Other(PeerKey { tag, ports })),
    }
}

fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}
