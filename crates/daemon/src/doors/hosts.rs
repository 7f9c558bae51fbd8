//! What each host behind the doors has had.

use manypath_control::status::DoorHostStatus;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Hosts that are told apart. Those beyond count together, under the unspecified address.
const MAX_HOSTS: usize = 1024;

/// Counts by host.
#[derive(Debug, Default)]
pub(super) struct Hosts(BTreeMap<IpAddr, Counts>);

/// What a host has had so far, connections that have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) carried: u64,
    pub(super) plain: u64,
    pub(super) failed: u64,
    pub(super) refused: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Hosts {
    /// The counts of a host.
    pub(super) fn of(&mut self, host: IpAddr) -> &mut Counts {
        self.0.entry(self.key(host)).or_default()
    }

    /// Under which address a host is counted.
    fn key(&self, host: IpAddr) -> IpAddr {
        let is_new = !self.0.contains_key(&host);
        match (host, is_new && self.0.len() >= MAX_HOSTS) {
            (_, false) => host,
            (IpAddr::V4(_), true) => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
            (IpAddr::V6(_), true) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        }
    }

    /// All of them. `open` has the connections of each that are there now, and what they have moved.
    pub(super) fn status(&self, open: &[(IpAddr, (u64, u64))]) -> Vec<DoorHostStatus> {
        let mut sums = BTreeMap::<IpAddr, (u64, u64, u64)>::new();
        for (host, (sent, received)) in open {
            let sum = sums.entry(self.key(*host)).or_default();
            *sum = (sum.0 + 1, sum.1 + sent, sum.2 + received);
        }
        let of = |host: &IpAddr| sums.get(host).copied().unwrap_or_default();
        let status = |(host, counts): (&IpAddr, &Counts)| DoorHostStatus {
            host: *host,
            open: of(host).0,
            carried: counts.carried,
            plain: counts.plain,
            failed: counts.failed,
            refused: counts.refused,
            sent_bytes: counts.sent + of(host).1,
            received_bytes: counts.received + of(host).2,
        };
        self.0.iter().map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_beyond_the_limit_count_together() {
        let mut hosts = Hosts::default();
        for number in 0..MAX_HOSTS as u32 + 10 {
            hosts.of(IpAddr::from((0x0a00_0000 + number).to_be_bytes())).refused += 1;
        }
        let all = hosts.status(&[("10.0.4.9".parse().unwrap(), (3, 4))]);
        assert_eq!(all.len(), MAX_HOSTS + 1);
        assert_eq!((all[0].open, all[0].sent_bytes, all[0].received_bytes), (1, 3, 4));
        assert_eq!((all[0].host.is_unspecified(), all[0].refused), (true, 10));
        hosts.of("10.0.0.0".parse().unwrap()).refused += 1;
        assert_eq!(hosts.status(&[])[1].refused, 2, "a known host keeps its own");
    }
}
