//! What a handler may look at and write to besides its own association.

use super::abort_reasons::AbortReasons;
use super::cookie::CookieKeys;
use crate::authentication::SharedKeys;
use crate::config::{Announce, Config, LocalAddress};
use crate::event::{AssociationId, EndpointEvent, Event};
use crate::path::scope::Scopes;
use crate::path::{PathAddr, PathRule, pairing, scope};
use crate::rng::Rng;
use crate::status::Counters;
use crate::time::Instant;
use crate::transmit::{Replies, packet_of};
use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::CommonHeader;

/// The endpoint as its associations see it.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    /// The time of the call.
    pub now: Instant,
    /// The endpoint's parameters.
    pub config: &'a Config,
    /// The endpoint's addresses.
    pub locals: &'a [LocalAddress],
    /// For which peers they are there.
    pub scopes: &'a Scopes,
    /// Local addresses whose sockets take no more packets for now.
    pub blocked: &'a [SocketAddr],
    /// What is wanted of paths.
    pub policies: &'a [PathRule],
    /// The endpoint's randomness.
    pub rng: &'a mut Rng,
    /// The endpoint's cookie keys.
    pub keys: &'a mut CookieKeys,
    /// Shared keys for associations to come.
    pub shared_keys: &'a SharedKeys,
    /// What was dropped and refused.
    pub counters: &'a mut Counters,
    /// Notifications to the user.
    pub events: &'a mut VecDeque<EndpointEvent>,
    /// Reasons of aborts, until the user asks for them.
    pub abort_reasons: &'a mut AbortReasons,
    /// Packets that do not wait for an association to send them.
    pub replies: &'a mut Replies,
}

impl<'a> Context<'a> {
    /// Tells the user.
    pub(crate) fn emit(&mut self, id: AssociationId, event: Event) {
        self.events.push_back((id, event));
    }

    /// Answers the packet under work by one of one chunk, at the next opportunity and outside of any
    /// association.
    pub(crate) fn reply(&mut self, path: PathAddr, header: CommonHeader, chunk: &Chunk<'_>) {
        match packet_of(header, chunk) {
            Some(packet) => self.answer(path, packet),
            None => self.counters.reply_drops += 1,
        }
    }

    /// Answers the packet under work, which may have come from anybody, by a finished packet.
    pub(crate) fn answer(&mut self, path: PathAddr, packet: Vec<u8>) {
        if !self.may_answer(&path) {
            return;
        }
        match self.replies.allowance.spend(&path, packet.len()) {
            true => {
                self.replies.limit.spend(self.now, &path, packet.len());
                self.reply_packet(path, packet);
            }
            false => self.counters.unverified_drops += 1,
        }
    }

    /// Whether the packet under work, which has come over `path` from anybody, may be answered. It is counted if not.
    pub(crate) fn may_answer(&mut self, path: &PathAddr) -> bool {
        let may = self.replies.limit.affords(self.now, self.config.unverified_reply_rate, path);
        self.counters.rate_limited_replies += u64::from(!may);
        may
    }

    /// Sends a finished packet at the next opportunity, even if its association is gone by then.
    pub(crate) fn reply_packet(&mut self, path: PathAddr, packet: Vec<u8>) {
        if !self.replies.push_packet(path, packet) {
            self.counters.reply_drops += 1;
        }
    }

    /// The endpoint's addresses that associations of a realm with these parameters may begin with.
    pub(crate) fn own_locals(&self, realm: Option<u32>) -> Cow<'a, [LocalAddress]> {
        let allowed = self.config.allowed(self.locals);
        let fits = |local: &LocalAddress| self.realm_of(local.addr.ip()) == realm;
        match allowed.iter().all(fits) {
            true => allowed,
            false => Cow::Owned(allowed.iter().filter(|local| fits(local)).copied().collect()),
        }
    }

    /// The realm of a local address; none outside of all realms.
    pub(crate) fn realm_of(&self, local: IpAddr) -> Option<u32> {
        scope::realm_of(self.scopes, local)
    }

    /// Whether the peer of an association over `handshake` may be told a local address.
    pub(crate) fn may_tell(&self, local: IpAddr, handshake: &PathAddr) -> bool {
        scope::may_tell(self.scopes, local, handshake.remote.ip())
    }

    /// Our addresses that the peer of an association over `handshake` is told in the handshake.
    pub(crate) fn announced(&self, handshake: &PathAddr) -> Vec<IpAddr> {
        if self.config.announce == Announce::Authenticated {
            return Vec::new();
        }
        let mut locals = self.own_locals(self.realm_of(handshake.local.ip())).into_owned();
        locals.retain(|local| self.may_tell(local.addr.ip(), handshake));
        let mut addresses = pairing::announced(handshake, &locals);
        addresses.retain(|address| self.may_tell(*address, handshake));
        addresses
    }

    /// Largest IP packet from the local address of `path`.
    pub(crate) fn mtu(&self, path: &PathAddr) -> u16 {
        let local = self.locals.iter().find(|local| local.addr.ip() == path.local.ip());
        local.map_or(crate::config::DEFAULT_MTU, |local| local.mtu)
    }
}
