//! The rules that this stack goes by: those of the file and those of its own command line.

use manypath_rules::paths::Budget;
use manypath_rules::{
    Chain, Client, Decider, Decision, Encrypt, FileError, Form, Network, Options, Policy, Ports,
    Profile, Protocol, Query, Rule, RulesFile, Source, Table, Via,
};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// A stack's rules. What it was allowed on its command line holds whatever the file says.
#[derive(Debug)]
pub(crate) struct Rules {
    file: Option<RulesFile>,
    own: Table,
    table: Table,
}

impl Rules {
    /// Reads the file, if there is one to read. `allowed` is what the command line says.
    pub(crate) fn load(
        file: Option<RulesFile>,
        allowed: impl IntoIterator<Item = Rule>,
    ) -> Result<Self, FileError> {
        let mut own = Table::default();
        allowed.into_iter().for_each(|rule| own.push(rule));
        let mut rules = Self { file, own, table: Table::default() };
        let table = rules.read()?;
        rules.adopt(table);
        Ok(rules)
    }

    /// Reads the file again.
    pub(crate) fn read(&self) -> Result<Table, FileError> {
        self.file.as_ref().map_or_else(|| Ok(Table::default()), |file| Ok(file.read()?.table()))
    }

    /// Uses another table from now on, and returns the one before.
    pub(crate) fn adopt(&mut self, table: Table) -> Table {
        std::mem::replace(&mut self.table, table)
    }

    /// How many rules the table has.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// What becomes of a connect.
    pub(crate) fn connect(&self, destination: SocketAddr) -> (Policy, Options) {
        let query = Query::remote(Protocol::Tcp, destination);
        said(&self.table.decide(query))
    }

    /// What becomes of datagrams of a program.
    pub(crate) fn datagrams(&self, destination: SocketAddr) -> (Policy, Options) {
        let query = Query::remote(Protocol::Udp, destination);
        said(&self.table.decide(query))
    }

    /// Whether a rule names the destination of these datagrams, so that no default holds for them.
    pub(crate) fn decides_datagrams(&self, destination: SocketAddr) -> bool {
        let decision = self.table.decide(Query::remote(Protocol::Udp, destination));
        matches!(decision.decider, Decider::Rule(_))
    }

    /// What becomes of a peer's wish to reach a service here.
    pub(crate) fn service(&self, query: Query<'_>) -> (Policy, Options) {
        let (policy, options) = said(&self.table.decide(query));
        let own = self.own.decide(query).policy;
        let is_open = own == Policy::Enable && !self.table.excludes(query);
        (if is_open { own } else { policy }, options)
    }

    /// Whether a disable rule names the peer of a service.
    pub(crate) fn excludes(&self, query: Query<'_>) -> bool {
        self.table.excludes(query)
    }

    /// Whether a rule wants to know who the peer of a service is.
    pub(crate) fn names_clients(&self) -> bool {
        self.table.names_clients()
    }

    /// Whether a rule is about peers with keys.
    pub(crate) fn names_keys(&self) -> bool {
        self.table.names_keys()
    }

