//! Which policy a path has, by its addresses.

use super::PathPolicy;
use crate::path::PathAddr;
use core::net::IpAddr;

/// A policy for the paths between some addresses. Of several that fit, the first holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathRule {
    /// Paths from this address of ours; `None`: from any.
    pub local: Option<IpAddr>,
    /// Paths to this address of the peer; `None`: to any.
    pub remote: Option<IpAddr>,
    /// What is wanted of them.
    pub policy: PathPolicy,
}

impl PathRule {
    /// Whether it speaks of the path between these addresses.
    pub(crate) fn fits(&self, addr: &PathAddr) -> bool {
        self.local.is_none_or(|local| local == addr.local.ip())
            && self.remote.is_none_or(|remote| remote == addr.remote.ip())
    }

    /// What `rules` want of the path between these addresses.
    pub(crate) fn policy(rules: &[Self], addr: &PathAddr) -> PathPolicy {
        let first = rules.iter().find(|rule| rule.fits(addr));
        first.map_or_else(PathPolicy::default, |rule| rule.policy)
    }
}

#[cfg(test)]
mod tests {
    use super::{PathPolicy, PathRule};
    use crate::path::PathAddr;

    #[test]
    fn the_first_rule_that_fits_holds() {
        let cost = |cost| PathPolicy { cost, ..PathPolicy::default() };
        let ip = |text: &str| Some(text.parse().unwrap());
        let rules = [
            PathRule { local: ip("10.0.0.1"), remote: ip("10.0.0.9"), policy: cost(1) },
            PathRule { local: ip("10.0.0.1"), remote: None, policy: cost(2) },
            PathRule { local: None, remote: ip("10.0.0.8"), policy: cost(3) },
        ];
        let of = |local: &str, remote: &str| {
            let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
            PathRule::policy(&rules, &PathAddr { local, remote }).cost
        };
        assert_eq!(of("10.0.0.1:1", "10.0.0.9:2"), 1);
        assert_eq!(of("10.0.0.1:1", "10.0.0.8:2"), 2);
        assert_eq!(of("10.0.0.2:1", "10.0.0.8:2"), 3);
        assert_eq!(of("10.0.0.2:1", "10.0.0.9:2"), 0);
    }
}
