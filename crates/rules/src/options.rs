//! How a connection that a rule enables is carried.

use crate::error::RuleError;
use crate::paths::{Budget, rate_text, read_rate};
use crate::uplinks::{PathDown, PathLimits, Uplinks};
use crate::via::Via;
use serde::Serialize;
use std::fmt;

/// What may follow chain and policy of a rule.
const WORDS: &str = "tcp, udp, any, host ADDRESS, net ADDRESS/PREFIX, port N, ports N-M, \
     from=ADDRESS/PREFIX, key=SHA256:..., peer=NAME, then KEY=VALUE";

/// What a rule may say beyond yes and no. What is absent is left as the stack has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Options {
    /// Whether one direction may be closed before the other; otherwise the end of one direction
    /// ends the connection, as it does between native SCTP programs.
    pub half_close: Option<bool>,
    /// Whether a service is told the client's address by a PROXY protocol header.
    pub proxy: Option<bool>,
    /// No fallback to TCP: what SCTP cannot reach fails.
    pub sctp_only: Option<bool>,
    /// How an association carries it.
    pub form: Option<Form>,
    /// What matters to the connection.
    pub class: Option<Class>,
    /// Its share beside others of the same association.
    pub weight: Option<u16>,
    /// The parameters of the association that carries it.
    pub profile: Option<Profile>,
    /// How long a datagram is worth something, in milliseconds.
    #[serde(rename = "lifetime_ms")]
    pub lifetime: Option<u32>,
    /// Whether it is sent over every path that may carry data.
    pub redundant: Option<bool>,
    /// Whether it is plain TCP where SCTP cannot help.
    pub step_aside: Option<StepAside>,
    /// Whether ports below 1024 are reached through a peer that has not proved that it may answer for them.
    pub unproven: Option<bool>,
    /// Whether packets between the hosts are encrypted.
    pub encrypt: Option<Encrypt>,
    /// Whether the peer is told the addresses of this host before its key is known.
    pub announce: Option<Announce>,
    /// By which relays it goes.
    pub via: Option<Via>,
    /// Which uplinks it uses.
    pub path: Option<Uplinks>,
    /// What it does while none of these works.
    pub path_down: Option<PathDown>,
    /// Whether it uses no uplink that is metered.
    pub never_metered: Option<bool>,
    /// How many connections a peer may have at a time.
    pub connections: Option<u32>,
    /// Bytes per second that a peer's connections may move together, in both directions.
    #[serde(rename = "rate_bytes_per_s")]
    pub rate: Option<u64>,
    /// Bytes that a peer's connections may move in a day or a month, in both directions.
    pub quota: Option<Budget>,
}

/// Whether associations are encrypted and their ends authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Encrypt {
    /// They are not.
    #[default]
    Off,
    /// With peers that can do it.
    Opportunistic,
    /// With all peers: there is neither plain SCTP nor a fallback to TCP.
    Require,
}

/// Which peers are told the addresses of this host beside the one that the handshake uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Announce {
    /// All of them, in clear.
    All,
    /// Those whose keys were known before, encrypted.
    Authenticated,
}

/// Whether connections are left to plain TCP where SCTP cannot help: one short path leads to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepAside {
    /// They are.
    #[default]
    Auto,
    /// They are carried over SCTP there, too.
    Never,
}

/// How associations carry connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Many in one, with manypath at both ends.
    Mux,
    /// One in each, as bytes in stream 0: what native SCTP programs understand.
    Direct,
}

/// What matters to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Much in little time.
    Bulk,
    /// Little delay: it goes before those that are bulk.
    Interactive,
}

/// A set of parameters by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The usual ones.
    Production,
    /// The same with each connection assigned to its best path.
    Dynamic,
}

/// What [`Options::set`] reads.
const ALLOWED: &str = "half-close=on|off, proxy=on|off, sctp-only=on|off, \
    form=mux|direct, class=bulk|interactive, weight=N, profile=production|dynamic, lifetime=TIME, \
    redundant=on|off, step-aside=auto|never, unproven=on|off, encrypt=off|opportunistic|require, \
    announce=all|authenticated, \
    via=HOST[:PORT],...|off, path=NAME[,NAME], path-down=wait|any, never-metered=on|off, \
    connections=N, rate=RATE, quota=SIZE/PERIOD";
