//! What a user asks of an association and its paths: SETPRIMARY, REQUESTHEARTBEAT and
//! SETPROTOCOLPARAMETERS of RFC 9260 section 11.1, sizes of fragments and packets (RFC 6458 sections
//! 8.1.12 and 8.1.16).

use super::{AssociationId, Endpoint};
use crate::association::InitRepetition;
use crate::config::{PathMtu, Redundancy};
use crate::path::{PathRule, Supervision, SupervisionChange};
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::net::IpAddr;

impl Endpoint {
    /// Sends to `remote` first, whatever the peer prefers (`SCTP_PRIMARY_ADDR`, RFC 6458 section 8.1.9).
    /// Whether that is a confirmed address of the peer: others are not used, and nothing changes.
    pub fn set_primary(&mut self, now: Instant, id: AssociationId, remote: IpAddr) -> bool {
        self.with(now, id, |it, _| it.addressing().set_primary(remote).then_some(())).is_some()
    }

    /// Sends a HEARTBEAT to `remote` now, or without one on the primary path (`SPP_HB_DEMAND`, RFC 6458
    /// section 8.1.12). Whether there is such a path.
    pub fn request_heartbeat(
        &mut self,
        now: Instant,
        id: AssociationId,
        remote: Option<IpAddr>,
    ) -> bool {
        self.with(now, id, |it, _| it.path_manager().request_heartbeat(remote).then_some(()))
            .is_some()
    }

    /// Changes when the INIT of an association is sent again that has no answer. Whether that changes anything.
    pub fn repeat_init(&mut self, now: Instant, id: AssociationId, how: InitRepetition) -> bool {
        self.with(now, id, |it, _| it.state.repeat_init(how).then_some(())).is_some()
    }

    /// This host has been away (suspended) for a while and is back: errors that were counted before say nothing, and
    /// HEARTBEATs ask on all paths at once. To be called before `now` is told in any other way.
    pub fn resume(&mut self, now: Instant, id: AssociationId) {
        self.with(now, id, |it, cx| {
            it.errors.clear();
            it.path_manager().resume(cx);
        });
    }

    /// Changes RTO.Initial, RTO.Min and RTO.Max of all paths of an association, those to come too (SETPROTOCOLPARAMETERS;
    /// `SCTP_RTOINFO`, RFC 6458 section 8.1.1).
    pub fn set_rto(
        &mut self,
        now: Instant,
        id: AssociationId,
        initial: Duration,
        bounds: (Duration, Duration),
    ) {
        self.with(now, id, |it, _| it.paths.set_rto(initial, bounds));
    }

    /// Changes how the paths to `remote` are supervised, or without one all paths of the association, those to
    /// come too (`SCTP_PEER_ADDR_PARAMS`, RFC 6458 section 8.1.12). Whether there is a path to `remote`.
    pub fn set_supervision(
        &mut self,
        now: Instant,
        id: AssociationId,
        remote: Option<IpAddr>,
        change: SupervisionChange,
    ) -> bool {
        self.with(now, id, |it, cx| it.path_manager().set_supervision(cx, remote, change))
    }

    /// How the paths to `remote` are supervised, or without one those that are to come.
    /// `None` without such an association or path.
    pub fn supervision(&self, id: AssociationId, remote: Option<IpAddr>) -> Option<Supervision> {
        let association = self.registry.get(id)?;
        let config = association.parameters.as_deref().unwrap_or(&self.config);
        association.paths.supervision(config, remote)
    }

    /// Changes Association.Max.Retrans of an association that exists (`SCTP_ASSOCINFO`, RFC 6458 section 8.1.2).
    pub fn set_max_retransmits(&mut self, now: Instant, id: AssociationId, limit: u32) {
        self.with(now, id, |it, _| it.errors.limit = Some(limit));
    }

    /// Association.Max.Retrans of an association that exists.
    pub fn max_retransmits(&self, id: AssociationId) -> Option<u32> {
        let association = self.registry.get(id)?;
        Some(association.errors.most(association.parameters.as_deref().unwrap_or(&self.config)))
    }

    /// Makes no fragment of a message larger than `limit` bytes (`SCTP_MAXSEG`, RFC 6458 section 8.1.16), or
    /// without one only as large as fits a packet. Holds for what has not been sent.
    pub fn set_fragment_limit(&mut self, now: Instant, id: AssociationId, limit: Option<u16>) {
        self.with(now, id, |it, _| it.sender.fragmentation_mut().set_limit(limit));
    }

    /// Says what is wanted of paths from now on, of those that exist and of those to come: of the rules that
    /// fit a path the first holds, without one the default. The peers learn of it, so that it holds for what
    /// they send as well. [`crate::Event::PathPolicy`] tells for each path that has changed.
    pub fn set_path_policies(&mut self, now: Instant, rules: Vec<PathRule>) {
        if self.policies == rules {
            return;
        }
        self.policies = rules;
        for id in self.registry.ids() {
            self.with(now, id, |it, cx| it.addressing().renew_policies(cx));
        }
    }

    /// Says what is wanted of the paths of one association from now on, in place of what
    /// [`Self::set_path_policies`] says for all.
    pub fn set_own_path_policies(&mut self, now: Instant, id: AssociationId, rules: Vec<PathRule>) {
        self.with(now, id, |it, cx| {
            it.paths.set_own_policies(rules);
            it.addressing().renew_policies(cx);
        });
    }

    /// Sends other streams on several paths from now on, in all associations that exist and that are to
    /// come with the endpoint's own parameters.
    pub fn set_redundancy(&mut self, now: Instant, redundancy: Redundancy) {
        self.configure(|config| config.redundancy = redundancy);
        for id in self.registry.ids() {
            self.with(now, id, |it, _| {
                it.sender.copies_mut().set_redundancy(redundancy, &mut it.paths)
            });
        }
    }

    /// Begins the search for the MTU of the paths to `remote`, or of all paths, or ends it (`SPP_PMTUD_ENABLE`
    /// and `SPP_PMTUD_DISABLE`, RFC 6458 section 8.1.12). Where it ends, packets are of `fixed` bytes with
    /// the IP header from then on, or without that as large as they were.
    pub fn set_path_mtu(
        &mut self,
        now: Instant,
        id: AssociationId,
        remote: Option<IpAddr>,
        source: PathMtu,
        fixed: Option<u16>,
    ) {
        self.with(now, id, |it, cx| it.path_manager().set_path_mtu(cx, remote, source, fixed));
    }
}
