//! SCTP clients of a gateway, and the TCP service behind it.

use super::Way;
use crate::allow::Denied;
use crate::association::DialId;
use crate::core::Core;
use crate::dial;
use crate::stack::Stack;
use manypath_engine::AssociationId;
use manypath_flow::{FlowId, Refusal};
use manypath_rules::Options;
use std::net::SocketAddr;

impl Core {
    /// Whether SCTP clients are led to a TCP service here, whatever address of ours they use.
    pub(crate) fn has_service(&self) -> bool {
        !self.services().is_empty()
    }

    fn services(&self) -> &[SocketAddr] {
        match self.config.gateway.as_ref().map(|gateway| &gateway.way) {
            Some(Way::ToTcp { service, .. }) => service,
            Some(Way::ToSctp { .. }) | None => &[],
        }
    }
}

impl Stack {
    /// Connects to the service for an association, at its first address or the next after `failed`;
    /// whether there is one.
    pub(crate) fn dial_service(
        &mut self,
        association: AssociationId,
        flow: FlowId,
        source: SocketAddr,
        failed: Option<SocketAddr>,
    ) -> bool {
        let all = self.base.core.services().to_vec();
        let after = |failed| all.iter().position(|one| *one == failed).map(|at| at + 1);
        let first = failed.map_or(Some(0), after).unwrap_or(all.len());
        for (number, address) in all.iter().enumerate().skip(first) {
            let Some(client) = self.base.core.verified_peer(association, *address, source) else {
                let why = Denied::NoClientAddress.counter();
                self.base.refuse(association, flow, Refusal::Busy, why);
                return true;
            };
            match dial::connect(None, *address, false) {
                Ok(fd) => {
                    let dial = DialId(self.base.core.next_id());
                    let ends = (client, *address);
                    self.start_dial(dial, association, flow, ends, Options::default(), fd);
                    return true;
                }
                Err(error) if number + 1 == all.len() => {
                    crate::dial::refuse_dial(&mut self.base, association, flow, *address, &error);
                    return true;
                }
                Err(_) => self.base.core.count("dials_tried_elsewhere"),
            }
        }
        false
    }
}
