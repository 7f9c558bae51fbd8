//! The knobs: names, bounds, meaning, and where each one acts.

use crate::config::StackConfig;
use crate::log::{Level, Subsystem};
use manypath_engine::{Announce, Redundancy, SharedBottleneck};
use manypath_net::Carriers;
use manypath_rules::{Encrypt, StepAside, Via};
use std::time::Duration;

/// What a setting may be. Its value is a number in any case.
enum Values {
    /// Smallest and largest number.
    Numbers(u64, u64),
    /// Names of the numbers from 0 on.
    Words(&'static [&'static str]),
    /// Texts whose numbers are those of [`Via`].
    Relays,
    /// Texts whose numbers are those of [`Carriers`].
    Carriers,
}

/// One setting.
pub struct Knob {
    /// Its name.
    pub name: &'static str,
    /// What it means, with its unit.
    pub help: &'static str,
    values: Values,
    get: fn(&StackConfig) -> u64,
    set: fn(&mut StackConfig, u64),
}

/// All knobs, in the order in which they are shown.
pub const KNOBS: &[Knob] = &[
    Knob {
        name: "force_bindall",
        help: "1: connections use every path, also those of programs that bind an address; 0: \
               connections of such programs are plain TCP from that address",
        values: Values::Numbers(0, 1),
        get: |config| u64::from(config.carrying.force_bindall),
        set: |config, value| config.carrying.force_bindall = value != 0,
    },
    Knob {
        name: "step_aside",
        help: "auto: connections to peers reached over a single short path are plain TCP, \
               which is faster there; never: they are carried over SCTP",
        values: Values::Words(StepAside::NAMES),
        get: |config| config.carrying.step_aside as u64,
        set: |config, value| {
            config.carrying.step_aside = at(&StepAside::ALL, value).unwrap_or_default()
        },
    },
    Knob {
        name: "privileged_port",
        help: "UDP port below 1024 that proves who may answer for ports below 1024: a server \
               also listens on it, from its start on; a client uses it for services on such \
               ports; 0: none",
        values: Values::Numbers(0, 1023),
        get: |config| u64::from(config.privileged_port),
        set: |config, value| config.privileged_port = value as u16,
    },
    Knob {
        name: "carriers",
        help: "udp:PORT,tcp:PORT,tls:PORT,proxy:PORT: where UDP at the usual port gets no answer, a \
               client tries these, on each path; a server listens there, too; for stacks that \
               start from then on; off: none",
        values: Values::Carriers,
        get: |config| config.carrying.carriers.number(),
        set: |config, value| config.carrying.carriers = Carriers::of_number(value),
    },
    Knob {
        name: "unproven",
        help: "off: reach services on ports below 1024 over SCTP only if the peer answers on \
               privileged_port; on: also if any user of its host may have answered",
        values: Values::Words(&["off", "on"]),
        get: |config| u64::from(config.carrying.unproven),
        set: |config, value| config.carrying.unproven = value != 0,
    },
    Knob {
        name: "encrypt",
        help: "encrypt associations and authenticate peers by their keys: off; opportunistic: \
               with peers that can do it; require: with all peers, and refuse connections that \
               would be plain SCTP or TCP. For new associations",
        values: Values::Words(Encrypt::NAMES),
        get: |config| config.encrypt as u64,
        set: |config, value| config.encrypt = at(&Encrypt::ALL, value).unwrap_or(Encrypt::Require),
    },
    Knob {
        name: "announce",
        help: "which peers are told the addresses of this host beside the one that the handshake \
               uses: all: every peer, in clear; authenticated: those whose key was known before, \
               encrypted; others have one path. For new associations",
        values: Values::Words(Announce::NAMES),
        get: |config| config.carrying.announce as u64,
        set: |config, value| {
            let all = value == Announce::All as u64;
            config.carrying.announce = if all { Announce::All } else { Announce::Authenticated };
        },
    },
    Knob {
        name: "via",
        help: "relays by which connections to any destination go, the first that answers, as \
               HOST[:PORT],...; off: none",
        values: Values::Relays,
        get: |config| config.via.map_or(0, Via::number),
        set: |config, value| config.via = Some(Via::of_number(value)).filter(|via| !via.is_off()),
    },
    Knob {
        name: "receive_memory_mib",
        help: "memory for data that programs have not read yet, shared by the windows of all \
               connections, in MiB",
        values: Values::Numbers(8, 1_048_576),
        get: |config| config.limits.receive_memory >> 20,
        set: |config, value| config.limits.receive_memory = value << 20,
    },
    Knob {
        name: "redundancy",
        help: "duplicate data on all paths, so that no loss on one path delays it: off; \
               interactive: connections of that class (`manypath rules`); sparse: also \
               connections with no more than a packet waiting; all: everything",
        values: Values::Words(Redundancy::NAMES),
        get: |config| config.carrying.redundancy as u64,
        set: |config, value| {
            config.carrying.redundancy = at(Redundancy::ALL, value).unwrap_or_default()
        },
    },
    Knob {
        name: "shared_bottleneck",
        help: "detect: paths found to share a bottleneck take the share of one connection \
               there; ignore: each path takes one. For new associations",
        values: Values::Words(SharedBottleneck::NAMES),
        get: |config| config.carrying.shared_bottleneck as u64,
        set: |config, value| {
            let detects = value == SharedBottleneck::Detect as u64;
            config.carrying.shared_bottleneck =
                if detects { SharedBottleneck::Detect } else { SharedBottleneck::Ignore };
        },
    },
    Knob {
        name: "init_rtx_max",
        help: "number of INIT retransmissions, with doubled intervals, before the fallback to \
               TCP",
        values: Values::Numbers(0, 5),
        get: |config| u64::from(config.limits.init_rtx_max),
        set: |config, value| config.limits.init_rtx_max = value as u32,
    },
    Knob {
        name: "path_rtx_max",
        help: "losses in a row after which a path is inactive (Path.Max.Retrans, RFC 9260 8.2)",
        values: Values::Numbers(0, 20),
        get: |config| u64::from(config.limits.path_rtx_max),
        set: |config, value| config.limits.path_rtx_max = value as u32,
    },
    Knob {
        name: "rto_min_ms",
        help: "minimum retransmission timeout, in milliseconds (RTO.Min)",
        values: Values::Numbers(10, 60_000),
        get: |config| millis(config.limits.rto_min),
        set: |config, value| config.limits.rto_min = Duration::from_millis(value),
    },
    Knob {
        name: "rto_max_ms",
        help: "maximum retransmission timeout, in milliseconds (RTO.Max)",
        values: Values::Numbers(100, 240_000),
        get: |config| millis(config.limits.rto_max),
        set: |config, value| config.limits.rto_max = Duration::from_millis(value),
    },
    Knob {
        name: "fallback_timeout_ms",
        help: "how long a silent peer may delay the fallback to TCP, in milliseconds",
        values: Values::Numbers(10, 60_000),
        get: |config| millis(config.limits.fallback_timeout),
        set: |config, value| config.limits.fallback_timeout = Duration::from_millis(value),
    },
    Knob {
        name: "unreachable_patience_s",
        help: "how long connections outlast port unreachable messages from a peer that sends \
               nothing else, in seconds",
        values: Values::Numbers(1, 3600),
        get: |config| config.limits.unreachable_patience.as_secs(),
        set: |config, value| config.limits.unreachable_patience = Duration::from_secs(value),
    },
    Knob {
        name: "tcp_head_start_ms",
        help: "how long a non-blocking connect waits for SCTP before it also tries TCP, in \
               milliseconds",
        values: Values::Numbers(0, 60_000),
        get: |config| millis(config.limits.tcp_head_start),
        set: |config, value| config.limits.tcp_head_start = Duration::from_millis(value),
    },
    Knob {
        name: "tcp_race",
        help: "on: connect to a host of which nothing is known by TCP, too, at once, and use that \
               unless the host answers over SCTP within another sixth of TCP's round trip, or \
               8 milliseconds; off: wait for SCTP first",
        values: Values::Words(&["off", "on"]),
        get: |config| u64::from(config.carrying.tcp_race),
        set: |config, value| config.carrying.tcp_race = value != 0,
    },
    Knob {
        name: "negative_cache_s",
        help: "how long to remember that a peer has no manypath, in seconds",
        values: Values::Numbers(0, 86_400),
        get: |config| config.limits.negative_cache.as_secs(),
        set: |config, value| config.limits.negative_cache = Duration::from_secs(value),
    },
    Knob {
        name: "peer_cache",
        help: "1: remember what peers and their services support, also across restarts; 0: \
               find out again for every connection",
        values: Values::Numbers(0, 1),
        get: |config| u64::from(config.carrying.peer_cache),
        set: |config, value| config.carrying.peer_cache = value != 0,
    },
    Knob {
        name: "positive_cache_s",
        help: "how long to remember that a service was reached over SCTP, so that TCP is not \
               tried as well, in seconds",
        values: Values::Numbers(0, 31_536_000),
        get: |config| config.limits.positive_cache.as_secs(),
        set: |config, value| config.limits.positive_cache = Duration::from_secs(value),
    },
    Knob {
        name: "peer_idle_s",
        help: "how long to keep an association that a peer has set up without connections, in \
               seconds",
        values: Values::Numbers(1, 31_536_000),
        get: |config| config.limits.peer_idle_timeout.as_secs(),
        set: |config, value| config.limits.peer_idle_timeout = Duration::from_secs(value),
    },
    Knob {
        name: "datagram_lifetime_ms",
        help: "lifetime of datagrams, unless a rule sets it, in milliseconds",
        values: Values::Numbers(1, 60_000),
        get: |config| millis(config.limits.datagram_lifetime),
        set: |config, value| config.limits.datagram_lifetime = Duration::from_millis(value),
    },
    Knob {
        name: "datagram_idle_s",
        help: "how long to keep an idle flow of datagrams, in seconds",
        values: Values::Numbers(1, 86_400),
        get: |config| config.limits.datagram_idle.as_secs(),
        set: |config, value| config.limits.datagram_idle = Duration::from_secs(value),
    },
    Knob {
        name: "log_level",
        help: "log level of all subsystems without a level of their own",
        values: Values::Words(&LEVELS),
        get: |config| config.log.all as u64,
        set: |config, value| config.log.all = level(value),
    },
    level_of::<{ Subsystem::Stack as usize }>(
        "log_stack",
        "log level of start, end and interfaces",
    ),
    level_of::<{ Subsystem::Control as usize }>(
        "log_control",
        "log level of launchers, tools, rules and settings",
    ),
    level_of::<{ Subsystem::Association as usize }>(
        "log_association",
        "log level of associations with peers",
    ),
    level_of::<{ Subsystem::Path as usize }>("log_path", "log level of paths"),
    level_of::<{ Subsystem::Connection as usize }>(
        "log_connection",
        "log level of connections: at info, one line when each ends",
    ),
    level_of::<{ Subsystem::Peers as usize }>("log_peers", "log level of the cache of peers"),
];