const MAX_WEIGHT: u16 = 1000;
/// As many as an association can carry.
const MAX_CONNECTIONS: u32 = 16_384;
const MAX_LIFETIME_MS: u32 = 60_000;

impl Form {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mux => "mux",
            Self::Direct => "direct",
        }
    }
}

impl Class {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Interactive => "interactive",
        }
    }
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Production, Self::Dynamic];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Dynamic => "dynamic",
        }
    }
}

impl StepAside {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Auto, Self::Never];
    /// Their words, in the same order.
    pub const NAMES: &[&str] = &["auto", "never"];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl Announce {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::All, Self::Authenticated];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Authenticated => "authenticated",
        }
    }
}

impl Encrypt {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Off, Self::Opportunistic, Self::Require];
    /// Their words, in the same order.
    pub const NAMES: &[&str] = &["off", "opportunistic", "require"];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl Options {
    /// Whether what SCTP cannot reach fails.
    #[must_use]
    pub fn is_sctp_only(&self) -> bool {
        self.sctp_only == Some(true) || self.encrypt == Some(Encrypt::Require)
    }

    /// Which uplinks a connection may use.
    #[must_use]
    pub fn path_limits(&self) -> PathLimits {
        let never_metered = self.never_metered == Some(true);
        PathLimits {
            uplinks: self.path,
            never_metered,
            when_down: self.path_down.unwrap_or_default(),
        }
    }

    /// Whether plain TCP may only be used by leave of a stack, which knows the uplink that it would take.
    #[must_use]
    pub fn may_need_sctp(&self) -> bool {
        self.is_sctp_only() || self.path_limits().is_strict()
    }

    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads one `KEY=VALUE`.
    pub(crate) fn set(&mut self, word: &str) -> Result<(), RuleError> {
        let Some((key, value)) = word.split_once('=') else {
            return Err(RuleError::unknown("word", word, WORDS));
        };
        let was_said = match key {
            "half-close" => self.half_close.replace(switch(key, value)?).is_some(),
            "proxy" => self.proxy.replace(switch(key, value)?).is_some(),
            "sctp-only" => self.sctp_only.replace(switch(key, value)?).is_some(),
            "form" => self.form.replace(form(value)?).is_some(),
            "class" => self.class.replace(class(value)?).is_some(),
            "weight" => self.weight.replace(weight(value)?).is_some(),
            "profile" => self.profile.replace(profile(value)?).is_some(),
            "lifetime" => self.lifetime.replace(lifetime(value)?).is_some(),
            "redundant" => self.redundant.replace(switch(key, value)?).is_some(),
            "step-aside" => self.step_aside.replace(step_aside(value)?).is_some(),
            "unproven" => self.unproven.replace(switch(key, value)?).is_some(),
            "encrypt" => self.encrypt.replace(encrypt(value)?).is_some(),
            "announce" => self.announce.replace(announce(value)?).is_some(),
            "via" => self.via.replace(value.parse()?).is_some(),
            "path" => self.path.replace(value.parse()?).is_some(),
            "path-down" => self.path_down.replace(path_down(value)?).is_some(),
            "never-metered" => self.never_metered.replace(switch(key, value)?).is_some(),
            "connections" => self.connections.replace(connections(value)?).is_some(),
            "rate" => self.rate.replace(rate(value)?).is_some(),
            "quota" => self.quota.replace(quota(value)?).is_some(),
            _ => return Err(RuleError::unknown("option", key, ALLOWED)),
        };
        match was_said {
            false => Ok(()),
            true => Err(RuleError::new(format!("{word}: the option is given twice"))),
        }
    }

    /// Each option that is said, with its value.
    fn words(&self) -> impl Iterator<Item = (&'static str, String)> {
        let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
        let all = [
            ("half-close", self.half_close.map(switch)),
            ("proxy", self.proxy.map(switch)),
            ("sctp-only", self.sctp_only.map(switch)),
            ("form", self.form.map(|form| form.name().to_owned())),
            ("class", self.class.map(|class| class.name().to_owned())),
            ("weight", self.weight.map(|weight| weight.to_string())),
            ("profile", self.profile.map(|profile| profile.name().to_owned())),
            ("lifetime", self.lifetime.map(|ms| format!("{ms}ms"))),
            ("redundant", self.redundant.map(switch)),
            ("step-aside", self.step_aside.map(|aside| aside.name().to_owned())),
            ("unproven", self.unproven.map(switch)),
            ("encrypt", self.encrypt.map(|encrypt| encrypt.name().to_owned())),
            ("announce", self.announce.map(|announce| announce.name().to_owned())),
            ("via", self.via.map(|via| via.to_string())),
            ("path", self.path.map(|path| path.to_string())),
            ("path-down", self.path_down.map(|down| down.name().to_owned())),
            ("never-metered", self.never_metered.map(switch)),
            ("connections", self.connections.map(|most| most.to_string())),
            ("rate", self.rate.map(rate_text)),
            ("quota", self.quota.map(|quota| quota.to_string())),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }
}

fn switch(key: &str, value: &str) -> Result<bool, RuleError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(RuleError::unknown(&format!("value of {key}"), value, "on or off")),
    }
}

