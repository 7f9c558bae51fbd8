//! What would happen to a connection, and why: the answer in words.

use crate::rule::Query;
use crate::rule::{Chain, Policy, Protocol, Rule};
use crate::table::{Decider, Place, Table};
use serde::Serialize;
use std::fmt;

/// What would happen to a connection, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation<'a> {
    /// What was asked.
    pub query: Query<'a>,
    /// The default policy that holds for it.
    pub default: Policy,
    /// Whether it is carried.
    pub policy: Policy,
    /// Who decided.
    pub decider: Decider,
    /// The options that hold, in words; absent when it is not carried or no rule says any.
    pub options: Option<String>,
    /// Each rule that was tried, in order.
    pub steps: Vec<Step>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// One rule that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Where it stands.
    pub place: Place,
    /// The rule in words.
    pub rule: String,
    /// Why it did not match; absent when it did.
    pub mismatch: Option<&'static str>,
}

impl Table {
    /// Looks a connection up and tells each step.
    #[must_use]
    pub fn explain<'a>(&self, query: Query<'a>) -> Explanation<'a> {
        let decision = self.decide(query);
        let default = self.effective_default(query.chain, query.protocol);
        let mut steps = match default {
            Policy::Disable => steps(self.exclusions(query.chain), query),
            Policy::Enable => Vec::new(),
        };
        if steps.last().is_none_or(|step| step.mismatch.is_some()) {
            steps.extend(self.steps(query, default.opposite()));
        }
        if decision.policy == Policy::Enable && default == Policy::Enable {
            steps.extend(self.steps(query, Policy::Enable));
        }
        let options = decision.options.map(|(options, _)| options.to_string());
        Explanation {
            query,
            default,
            policy: decision.policy,
            decider: decision.decider,
            options: options.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()),
            steps,
            notes: self.notes(query, decision.policy),
        }
    }

    /// The rules of a list up to and with the one that matches.
    fn steps(&self, query: Query<'_>, policy: Policy) -> Vec<Step> {
        steps(self.list(query.chain, policy), query)
    }
}

fn steps<'a>(rules: impl Iterator<Item = (Place, &'a Rule)>, query: Query<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    for (place, rule) in rules {
        let step = step(place, rule, query);
        let decided = step.mismatch.is_none();
        steps.push(step);
        if decided {
            break;
        }
    }
    steps
}

fn step(place: Place, rule: &Rule, query: Query<'_>) -> Step {
    let mismatch = match rule.mismatch(&query) {
        Some("other address") if query.address.ip().is_unspecified() => {
            Some("names an address: tried again for each connection")
        }
        other => other,
    };
    Step { place, rule: rule.to_string(), mismatch }
}

impl Table {
    /// What else is to be said about a query.
    fn notes(&self, query: Query<'_>, policy: Policy) -> Vec<String> {
        let mut notes = notes(query, policy);
        let differs = query.chain == Chain::Local
            && query.protocol == Protocol::Tcp
            && self.decide_listener(query.address, query.client).policy != policy;
        if query.chain == Chain::Local && query.client.is_none() && self.names_clients() {
            notes.push("to ask for a peer that rules name: --from, --key, --peer".to_owned());
        }
        if query.chain == Chain::Local && self.names_keys() {
            notes.push("a peer has a key only where its association is encrypted".to_owned());
        }
        if differs && !query.address.ip().is_loopback() {
            notes.push(
                "a program that listens there under `manypath run` is open to peers".to_owned(),
            );
        }
        notes
    }
}

fn notes(query: Query<'_>, policy: Policy) -> Vec<String> {
    let address = query.address.ip().to_canonical();
    let mut notes = Vec::new();
    if query.chain == Chain::Remote && address.is_loopback() {
        notes.push("loopback destinations are always left to the kernel".to_owned());
    }
    if query.chain == Chain::Local && address.is_loopback() {
        notes.push("services on loopback are never offered to peers".to_owned());
    }
    if query.chain == Chain::Local && address.is_unspecified() {
        notes.push(
            "a service on every address: each connection is looked up by the address that the peer uses"
                .to_owned(),
        );
    }
    if query.chain == Chain::Remote && policy == Policy::Enable && query.protocol == Protocol::Tcp {
        notes.push(
            "where the peer has no manypath, and no native SCTP at this port, plain TCP is used"
                .to_owned(),
        );
    }
    if policy == Policy::Enable && query.protocol == Protocol::Udp {
        notes.push(match query.chain {
            Chain::Remote => {
                "datagrams of programs under `manypath run`, if this or another udp rule \
                was there when they were started, and of sockets made since in a cgroup that is \
                attached; plain UDP where the peer has no manypath"
                    .to_owned()
            }
            Chain::Local => {
                "the stack that peers find (`manypath serve`, or one of `run` or `attach`) hands \
                datagrams of peers to the service from an address of this host"
                    .to_owned()
            }
        });
    }
    notes
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query = self.query;
        let what = match query.chain {
            Chain::Remote => "connect to",
            Chain::Local => "service at",
        };
        let verdict = match (self.policy, query.protocol) {
            (Policy::Enable, Protocol::Tcp) => "carried over SCTP",
            (Policy::Enable, Protocol::Udp) => "datagrams carried over SCTP",
            (Policy::Disable, _) => "left to the kernel",
        };
        writeln!(f, "{what} {} ({}): {verdict}", query.address, query.protocol)?;
        match self.decider {
            Decider::Default => writeln!(f, "  decided by the default of {}", query.chain)?,
            Decider::Rule(place) => writeln!(f, "  decided by {place}")?,
        }
        if let Some(options) = &self.options {
            writeln!(f, "  options: {options}")?;
        }
        writeln!(f, "  default of {}: {}", query.chain, self.default)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))?;
        self.notes.iter().try_for_each(|note| writeln!(f, "  note: {note}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = self.mismatch.unwrap_or("MATCHES");
        write!(f, "{}: {}: {verdict}", self.place, self.rule)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{} rule {}", self.chain, self.policy, self.number)
    }
}