const LEVELS: [&str; 5] = ["silent", "error", "warn", "info", "verbose"];

/// The level of a subsystem's own, by its number.
const fn level_of<const SUBSYSTEM: usize>(name: &'static str, help: &'static str) -> Knob {
    Knob {
        name,
        help,
        values: Values::Words(&["inherit", "silent", "error", "warn", "info", "verbose"]),
        get: |config| config.log.own(Subsystem::ALL[SUBSYSTEM]).map_or(0, |own| own as u64 + 1),
        set: |config, value| {
            let own = value.checked_sub(1).map(level);
            config.log.set_own(Subsystem::ALL[SUBSYSTEM], own);
        },
    }
}

impl Knob {
    /// The knob of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        KNOBS.iter().find(|knob| knob.name == name)
    }

    /// Its value in a configuration.
    #[must_use]
    pub fn get(&self, config: &StackConfig) -> u64 {
        (self.get)(config)
    }

    /// Sets it in a configuration.
    pub fn set(&self, config: &mut StackConfig, value: u64) {
        (self.set)(config, value);
    }

    /// Reads a value.
    ///
    /// # Errors
    /// What is allowed instead.
    pub fn parse(&self, text: &str) -> Result<u64, String> {
        let name = self.name;
        match self.values {
            Values::Numbers(least, most) => {
                let number = text.parse().ok().filter(|number| (least..=most).contains(number));
                number.ok_or_else(|| format!("{name} = {text}: a number from {least} to {most}"))
            }
            Values::Words(words) => {
                let at = words.iter().position(|word| *word == text).map(|at| at as u64);
                at.ok_or_else(|| format!("{name} = {text}: one of {}", words.join(", ")))
            }
            Values::Relays => text.parse().map(Via::number).map_err(|why| format!("{name}: {why}")),
            Values::Carriers => {
                text.parse().map(Carriers::number).map_err(|why| format!("{name}: {why}"))
            }
        }
    }

    /// A value as [`Knob::parse`] reads it.
    #[must_use]
    pub fn show(&self, value: u64) -> String {
        match self.values {
            Values::Numbers(..) => value.to_string(),
            Values::Words(words) => words.get(value as usize).copied().unwrap_or("?").to_owned(),
            Values::Relays => Via::of_number(value).to_string(),
            Values::Carriers => Carriers::of_number(value).to_string(),
        }
    }
}

