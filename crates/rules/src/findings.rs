//! Rules that can never do anything.

use crate::cover::is_covered;
use crate::rule::{Chain, Policy, Protocol, Rule};
use crate::table::{Place, Table};
use serde::Serialize;

/// A rule without any effect, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Where the rule stands.
    pub place: Place,
    /// The rule in words.
    pub rule: String,
    /// Why it has no effect.
    pub why: String,
}

impl Table {
    /// The rules that can never have an effect, in the order of the table.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let place = self.place(index, rule);
            if let Some(why) = self.useless(index, rule) {
                findings.push(Finding { place, rule: rule.to_string(), why });
            }
        }
        findings
    }

    /// Where the first rule is that equals `rule`.
    pub fn place_of(&self, rule: &Rule) -> Option<Place> {
        let index = self.rules.iter().position(|other| other == rule)?;
        Some(self.place(index, rule))
    }

    fn place(&self, index: usize, rule: &Rule) -> Place {
        let number = 1 + self.earlier(index, rule).len();
        Place { chain: rule.chain, policy: rule.policy, number }
    }

    fn earlier(&self, index: usize, rule: &Rule) -> Vec<&Rule> {
        let same = |other: &&Rule| other.chain == rule.chain && other.policy == rule.policy;
        self.rules[..index].iter().filter(same).collect()
    }

    fn useless(&self, index: usize, rule: &Rule) -> Option<String> {
        self.unconsulted(rule).or_else(|| {
            let mut earlier = self.earlier(index, rule);
            if self.is_exclusion(rule) {
                earlier.retain(|other| self.is_exclusion(other));
            }
            is_covered(rule, &earlier).then(|| {
                "never matches: rules before it match everything that it matches".to_owned()
            })
        })
    }

    /// Why the rule's list is not searched, if it is not.
    fn unconsulted(&self, rule: &Rule) -> Option<String> {
        let default = self.effective_default(rule.chain, rule.protocol);
        let consulted = self.closes_listeners(rule) || self.is_exclusion(rule);
        if default != rule.policy || consulted {
            return None;
        }
        match (rule.policy, rule.protocol) {
            (Policy::Disable, Protocol::Udp) => {
                Some("never matches: udp is left to the kernel unless a rule enables it".to_owned())
            }
            (Policy::Disable, Protocol::Tcp) => {
                let chain = rule.chain;
                Some(format!("never matches: the default of {chain} is disable already"))
            }
            (Policy::Enable, _) if rule.options.is_empty() => {
                let chain = rule.chain;
                Some(format!(
                    "changes nothing: the default of {chain} is enable, and it has no options"
                ))
            }
            (Policy::Enable, _) => None,
        }
    }

    /// Whether it closes to the peers that it names what other rules open.
    fn is_exclusion(&self, rule: &Rule) -> bool {
        let default = self.effective_default(rule.chain, rule.protocol);
        (default, rule.policy) == (Policy::Disable, Policy::Disable) && !rule.source.is_anyone()
    }

    /// Without a default for local services, those that `manypath run` has started are open.
    fn closes_listeners(&self, rule: &Rule) -> bool {
        let closes = (Chain::Local, Policy::Disable, Protocol::Tcp);
        self.local.is_none() && (rule.chain, rule.policy, rule.protocol) == closes
    }
}

#[cfg(test)]
mod tests {
    use crate::Document;

    fn findings(text: &str) -> Vec<String> {
        let table = Document::parse(text).unwrap().table();
        table.findings().iter().map(|f| format!("{} {}", f.place.number, f.why)).collect()
    }

    #[test]
    fn the_example_of_the_thesis_is_found() {
        let found =
            findings("remote disable ports 1-1024\nremote disable net 10.1.2.0/24 port 1000\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("2 never matches: rules before it"), "{found:?}");
    }

    #[test]
    fn a_rule_that_agrees_with_the_default_is_found() {
        let text = "default local disable\nremote enable port 22\nlocal disable port 25\n";
        let found = findings(text);
        assert!(found[0].contains("changes nothing: the default of remote is enable"), "{found:?}");
        assert!(found[1].contains("the default of local is disable already"), "{found:?}");
        assert!(findings("remote enable port 22 half-close=off\n").is_empty());
        assert!(findings("default remote disable\nremote enable port 22\n").is_empty());
    }

    #[test]
    fn a_rule_that_closes_listeners_of_programs_has_an_effect() {
        assert!(findings("local disable port 25\n").is_empty());
        assert_eq!(findings("local disable udp port 53\n").len(), 1);
    }

    #[test]
    fn a_rule_that_closes_services_to_a_peer_has_an_effect() {
        let text = "default local disable\nlocal enable port 25\nlocal disable port 25 peer=bob\n";
        assert!(findings(text).is_empty());
        assert!(findings("local disable udp port 53 from=192.0.2.0/24\n").is_empty());
        let twice =
            "default local disable\nlocal disable peer=bob\nlocal disable port 25 peer=bob\n";
        assert_eq!(findings(twice).len(), 1);
    }

    #[test]
    fn a_disabled_udp_is_disabled_already() {
        let found = findings("remote disable udp port 53\n");
        assert!(found[0].contains("udp is left to the kernel"), "{found:?}");
        assert!(findings("remote enable udp port 53\n").is_empty());
    }
}