fn form(value: &str) -> Result<Form, RuleError> {
    let known = [Form::Mux, Form::Direct].into_iter().find(|form| form.name() == value);
    known.ok_or_else(|| RuleError::unknown("form", value, "mux or direct"))
}

fn class(value: &str) -> Result<Class, RuleError> {
    let known = [Class::Bulk, Class::Interactive].into_iter().find(|class| class.name() == value);
    known.ok_or_else(|| RuleError::unknown("class", value, "bulk or interactive"))
}

fn weight(value: &str) -> Result<u16, RuleError> {
    let number = value.parse().ok().filter(|weight| (1..=MAX_WEIGHT).contains(weight));
    let allowed = format!("a number from 1 to {MAX_WEIGHT}");
    number.ok_or_else(|| RuleError::unknown("weight", value, &allowed))
}

fn profile(value: &str) -> Result<Profile, RuleError> {
    let known = Profile::ALL.into_iter().find(|profile| profile.name() == value);
    known.ok_or_else(|| RuleError::unknown("profile", value, "production or dynamic"))
}

fn step_aside(value: &str) -> Result<StepAside, RuleError> {
    let known = StepAside::ALL.into_iter().find(|aside| aside.name() == value);
    known.ok_or_else(|| RuleError::unknown("value of step-aside", value, "auto or never"))
}

fn encrypt(value: &str) -> Result<Encrypt, RuleError> {
    let known = Encrypt::ALL.into_iter().find(|encrypt| encrypt.name() == value);
    let allowed = "off, opportunistic or require";
    known.ok_or_else(|| RuleError::unknown("value of encrypt", value, allowed))
}

fn announce(value: &str) -> Result<Announce, RuleError> {
    let known = Announce::ALL.into_iter().find(|announce| announce.name() == value);
    let allowed = "all or authenticated";
    known.ok_or_else(|| RuleError::unknown("value of announce", value, allowed))
}

fn path_down(value: &str) -> Result<PathDown, RuleError> {
    let known = PathDown::ALL.into_iter().find(|down| down.name() == value);
    known.ok_or_else(|| RuleError::unknown("value of path-down", value, "wait or any"))
}

fn connections(value: &str) -> Result<u32, RuleError> {
    let most = value.parse().ok().filter(|most| (1..=MAX_CONNECTIONS).contains(most));
    let allowed = format!("a number from 1 to {MAX_CONNECTIONS}");
    most.ok_or_else(|| RuleError::unknown("value of connections", value, &allowed))
}

fn rate(value: &str) -> Result<u64, RuleError> {
    let allowed = "a rate such as 500kbit, 5mbit or 1gbit";
    read_rate(value).ok_or_else(|| RuleError::unknown("rate", value, allowed))
}

fn quota(value: &str) -> Result<Budget, RuleError> {
    let allowed = "a size and a period such as 500MB/day or 10GB/month";
    Budget::parse(value).ok_or_else(|| RuleError::unknown("quota", value, allowed))
}

/// Milliseconds; a number with its unit, so that nobody has to guess it.
fn lifetime(value: &str) -> Result<u32, RuleError> {
    let (number, unit) = match value.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (value.strip_suffix('s').unwrap_or_default(), 1000),
    };
    let time = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    let time = time.filter(|time| (1..=MAX_LIFETIME_MS).contains(time));
    time.ok_or_else(|| {
        RuleError::unknown("lifetime", value, "a time from 1ms to 60s, as 200ms or 2s")
    })
}

impl fmt::Display for Options {
    /// Each option after a blank, as the words of a rule have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}
