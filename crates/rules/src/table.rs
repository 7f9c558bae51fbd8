//! The table as a stack looks it up.

use crate::options::Options;
use crate::rule::{Chain, Policy, Protocol, Query, Rule};
use crate::source::Client;
use serde::Serialize;
use std::net::SocketAddr;

/// Default policies and rules, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Absent: closed, but for listeners of programs that were started to be reached.
    pub(crate) local: Option<Policy>,
    pub(crate) remote: Policy,
    pub(crate) rules: Vec<Rule>,
}

/// Where a rule stands: its list and its number in it, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The chain of its list.
    pub chain: Chain,
    /// The policy of its list.
    pub policy: Policy,
    /// Its number in the list.
    pub number: usize,
}

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decider {
    /// No rule: the default.
    Default,
    /// The first rule that matched.
    Rule(Place),
}

/// What becomes of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Whether it is carried.
    pub policy: Policy,
    /// Who decided.
    pub decider: Decider,
    /// How it is carried, if a rule says so.
    pub options: Option<(&'a Options, Place)>,
}

impl Default for Table {
    /// Connections of this host's programs are carried, its services closed to peers.
    fn default() -> Self {
        Self { local: None, remote: Policy::Enable, rules: Vec::new() }
    }
}

impl Table {
    /// The default policy of a chain, as configured.
    #[must_use]
    pub fn default_policy(&self, chain: Chain) -> Policy {
        match chain {
            Chain::Local => self.local.unwrap_or(Policy::Disable),
            Chain::Remote => self.remote,
        }
    }

    /// The default policy that holds for a protocol: UDP is never carried without a rule.
    #[must_use]
    pub fn effective_default(&self, chain: Chain, protocol: Protocol) -> Policy {
        match protocol {
            Protocol::Tcp => self.default_policy(chain),
            Protocol::Udp => Policy::Disable,
        }
    }

    /// Sets the default policy of a chain.
    pub fn set_default(&mut self, chain: Chain, policy: Policy) {
        match chain {
            Chain::Local => self.local = Some(policy),
            Chain::Remote => self.remote = policy,
        }
    }

    /// How many rules it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether it has no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Puts a rule behind all others.
    pub fn push(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// The rules of one list with their places, in the order in which they are tried.
    pub fn list(&self, chain: Chain, policy: Policy) -> impl Iterator<Item = (Place, &Rule)> {
        let rules = self.rules.iter().filter(move |r| r.chain == chain && r.policy == policy);
        (1..).zip(rules).map(move |(number, rule)| (Place { chain, policy, number }, rule))
    }

    /// What becomes of a connection: the first rule that matches decides.
    #[must_use]
    pub fn decide(&self, query: Query<'_>) -> Decision<'_> {
        self.decide_from(self.effective_default(query.chain, query.protocol), query)
    }

    /// Whether connections to `destination` must not fall back to plain TCP.
    #[must_use]
    pub fn is_sctp_only(&self, destination: SocketAddr) -> bool {
        let query = Query::remote(Protocol::Tcp, destination);
        let options = self.decide(query).options;
        options.is_some_and(|(options, _)| options.may_need_sctp())
    }

    /// What becomes of a peer's wish to reach a listener of a program under `manypath run`: who
    /// starts a server so wants it reached, unless the table has a default for local services.
    #[must_use]
    pub fn decide_listener(&self, service: SocketAddr, client: Option<&Client>) -> Decision<'_> {
        let query = Query::local(Protocol::Tcp, service, client);
        self.decide_from(self.listener_default(), query)
    }

    /// What becomes of listeners of programs under `manypath run` that no rule names.
    #[must_use]
    pub fn listener_default(&self) -> Policy {
        self.local.unwrap_or(Policy::Enable)
    }

    fn decide_from(&self, default: Policy, query: Query<'_>) -> Decision<'_> {
        let decided = match default {
            Policy::Disable => self.exclusion(query),
            Policy::Enable => None,
        };
        let decided = decided.or_else(|| self.first_match(query, default.opposite()));
        let (policy, decider) = match decided {
            Some((place, _)) => (place.policy, Decider::Rule(place)),
            None => (default, Decider::Default),
        };
        let options = match (policy, decided) {
            (Policy::Disable, _) => None,
            (Policy::Enable, Some((place, rule))) => Some((&rule.options, place)),
            (Policy::Enable, None) => {
                self.first_match(query, Policy::Enable).map(|(place, rule)| (&rule.options, place))
            }
        };
        Decision { policy, decider, options }
    }

    fn first_match(&self, query: Query, policy: Policy) -> Option<(Place, &Rule)> {
        self.list(query.chain, policy).find(|(_, rule)| rule.matches(&query))
    }

    /// The disable rule that names this peer, if one does: it holds whatever the default is.
    fn exclusion(&self, query: Query<'_>) -> Option<(Place, &Rule)> {
        self.exclusions(query.chain).find(|(_, rule)| rule.matches(&query))
    }

    /// Disable rules that name peers.
    pub(crate) fn exclusions(&self, chain: Chain) -> impl Iterator<Item = (Place, &Rule)> {
        self.list(chain, Policy::Disable).filter(|(_, rule)| !rule.source.is_anyone())
    }

    /// Whether a disable rule names the peer that asks.
    #[must_use]
    pub fn excludes(&self, query: Query<'_>) -> bool {
        self.exclusion(query).is_some()
    }

    /// Whether some rule is about peers that are known by their keys.
    #[must_use]
    pub fn names_keys(&self) -> bool {
        let names = |rule: &Rule| {
            rule.source.identity.is_some()
                || rule.chain == Chain::Local && rule.options.encrypt.is_some()
        };
        self.rules.iter().any(names)
    }

    /// Whether some rule is about who the peer of a service is.
    #[must_use]
    pub fn names_clients(&self) -> bool {
        self.names_keys() || self.rules.iter().any(|rule| !rule.source.is_anyone())
    }
}

impl Policy {
    /// The other one.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Enable => Self::Disable,
            Self::Disable => Self::Enable,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Document, Policy};

    fn listener(text: &str, service: &str) -> Policy {
        let table = Document::parse(text).unwrap().table();
        table.decide_listener(service.parse().unwrap(), None).policy
    }

    #[test]
    fn who_starts_a_server_under_run_wants_it_reached_unless_the_table_says_otherwise() {
        assert_eq!(listener("", "10.0.0.1:80"), Policy::Enable);
        assert_eq!(listener("local disable port 80\n", "10.0.0.1:80"), Policy::Disable);
        assert_eq!(listener("local disable port 80\n", "10.0.0.1:81"), Policy::Enable);
        assert_eq!(listener("default local disable\n", "10.0.0.1:80"), Policy::Disable);
        let named = "default local disable\nlocal enable port 80\n";
        assert_eq!(listener(named, "10.0.0.1:80"), Policy::Enable);
        assert_eq!(listener(named, "10.0.0.1:81"), Policy::Disable);
    }
}