    /// Those whom rules are about.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        let lists = [Policy::Enable, Policy::Disable].into_iter();
        let rules = lists.flat_map(|policy| self.table.list(Chain::Local, policy));
        rules.map(|(_, rule)| &rule.source)
    }

    /// The SCTP ports at which native programs may reach services. Whether the address that they use
    /// is open is found out when they come.
    pub(crate) fn direct_ports(&self) -> Vec<RangeInclusive<u16>> {
        if self.table.default_policy(Chain::Local) == Policy::Enable {
            return vec![Ports::ALL.first()..=Ports::ALL.last()];
        }
        let own = self.own.list(Chain::Local, Policy::Enable);
        let rules = own.chain(self.table.list(Chain::Local, Policy::Enable)).map(|(_, rule)| rule);
        let direct = rules.filter(|rule| {
            // Native programs have no keys.
            let has_key =
                rule.source.identity.is_some() || rule.options.encrypt == Some(Encrypt::Require);
            rule.protocol == Protocol::Tcp && rule.options.form != Some(Form::Mux) && !has_key
        });
        let ports = direct.map(|rule| rule.ports.unwrap_or(Ports::ALL));
        ports.map(|ports| ports.first()..=ports.last()).collect()
    }

    /// Whether a peer may reach a listener of a program under `manypath run`, and how.
    pub(crate) fn listener(
        &self,
        service: SocketAddr,
        client: Option<&Client>,
    ) -> (Policy, Options) {
        match said(&self.table.decide_listener(service, client)) {
            (Policy::Disable, _) => self.service(Query::local(Protocol::Tcp, service, client)),
            open => open,
        }
    }

    /// Whether peers may reach a listener that is bound to `addr`, at one address at least.
    pub(crate) fn may_offer(&self, addr: SocketAddr) -> bool {
        let (ip, port) = (addr.ip(), addr.port());
        let is_meant = |rule: &Rule| {
            let named = !rule.source.is_anyone() && rule.network.is_none_or(|net| net.contains(ip));
            named || ip.is_unspecified()
        };
        let opens = |rule: &Rule| {
            rule.protocol == Protocol::Tcp && rule.ports.is_none_or(|ports| ports.contains(port))
        };
        let mut enabled = self.table.list(Chain::Local, Policy::Enable);
        self.listener(addr, None).0 == Policy::Enable
            || enabled.any(|(_, rule)| opens(rule) && is_meant(rule))
    }

    /// Whether peers may reach some listener, wherever it is bound.
    pub(crate) fn may_offer_some(&self) -> bool {
        let tcp = |(_, rule): (_, &Rule)| rule.protocol == Protocol::Tcp;
        let tables = [&self.own, &self.table];
        self.table.listener_default() == Policy::Enable
            || tables.iter().any(|table| table.list(Chain::Local, Policy::Enable).any(tcp))
    }

    /// Whether a rule opens exactly this address and port: what a loopback service needs.
    pub(crate) fn names(&self, query: Query<'_>) -> bool {
        self.open_host(query, false)
    }

    /// Whether a rule that opens the service names its address, and not a network that it is in.
    pub(crate) fn names_address(&self, query: Query<'_>) -> bool {
        self.open_host(query, true)
    }

    fn open_host(&self, query: Query<'_>, any_port: bool) -> bool {
        let service = query.address;
        let named = |rule: &Rule| {
            rule.protocol == query.protocol
                && rule.source.admits(query.client)
                && rule.network == Some(Network::host(service.ip()))
                && rule.ports.map_or(any_port, |ports| ports.contains(service.port()))
        };
        let tables = [&self.own, &self.table];
        tables.iter().any(|table| table.list(Chain::Local, Policy::Enable).any(|(_, r)| named(r)))
    }

    /// The most that a rule wants of encryption.
    pub(crate) fn encrypt(&self) -> Encrypt {
        let rules = self.table.list(Chain::Remote, Policy::Enable);
        rules.filter_map(|(_, rule)| rule.options.encrypt).max().unwrap_or_default()
    }

    /// The profile that a rule gives a peer by its key or name: the first one with a profile counts, whatever it opens.
    pub(crate) fn profile_of(&self, client: &Client) -> Option<Profile> {
        let rules = self.table.list(Chain::Local, Policy::Enable).map(|(_, rule)| rule);
        let mut named =
            rules.filter(|rule| rule.source.identity.is_some() && rule.source.admits(Some(client)));
        named.find_map(|rule| rule.options.profile)
    }

    /// Whether a rule gives peers this quota.
    pub(crate) fn gives(&self, quota: Budget) -> bool {
        let mut rules = self.table.list(Chain::Local, Policy::Enable);
        rules.any(|(_, rule)| rule.options.quota == Some(quota))
    }

    /// The relays that rules name.
    pub(crate) fn relays(&self) -> Vec<Via> {
        let rules = self.table.list(Chain::Remote, Policy::Enable);
        rules.filter_map(|(_, rule)| rule.options.via).filter(|via| !via.is_off()).collect()
    }

    /// The local rules in words, for people.
    pub(crate) fn services(&self) -> Vec<String> {
        let own = self.own.list(Chain::Local, Policy::Enable);
        let file = self.table.list(Chain::Local, Policy::Enable);
        let mut words: Vec<String> = own.chain(file).map(|(_, rule)| place_of(rule)).collect();
        let mut seen = HashSet::new();
        words.retain(|word| seen.insert(word.clone()));
        if self.table.default_policy(Chain::Local) == Policy::Enable {
            words.push("everything that no rule disables".to_owned());
        }
        words
    }
}

fn said(decision: &Decision<'_>) -> (Policy, Options) {
    (decision.policy, decision.options.map_or_else(Options::default, |(options, _)| *options))
}

/// `PORT` or `ADDR:PORT` where the rule says no more, as `--allow` has it; else the rule's words.
fn place_of(rule: &Rule) -> String {
    let suffix = if rule.protocol == Protocol::Udp { "/udp" } else { "" };
    let host = rule.network.filter(Network::is_host);
    let is_bare = rule.options.is_empty() && rule.source.is_anyone();
    match (host, rule.network, rule.ports) {
        (None, None, Some(ports)) if is_bare => format!("{ports}{suffix}"),
        (Some(host), _, Some(ports)) if is_bare && ports.first() == ports.last() => {
            format!("{}{suffix}", SocketAddr::new(host.address(), ports.first()))
        }
        _ => rule.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allow::Allow;

    #[test]
    fn a_service_that_is_open_twice_is_shown_once() {
        let mut rules = Rules::load(
            None,
            ["8080", "22"].map(|it| Rule::from(it.parse::<Allow>().expect("a service"))),
        )
        .expect("no file");
        let file = "local enable port 53\nlocal enable port 8080\n";
        rules.adopt(manypath_rules::Document::parse(file).expect("rules").table());
        assert_eq!(rules.services(), ["8080", "22", "53"]);
    }

    #[test]
    fn what_a_rule_demands_holds_for_listeners_that_another_rule_closes() {
        let mut rules = Rules::load(None, []).expect("no file");
        let file = "local disable any\nlocal enable port 22 encrypt=require connections=3\n";
        rules.adopt(manypath_rules::Document::parse(file).expect("rules").table());
        let at = |port| rules.listener(SocketAddr::from(([192, 0, 2, 1], port)), None);
        let (policy, options) = at(22);
        assert_eq!(policy, Policy::Enable);
        assert_eq!((options.encrypt, options.connections), (Some(Encrypt::Require), Some(3)));
        assert_eq!(at(23).0, Policy::Disable);
    }
}
