//! The transmission control block (RFC 9260 section 1.3: TCB).

use super::announcement::Announcement;
use super::asconf::AddressChanges;
use super::authentication::Security;
use super::control::ControlQueue;
use super::handshake::Handshake;
use super::reconfiguration::Reconfiguration;
use super::state::State;
use super::statistics::Statistics;
use super::unverified::Unverified;
use super::user::Notices;
use crate::config::Config;
use crate::event::AssociationId;
use crate::path::Paths;
use crate::recv::Receiver;
use crate::send::Sender;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use manypath_wire::VerificationTag;
use manypath_wire::packet::CommonHeader;

/// The SCTP ports of an association.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ports {
    /// Ours.
    pub local: u16,
    /// The peer's.
    pub peer: u16,
}

/// One association.
#[derive(Debug)]
pub(crate) struct Association {
    pub(super) id: AssociationId,
    pub(crate) ports: Ports,
    pub(crate) handshake: Handshake,
    pub(crate) state: State,
    /// Known from the INIT ACK or the cookie on.
    pub(crate) peer: Option<Peer>,
    /// Every address the peer may send from: listed ones and those of the handshake.
    pub(super) peer_addresses: Vec<IpAddr>,
    pub(crate) paths: Paths,
    pub(crate) sender: Sender,
    pub(super) control: ControlQueue,
    pub(super) reconfiguration: Reconfiguration,
    /// Present if addresses may come and go.
    pub(crate) addresses: Option<Box<AddressChanges>>,
    pub(crate) security: Security,
    pub(crate) errors: Errors,
    /// The user asked for a shutdown before the handshake was complete.
    pub(super) shutdown_wanted: bool,
    pub(crate) notices: Notices,
    /// The endpoint must look again at the tag and the addresses.
    pub(crate) keys_changed: bool,
    /// What holds instead of the endpoint's parameters.
    pub(crate) parameters: Option<Arc<Config>>,
    pub(crate) statistics: Statistics,
    pub(super) unverified: Unverified,
}

/// Consecutive errors of an association (section 8.1).
#[derive(Debug, Default)]
pub(crate) struct Errors {
    count: u32,
    /// When the first of them was counted.
    since: Instant,
    /// Association.Max.Retrans, if not as the configuration says.
    pub limit: Option<u32>,
}

impl Errors {
    pub(super) fn add(&mut self, now: Instant) {
        self.count += 1;
        if self.count == 1 {
            self.since = now;
        }
    }

    /// The peer is alive.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// More errors in a row than this, and the peer is given up (Association.Max.Retrans, RFC 9260 section 16).
    pub(crate) fn most(&self, config: &Config) -> u32 {
        self.limit.unwrap_or(config.association_max_retransmits)
    }

    /// Whether there were too many. The peer may be silent for as long as `patience` if the user has said nothing else.
    pub(super) fn are_too_many(&self, now: Instant, config: &Config, patience: Duration) -> bool {
        let is_patient = self.limit.is_none() && now.since(self.since) < patience;
        self.count > self.most(config) && !is_patient
    }
}

/// What is known of the peer once it has spoken.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its INIT or INIT ACK.
    pub announcement: Announcement,
    /// What comes from it.
    pub receiver: Receiver,
}

impl Association {
    /// The peer's verification tag, once known.
    pub(crate) fn peer_tag(&self) -> Option<VerificationTag> {
        self.peer.as_ref().map(|peer| peer.announcement.tag)
    }

    /// The common header of packets to the peer. Before its tag is known, that of an INIT.
    pub(super) fn header(&self) -> CommonHeader {
        CommonHeader {
            source_port: self.ports.local,
            destination_port: self.ports.peer,
            tag: self.peer_tag().unwrap_or(VerificationTag(0)),
        }
    }
}
