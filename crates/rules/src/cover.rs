//! Whether earlier rules leave nothing for a later one.

use crate::network::Network;
use crate::ports::Ports;
use crate::rule::Rule;

/// Whether every address and port that `rule` matches is matched by one of `earlier`.
pub(crate) fn is_covered(rule: &Rule, earlier: &[&Rule]) -> bool {
    let earlier: Vec<&Rule> =
        earlier.iter().copied().filter(|other| is_as_wide(other, rule)).collect();
    let ports = rule.ports.unwrap_or(Ports::ALL);
    // Between two neighbouring bounds of port ranges the same rules match.
    let mut starts: Vec<u16> =
        earlier.iter().flat_map(|other| starts_within(other, ports)).collect();
    starts.push(ports.first());
    starts.iter().all(|&port| {
        let there = |other: &&Rule| other.ports.is_none_or(|ports| ports.contains(port));
        let earlier: Vec<Network> =
            earlier.iter().copied().filter(there).flat_map(networks).collect();
        networks(rule).iter().all(|network| is_inside(network, &earlier))
    })
}

/// Whether it is about the protocol and the peers of the rule, at least.
fn is_as_wide(other: &Rule, rule: &Rule) -> bool {
    other.protocol == rule.protocol && other.source.covers(&rule.source)
}

/// The ports within `ports` at which `rule` begins or ceases to match.
fn starts_within(rule: &Rule, ports: Ports) -> impl Iterator<Item = u16> {
    let own = rule.ports.unwrap_or(Ports::ALL);
    [Some(own.first()), own.last().checked_add(1)]
        .into_iter()
        .flatten()
        .filter(move |&port| ports.contains(port))
}

fn networks(rule: &Rule) -> Vec<Network> {
    rule.network.map_or_else(|| vec![Network::ALL_V4, Network::ALL_V6], |network| vec![network])
}

/// Whether the union of `parts` holds all of `whole`.
fn is_inside(whole: &Network, parts: &[Network]) -> bool {
    if parts.iter().any(|part| part.covers(whole)) {
        return true;
    }
    let within: Vec<Network> = parts.iter().copied().filter(|part| whole.covers(part)).collect();
    if within.is_empty() {
        return false;
    }
    whole.halves().is_some_and(|halves| halves.iter().all(|half| is_inside(half, &within)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(rule: &str, earlier: &[&str]) -> bool {
        let earlier: Vec<Rule> = earlier.iter().map(|text| text.parse().unwrap()).collect();
        is_covered(&rule.parse().unwrap(), &earlier.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_wider_rule_covers_a_narrower_one() {
        let wide = "remote disable ports 1-1024";
        assert!(covered("remote disable net 10.1.2.0/24 port 1000", &[wide]));
        assert!(!covered("remote disable net 10.1.2.0/24 port 1025", &[wide]));
        assert!(!covered("remote disable udp port 1000", &[wide]));
    }

    #[test]
    fn several_rules_together_cover_one() {
        let halves = ["remote disable net 10.0.0.0/9", "remote disable net 10.128.0.0/9"];
        assert!(covered("remote disable net 10.0.0.0/8 port 22", &halves));
        let ports = ["remote disable ports 1-99", "remote disable ports 100-65535"];
        assert!(covered("remote disable host 10.0.0.1", &ports));
        let gap = ["remote disable ports 1-99", "remote disable ports 101-65535"];
        assert!(!covered("remote disable host 10.0.0.1", &gap));
    }

    #[test]
    fn a_rule_covers_those_for_its_own_peers() {
        let (all, alice) = ("local enable port 22", "local enable ports 20-30 peer=alice");
        assert!(covered("local enable port 22 peer=alice", &[all]));
        assert!(covered("local enable port 22 peer=alice from=10.1.0.0/16", &[alice]));
        assert!(!covered("local enable port 22 peer=bob", &[alice]));
        assert!(!covered(all, &[alice]));
        assert!(!covered("local enable port 22", &["local enable port 22 from=0.0.0.0/0"]));
        let wide = "local enable port 22 from=10.0.0.0/8";
        assert!(covered("local enable port 22 from=10.1.0.0/16", &[wide]));
        assert!(!covered("local enable port 22 from=11.0.0.0/16", &[wide]));
    }

    #[test]
    fn any_address_needs_both_families() {
        assert!(!covered("remote disable port 22", &["remote disable net 0.0.0.0/0"]));
        let both = ["remote disable net 0.0.0.0/0", "remote disable net ::/0"];
        assert!(covered("remote disable port 22", &both));
    }
}
