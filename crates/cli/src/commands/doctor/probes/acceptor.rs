//! Which UDP port of the peer a connection to the service would ask, and who has such ports here.

use super::super::findings::Taken;
use manypath_daemon::{DEFAULT_PRIVILEGED_PORT, SettingsFile};
use manypath_rules::{Protocol, Query, RulesFile};
use std::net::SocketAddr;

/// The user of the service in the package.
const SERVICE_USER: &str = "manypath";
/// The first port that every user may have.
pub(super) const FIRST_FREE_PORT: u16 = 1024;

/// The settings that decide it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    usual: u16,
    privileged: u16,
    unproven: bool,
}

impl Ports {
    /// `usual` is the port for services at other ports than those below 1024.
    pub(super) fn read(usual: u16) -> Self {
        let values = SettingsFile::usual().read().unwrap_or_default();
        let value = |name| values.iter().find(|said| said.name == name).map(|said| said.value);
        let privileged = value("privileged_port").and_then(|port| u16::try_from(port).ok());
        let privileged = privileged.unwrap_or(DEFAULT_PRIVILEGED_PORT);
        Self { usual, privileged, unproven: value("unproven") == Some(1) }
    }

    /// The port at which the peer is asked for `service`, if one is named.
    pub(super) fn asked(self, service: Option<SocketAddr>) -> u16 {
        let low = service.filter(|service| service.port() < FIRST_FREE_PORT);
        let needs_proof = low.is_some_and(|service| !unproven(service).unwrap_or(self.unproven));
        let distinct = self.usual >= FIRST_FREE_PORT && self.privileged != 0;
        if needs_proof && distinct { self.privileged } else { self.usual }
    }

    /// The other port at which the peer may answer.
    pub(super) fn other(self, asked: u16) -> Option<u16> {
        let other = if asked == self.usual { self.privileged } else { self.usual };
        Some(other).filter(|other| *other != 0 && *other != asked)
    }

    /// Users of this host who have one of the ports, and are neither root nor the service.
    pub(super) fn taken(self) -> Vec<Taken> {
        let holders = |port| {
            let all = manypath_net::udp_holders(port, None).into_iter();
            let strangers =
                all.filter(|one| one.is_stranger() && one.user.as_deref() != Some(SERVICE_USER));
            strangers.map(move |one| Taken { port, by: one.to_string() })
        };
        let mut taken: Vec<Taken> = [self.usual, self.privileged]
            .into_iter()
            .filter(|port| *port != 0)
            .flat_map(holders)
            .collect();
        taken.dedup();
        taken
    }
}

/// What a rule says about the service.
fn unproven(service: SocketAddr) -> Option<bool> {
    let query = Query::remote(Protocol::Tcp, service);
    let table = RulesFile::usual().read().ok()?.table();
    table.decide(query).options.and_then(|(options, _)| options.unproven)
}
