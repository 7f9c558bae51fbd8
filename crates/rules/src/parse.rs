//! Rules as words: the language of the file and of the command line.
//!
//! ```text
//! local|remote enable|disable [tcp|udp] [any | host A | net A/PREFIX] [port P | ports P-Q] [KEY=VALUE ...]
//! ```

use crate::error::RuleError;
use crate::network::Network;
use crate::options::{Encrypt, Form, Options, StepAside};
use crate::ports::Ports;
use crate::rule::{Chain, Policy, Protocol, Rule};
use crate::source::Source;
use crate::uplinks::PathDown;
use std::str::FromStr;

impl FromStr for Chain {
    type Err = RuleError;

    fn from_str(word: &str) -> Result<Self, RuleError> {
        match word {
            "local" => Ok(Self::Local),
            "remote" => Ok(Self::Remote),
            _ => Err(RuleError::unknown("chain", word, "local or remote")),
        }
    }
}

impl FromStr for Policy {
    type Err = RuleError;

    fn from_str(word: &str) -> Result<Self, RuleError> {
        match word {
            "enable" => Ok(Self::Enable),
            "disable" => Ok(Self::Disable),
            _ => Err(RuleError::unknown("policy", word, "enable or disable")),
        }
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        Self::from_words(&text.split_whitespace().collect::<Vec<_>>())
    }
}

impl Rule {
    /// Reads a rule from its words.
    ///
    /// # Errors
    /// When a word is unknown, missing, said twice, or cannot go with the others.
    pub fn from_words(words: &[&str]) -> Result<Self, RuleError> {
        let mut words = words.iter().copied();
        let chain = need(words.next(), "a chain: local or remote")?.parse()?;
        let policy = need(words.next(), "a policy: enable or disable")?.parse()?;
        let mut rule = Self::open(chain, policy);
        let mut said = Said::default();
        while let Some(word) = words.next() {
            rule.take(word, &mut words, &mut said)?;
        }
        rule.check()?;
        Ok(rule)
    }

    /// A rule that matches every TCP connection of a chain.
    #[must_use]
    pub fn open(chain: Chain, policy: Policy) -> Self {
        let (options, source) = Default::default();
        let (protocol, network, ports) = (Protocol::Tcp, None, None);
        Self { chain, policy, protocol, network, ports, source, options }
    }

    fn take<'a>(
        &mut self,
        word: &str,
        rest: &mut impl Iterator<Item = &'a str>,
        said: &mut Said,
    ) -> Result<(), RuleError> {
        match word {
            "tcp" => said.protocol(word),
            "udp" => {
                self.protocol = Protocol::Udp;
                said.protocol(word)
            }
            "any" => said.address(word),
            "host" => {
                self.network = Some(host(need(rest.next(), "an address after host")?)?);
                said.address(word)
            }
            "net" => {
                self.network = Some(need(rest.next(), "ADDRESS/PREFIX after net")?.parse()?);
                said.address(word)
            }
            "port" | "ports" => {
                self.ports = Some(ports(word, need(rest.next(), "a number after port")?)?);
                said.ports(word)
            }
            _ if self.source.set(word)? => Ok(()),
            _ => self.options.set(word),
        }
    }

    /// Whether the options go with the rest.
    pub(crate) fn check(&self) -> Result<(), RuleError> {
        let options = &self.options;
        if self.policy == Policy::Disable && !options.is_empty() {
            return Err(RuleError::new(format!(
                "a disable rule has no options ({}): nothing is carried",
                options.to_string().trim_start()
            )));
        }
        if self.chain == Chain::Remote && options.proxy.is_some() {
            return Err(RuleError::new(
                "proxy tells a service its client: write it in local rules",
            ));
        }
        if self.chain == Chain::Local && options.sctp_only.is_some() {
            return Err(RuleError::new("sctp-only is for connections made here: remote rules"));
        }
        if self.chain == Chain::Local && options.unproven.is_some() {
            return Err(RuleError::new("unproven is for connections made here: remote rules"));
        }
        check_source(self.chain, &self.source, options)?;
        check_limits(self.chain, &self.source, options)?;
        check_step_aside(self.chain, options)?;
        check_encrypt(self.chain, options)?;
        check_announce(self.chain, options)?;
        check_via(self.chain, options)?;
        check_paths(self.chain, options)?;
        if options.form == Some(Form::Direct) && options.weight.is_some() {
            return Err(RuleError::new(
                "weight is for connections that share an association: form=direct has one for each",
            ));
        }
        if options.form == Some(Form::Direct) && options.redundant.is_some() {
            return Err(RuleError::new(
                "redundant is for connections that share an association: native SCTP programs know nothing of it",
            ));
        }
        match self.protocol {
            Protocol::Tcp if options.lifetime.is_some() => Err(RuleError::new(
                "lifetime is for datagrams: a connection loses nothing (write udp)",
            )),
            Protocol::Tcp => Ok(()),
            Protocol::Udp => check_datagrams(options),
        }
    }
}

