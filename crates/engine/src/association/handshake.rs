//! What the handshake settles: what it announces, and which round trips it measures (RFC 9260 section 5).

use super::announcement::{Announcement, Identity};
use super::authentication::Security;
use super::context::Context;
use super::cookie::TieTags;
use super::cookie_paths::HANDSHAKE;
use super::families::Families;
use super::state::State;
use crate::config::{Announce, Config, LocalAddress};
use crate::path::{Path, PathAddr, PathId, Paths, pairing};
use crate::time::Instant;
use alloc::borrow::Cow;
use core::net::IpAddr;
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::Packet;
use manypath_wire::parameter::Parameter;
use manypath_wire::{Tsn, VerificationTag};

/// What the last handshake has settled.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// The addresses of the first path.
    pub path: PathAddr,
    pub local_tag: VerificationTag,
    /// The TSN of our first DATA chunk.
    pub local_tsn: Tsn,
    /// We have sent the INIT.
    pub initiated: bool,
    /// Copies of the INIT have left over other ways. Each is answered.
    pub copied: bool,
    /// Made when the first cookie needs them (section 5.2.2).
    pub tie: Option<TieTags>,
    /// Whether the peer may know our address of this path alone.
    pub withheld: Withheld,
}

/// Whether a peer may know no address of ours but that of the handshake (`Config::announce`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Withheld {
    /// It may know them all.
    No,
    /// Until it has shown who it is.
    UntilRevealed,
    /// It has done so. They are announced when neither end takes packets without protection any more.
    UntilProtected,
}

impl Withheld {
    pub(super) fn by(config: &Config) -> Self {
        match config.announce {
            Announce::All => Self::No,
            Announce::Authenticated => Self::UntilRevealed,
        }
    }
}

impl Handshake {
    /// Whether the peer may know no address of ours but that of the handshake.
    pub(crate) fn is_withheld(&self) -> bool {
        self.withheld != Withheld::No
    }

    /// Whether a packet over `addr` may come from another user of the peer's host: the peer was asked at a privileged
    /// port, which proves who answers, and the packet comes from another port. Or from another host: one with the same
    /// link-local address on another link.
    pub(super) fn is_unproven(&self, addr: &PathAddr) -> bool {
        let asked = self.path.remote;
        let proves = self.initiated && pairing::is_privileged(&asked);
        (proves && addr.remote.port() != asked.port())
            || pairing::is_on_other_link(&asked, &addr.remote)
    }

    /// The INIT of this association.
    pub(super) fn announcement(&self, cx: &Context<'_>, security: &Security) -> Announcement {
        Announcement::own(cx.config, self.identity(security), cx.announced(&self.path))
    }

    /// What of our INIT was drawn at random.
    pub(super) fn identity(&self, security: &Security) -> Identity {
        Identity {
            tag: self.local_tag,
            initial_tsn: self.local_tsn,
            auth: security.own_offer().cloned(),
            keys: security.own_key_offer().cloned(),
        }
    }

    /// Families for the INIT's Supported Address Types, where our addresses are those of `realm`.
    pub(super) fn families(&self, cx: &Context<'_>, realm: Option<u32>) -> Families {
        let own = self.path.local.ip();
        let locals = cx.own_locals(realm);
        let usable = |v4| {
            let mut all = locals.iter().map(|local| local.addr.ip());
            own.is_ipv4() == v4 || all.any(|ip| ip.is_ipv4() == v4 && pairing::same_scope(ip, own))
        };
        Families { ipv4: usable(true), ipv6: usable(false) }
    }

    /// The time from INIT ACK to COOKIE ECHO is a round trip, which the cookie has kept. It comes out
    /// too long if the COOKIE ECHO is a repetition, but still below RTO.Initial it tells more.
    ///
    /// Where it has come over another path, `via`, half of it was not the handshake's path. A copy that came sooner than
    /// the original came over a faster path, so that the round trip is at least as long and at most twice that.
    pub(super) fn sample_cookie(
        &self,
        cx: &Context<'_>,
        paths: &mut Paths,
        created: Instant,
        via: PathAddr,
    ) {
        let time = cx.now.since(created);
        if time >= cx.config.rto_initial {
            return;
        }
        if via == self.path {
            paths.sample(cx.now, HANDSHAKE, Some(time));
        } else if let Some(path) = paths.get_mut(HANDSHAKE) {
            path.rtt_mut().suppose(time, time * 2);
        }
    }

    /// The COOKIE ECHO comes over `via` after a copy of it. It is a sample as above if it is the original.
    pub(super) fn sample_original(
        &self,
        cx: &Context<'_>,
        paths: &mut Paths,
        created: Instant,
        via: PathAddr,
    ) {
        let is_measured = |path: &Path| path.rtt().least().is_some();
        if via == self.path && !paths.get(HANDSHAKE).is_some_and(is_measured) {
            self.sample_cookie(cx, paths, created, via);
        }
    }

    /// Our addresses that the handshake makes paths of: those that the peer was told, which are all or as many as the
    /// INIT ACK had room for, and those that it is never told.
    pub(super) fn told_locals<'a>(
        &self,
        cx: &Context<'a>,
        told: Option<u8>,
    ) -> Cow<'a, [LocalAddress]> {
        let locals = cx.own_locals(cx.realm_of(self.path.local.ip()));
        if self.is_withheld() {
            let own = self.path.local.ip();
            return locals.iter().filter(|local| local.addr.ip() == own).copied().collect();
        }
        let Some(count) = told else { return locals };
        let mut told = cx.announced(&self.path);
        told.truncate(count.into());
        told.push(self.path.local.ip());
        let used = |ip| told.contains(&ip) || !cx.may_tell(ip, &self.path);
        locals.iter().filter(|local| used(local.addr.ip())).copied().collect()
    }

    /// The path of our INIT, if `packet`, from an address that is not known, answers it: a host with
    /// several addresses may answer from another than the one that was asked, as usrsctp does over IP.
    /// It must list that one (section 5.1.2 rule D).
    pub(super) fn path_of_answer(
        &self,
        state: &State,
        addr: &PathAddr,
        packet: Packet<'_>,
    ) -> Option<PathId> {
        let State::CookieWait(_) = state else { return None };
        if self.is_unproven(addr) {
            return None;
        }
        let Some(Ok(Chunk::InitAck(ack))) = packet.chunks().next() else { return None };
        let asked = self.path.remote.ip();
        let is_asked = |parameter: Parameter<'_>| {
            matches!(parameter, Parameter::Ipv4Address(v4) if asked == IpAddr::from(v4))
                || matches!(parameter, Parameter::Ipv6Address(v6) if asked == IpAddr::from(v6))
        };
        ack.parameters.iter().filter_map(Result::ok).any(is_asked).then_some(HANDSHAKE)
    }
}
