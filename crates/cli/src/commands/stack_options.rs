//! The options of every command that has a stack.

use crate::failure::Failure;
use crate::mode::Mode;
use crate::step_aside::StepAsideArg;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use manypath_daemon::{Encapsulation, LocalName};
use manypath_engine::Profile;
use manypath_rules::{Encrypt, Via};
use std::path::PathBuf;

/// Options of the stack that owns the associations.
#[derive(Args, Debug, Clone)]
pub(crate) struct StackOptions {
    /// Use only these local addresses or interfaces, separated by commas (default: the addresses of
    /// all interfaces that are up; those of tunnels and of bridges without a gateway only for
    /// destinations routed through them).
    #[arg(long = "local", value_name = "ADDR|INTERFACE", value_delimiter = ',')]
    pub(crate) locals: Vec<LocalName>,
    /// Parameters of the engine; `dynamic` assigns each connection to its best path.
    #[arg(long, value_name = "NAME", default_value = Profile::Production.name(),
          value_parser = PossibleValuesParser::new(Profile::LIVE.map(Profile::name)))]
    pub(crate) profile: String,
    /// Send each packet over one path, or duplicate data on all paths (the setting redundancy has
    /// more modes, see `manypath config`).
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Use plain TCP to peers that are reached over a single short path, where SCTP has nothing to
    /// gain (default: the setting step_aside, auto).
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) step_aside: Option<StepAsideArg>,
    /// Encrypt associations and authenticate peers by their keys: with those that can do it, or with
    /// all; then connections that would be plain SCTP or TCP are refused (default: the setting
    /// encrypt, opportunistic).
    #[arg(long, value_name = "WHEN", value_parser = PossibleValuesParser::new(Encrypt::NAMES))]
    pub(crate) encrypt: Option<String>,
    /// Send connections to any destination through a relay (`manypath serve --relay`), and on from there by TCP.
    /// The first relay that answers is used; without one, connections are plain TCP, or refused where a rule or
    /// encrypt=require says so (default: the setting via, off).
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',')]
    pub(crate) via: Vec<String>,
    /// Carriers for paths on which UDP at the usual port gets no answer, such as `udp:443,tls:443,proxy:443`: UDP, TCP or
    /// TLS at another port, or TCP or TLS to that port through the HTTP proxy that HTTPS_PROXY names. Each path uses what
    /// gets through. A server also listens at these ports (default: the setting carriers, off).
    #[arg(long, value_name = "udp|tcp|tls|proxy:PORT", value_delimiter = ',')]
    pub(crate) carriers: Vec<String>,
    /// Host name to ask for in TLS (SNI) with the carrier `tls:PORT`, visible to anybody on the way; on a server, the name
    /// in the certificate that manypath makes (default: none, and localhost).
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_name: Option<String>,
    /// Key that peers know this host by: `own` (~/.config/manypath/identity, made on first use), `ssh` (the
    /// host key of SSH, as root), `secret` (a secret that both ends have), or the path of a private
    /// key of OpenSSH.
    #[arg(long, value_name = "own|ssh|secret|FILE", default_value = "own")]
    pub(crate) identity: String,
    /// Carry SCTP in UDP (RFC 6951) or directly over IP (protocol 132). Directly over IP needs root
    /// or CAP_NET_RAW at both ends, and no NAT between them.
    #[arg(long, value_enum, value_name = "HOW", default_value = "udp")]
    pub(crate) encapsulation: EncapsulationArg,
    /// UDP port of the peer's manypath (RFC 6951). Services on ports below 1024 are requested on
    /// another one (the setting privileged_port, 899), unless this port is itself below 1024.
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(crate) peer_port: u16,
    /// How long a silent peer may delay the fallback to TCP, in milliseconds (default: the setting
    /// fallback_timeout_ms, 300).
    #[arg(long, value_name = "MS")]
    pub(crate) fallback_timeout: Option<u64>,
    /// How long to hold back TCP so that SCTP can answer first, in milliseconds (default: the
    /// setting tcp_head_start_ms, 150).
    #[arg(long, value_name = "MS")]
    pub(crate) tcp_head_start: Option<u64>,
    /// How long to remember that a peer has no manypath, in seconds (default: the setting
    /// negative_cache_s, 60).
    #[arg(long, value_name = "S")]
    pub(crate) negative_cache: Option<u64>,
    /// Use this rules file (see `manypath rules`).
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// Increase verbosity: log every step of a connection, and the reason of every fallback.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Log destination: `stderr`, `journal`, or a file to append to. `manypath config set log_level=LEVEL`
    /// sets the level of each subsystem.
    #[arg(long, value_name = "stderr|journal|FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Treat loopback addresses as paths: for tests and the demo without privileges only.
    #[arg(long, hide = true)]
    pub(crate) loopback_paths: bool,
}

/// What carries SCTP.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EncapsulationArg {
    /// In UDP.
    Udp,
    /// Directly over IP.
    Native,
}

impl EncapsulationArg {
    /// As it is written.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Native => "native",
        }
    }
}

impl From<EncapsulationArg> for Encapsulation {
    fn from(arg: EncapsulationArg) -> Self {
        match arg {
            EncapsulationArg::Udp => Self::Udp,
            EncapsulationArg::Native => Self::Native,
        }
    }
}

impl StackOptions {
    /// The relays by which connections go, if the user has said that.
    pub(crate) fn via(&self) -> Result<Option<Via>, Failure> {
        parse_via(&self.via)
    }

    /// The settings that the user has given here: the option, its setting, the value.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let all = [
            ("fallback-timeout", "fallback_timeout_ms", self.fallback_timeout),
            ("tcp-head-start", "tcp_head_start_ms", self.tcp_head_start),
            ("negative-cache", "negative_cache_s", self.negative_cache),
        ];
        all.into_iter().filter_map(|(option, setting, value)| Some((option, setting, value?)))
    }
}

/// The value of `--via`.
pub(crate) fn parse_via(words: &[String]) -> Result<Option<Via>, Failure> {
    let said = (!words.is_empty()).then(|| words.join(",").parse());
    said.transpose().map_err(|e| Failure::usage(format!("--via: {e}")))
}