/// What plain TCP may be used for is for the side that connects.
fn check_step_aside(chain: Chain, options: &Options) -> Result<(), RuleError> {
    let why = match options.step_aside {
        None => return Ok(()),
        Some(_) if chain == Chain::Local => "step-aside is for connections made here: remote rules",
        Some(_) if options.form == Some(Form::Direct) => {
            "step-aside is for connections that share an association: form=direct has one for each"
        }
        Some(StepAside::Auto) if options.is_sctp_only() => {
            "sctp-only=on and encrypt=require leave nothing to plain TCP: they do not go with step-aside=auto"
        }
        Some(_) => return Ok(()),
    };
    Err(RuleError::new(why))
}

/// Peers ask for services of this host, and native ones have no keys.
fn check_source(chain: Chain, source: &Source, options: &Options) -> Result<(), RuleError> {
    let why = match source {
        _ if chain == Chain::Remote && !source.is_anyone() => {
            "from, key and peer are for peers that ask for services: local rules"
        }
        Source { identity: Some(_), .. } if options.form == Some(Form::Direct) => {
            "native SCTP programs have no keys: form=direct goes with neither key nor peer"
        }
        _ => return Ok(()),
    };
    Err(RuleError::new(why))
}

/// What peers may have of services.
fn check_limits(chain: Chain, source: &Source, options: &Options) -> Result<(), RuleError> {
    let Options { connections, rate, quota, encrypt, profile, .. } = *options;
    let limits = connections.is_some() || rate.is_some() || quota.is_some();
    let has_key = source.identity.is_some() || encrypt == Some(Encrypt::Require);
    let why = match () {
        () if chain == Chain::Remote && limits => {
            "connections, rate and quota limit peers: write them in local rules"
        }
        () if quota.is_some() && !has_key => {
            "a quota counts by the peer's key: add key, peer or encrypt=require"
        }
        () if chain == Chain::Local && profile.is_some() && source.identity.is_none() => {
            "profile of a local rule is for the associations of one peer: add key or peer"
        }
        () => return Ok(()),
    };
    Err(RuleError::new(why))
}

/// Whoever begins an association decides; the other end can only insist.
fn check_encrypt(chain: Chain, options: &Options) -> Result<(), RuleError> {
    let why = match options.encrypt {
        Some(Encrypt::Off | Encrypt::Opportunistic) if chain == Chain::Local => {
            "peers decide whether they encrypt: local rules have encrypt=require alone"
        }
        Some(Encrypt::Opportunistic | Encrypt::Require) if options.form == Some(Form::Direct) => {
            "native SCTP programs do not encrypt: form=direct goes with encrypt=off alone"
        }
        _ => return Ok(()),
    };
    Err(RuleError::new(why))
}

/// An end that accepts has answered before it knows whom.
fn check_announce(chain: Chain, options: &Options) -> Result<(), RuleError> {
    let why = match options.announce {
        Some(_) if chain == Chain::Local => {
            "announce is for connections made here: for peers it is a setting"
        }
        Some(_) if options.form == Some(Form::Direct) => {
            "native SCTP programs have no keys: form=direct does not go with announce"
        }
        _ => return Ok(()),
    };
    Err(RuleError::new(why))
}