impl std::fmt::Debug for Knob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Knob").field("name", &self.name).finish_non_exhaustive()
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

fn level(value: u64) -> Level {
    at(&Level::ALL, value).unwrap_or(Level::Verbose)
}

/// The choice with this number.
fn at<T: Copy>(all: &[T], number: u64) -> Option<T> {
    all.get(usize::try_from(number).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knob_shows_what_it_reads_and_keeps_what_it_is_given() {
        let mut config = StackConfig::default();
        for knob in KNOBS {
            let (least, most) = match knob.values {
                Values::Numbers(least, most) => (least, most),
                Values::Words(words) => (0, words.len() as u64 - 1),
                Values::Relays | Values::Carriers => continue,
            };
            for value in [least, most] {
                assert_eq!(knob.parse(&knob.show(value)), Ok(value), "{}", knob.name);
                knob.set(&mut config, value);
                assert_eq!(knob.get(&config), value, "{}", knob.name);
            }
            assert!(knob.parse(&(most + 1).to_string()).is_err(), "{}", knob.name);
            assert!(knob.parse("perhaps").is_err(), "{}", knob.name);
        }
    }

    #[test]
    fn relays_are_a_setting_whose_values_are_texts() {
        let (knob, mut config) = (Knob::by_name("via").unwrap(), StackConfig::default());
        for text in ["relay.example,192.0.2.1:443", "off"] {
            knob.set(&mut config, knob.parse(text).unwrap());
            assert_eq!(knob.show(knob.get(&config)), text);
        }
        assert!(config.via.is_none() && knob.parse("a b").is_err());
    }

    #[test]
    fn carriers_are_a_setting_whose_values_are_texts() {
        let (knob, mut config) = (Knob::by_name("carriers").unwrap(), StackConfig::default());
        for text in ["udp:443,tcp:443", "off"] {
            knob.set(&mut config, knob.parse(text).unwrap());
            assert_eq!(knob.show(knob.get(&config)), text);
        }
        assert!(config.carrying.carriers.is_empty() && knob.parse("443").is_err());
    }

    #[test]
    fn defaults_lie_within_their_bounds() {
        let config = StackConfig::default();
        for knob in KNOBS {
            assert_eq!(knob.parse(&knob.show(knob.get(&config))), Ok(knob.get(&config)));
        }
    }
}
