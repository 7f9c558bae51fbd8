//! SCTP clients of a gateway, and the TCP service behind it.

use super::Way;
use crate::core::Core;
use std::net::SocketAddr;

impl Core {
    /// Whether SCTP clients are led to a TCP service here, whatever address of ours they use.
    pub(crate) fn has_service(&self) -> bool {
        !self.services().is_empty()
    }

    pub(crate) fn services(&self) -> &[SocketAddr] {
        match self.config.gateway.as_ref().map(|gateway| &gateway.way) {
            Some(Way::ToTcp { service, .. }) => service,
            Some(Way::ToSctp { .. }) | None => &[],
        }
    }
}