/// Whoever connects chooses the way.
fn check_via(chain: Chain, options: &Options) -> Result<(), RuleError> {
    let why = match options.via {
        Some(_) if chain == Chain::Local => "via is for connections made here: remote rules",
        Some(via) if options.form == Some(Form::Direct) && !via.is_off() => {
            "a relay carries connections in its own form: via does not go with form=direct"
        }
        _ => return Ok(()),
    };
    Err(RuleError::new(why))
}

/// Whoever connects chooses the uplinks.
fn check_paths(chain: Chain, options: &Options) -> Result<(), RuleError> {
    let Options { path, path_down, never_metered, form, step_aside, .. } = *options;
    if (path, path_down, never_metered) == (None, None, None) {
        return Ok(());
    }
    let limits = options.path_limits();
    let why = match () {
        () if chain == Chain::Local => {
            "path, path-down and never-metered are for connections made here: remote rules"
        }
        () if form == Some(Form::Direct) && !limits.is_none() => {
            "native SCTP programs send over every path: form=direct goes with neither path nor never-metered"
        }
        () if step_aside == Some(StepAside::Auto) && !limits.is_none() => {
            "plain TCP goes where the kernel sends it: step-aside=auto goes with neither path nor never-metered"
        }
        () if path.is_none() && path_down.is_some() => {
            "path-down says what happens without the uplinks of path: write path=NAME, too"
        }
        () if limits.never_metered && path_down == Some(PathDown::Any) => {
            "path-down=any would use metered uplinks: it does not go with never-metered=on"
        }
        () => return Ok(()),
    };
    Err(RuleError::new(why))
}

/// Most options are about connections.
fn check_datagrams(options: &Options) -> Result<(), RuleError> {
    let Options { profile, lifetime, redundant, unproven, encrypt, via, .. } = *options;
    let Options { path, path_down, never_metered, announce, .. } = *options;
    let known = Options { profile, lifetime, redundant, unproven, encrypt, ..Options::default() };
    let known = Options { via, path, path_down, never_metered, announce, ..known };
    if *options == known {
        return Ok(());
    }
    Err(RuleError::new(format!(
        "udp knows only lifetime=TIME, redundant=on|off, profile=NAME, unproven=on|off, encrypt=WHEN, announce=WHOM, via=RELAYS, path=NAME, path-down=WHEN and never-metered=on|off, not all of{options}"
    )))
}

/// Which parts of a rule were given already.
#[derive(Default)]
struct Said {
    protocol: bool,
    address: bool,
    ports: bool,
}

impl Said {
    fn protocol(&mut self, word: &str) -> Result<(), RuleError> {
        once(&mut self.protocol, word, "a protocol")
    }

    fn address(&mut self, word: &str) -> Result<(), RuleError> {
        once(&mut self.address, word, "an address")
    }

    fn ports(&mut self, word: &str) -> Result<(), RuleError> {
        once(&mut self.ports, word, "a port")
    }
}

fn once(said: &mut bool, word: &str, what: &str) -> Result<(), RuleError> {
    match std::mem::replace(said, true) {
        false => Ok(()),
        true => Err(RuleError::new(format!("\"{word}\": the rule has {what} already"))),
    }
}

fn need<'a>(word: Option<&'a str>, what: &str) -> Result<&'a str, RuleError> {
    word.ok_or_else(|| RuleError::new(format!("the rule ends too early: it needs {what}")))
}

fn host(word: &str) -> Result<Network, RuleError> {
    match word.parse::<Network>()? {
        network if network.is_host() => Ok(network),
        network => Err(RuleError::new(format!("{network} is a network: write net {network}"))),
    }
}

fn ports(keyword: &str, word: &str) -> Result<Ports, RuleError> {
    match word.parse::<Ports>()? {
        ports if keyword == "port" && ports.first() != ports.last() => {
            Err(RuleError::new(format!("{ports} is a range: write ports {ports}")))
        }
        ports => Ok(ports),
    }
}
