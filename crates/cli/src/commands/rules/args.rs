//! The command line of `manypath rules`.

use clap::{Args, Subcommand, ValueEnum};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Control which connections are carried and what peers may reach.
///
/// Syntax of a rule: CHAIN POLICY [tcp|udp] [any | host A | net A/PREFIX] [port N | ports N-M]
/// [from=A/PREFIX] [key=SHA256:... | peer=NAME] [OPTION=VALUE ...]. Chain `local` is for services of this host, `remote` for connections that
/// its programs make. Only rules that contradict the chain's default are searched; the first match
/// decides. UDP is carried only where a rule enables it. With from, key and peer a local rule is
/// about the peers alone that come from there, have that key or that name in the file of
/// `serve --authorized`; such a disable rule also closes what other rules or `--allow` open.
///
/// Options of enable rules: half-close=on|off, proxy=on|off (local: send the client's address to
/// the service by the PROXY protocol), sctp-only=on|off (remote: no fallback to TCP),
/// form=mux|direct, class=bulk|interactive, weight=N, profile=production|dynamic
/// (local: with key or peer),
/// redundant=on|off (duplicate data on all paths), step-aside=auto|never (remote: use plain TCP to
/// peers reached over a single short path), unproven=on|off (remote: reach ports below 1024 even if
/// any user of the peer's host could answer for them), encrypt=off|opportunistic|require (remote:
/// encrypt associations with the peer; require: refuse what would be plain; local: require alone),
/// announce=all|authenticated (remote: tell peers other addresses of this host in clear, or only
/// encrypted and if their keys are known),
/// via=HOST[:PORT],...|off (remote: go by a relay), path=NAME[,NAME] (remote: use these uplinks
/// alone), path-down=wait|any (what to do while none of them works), never-metered=on|off (remote:
/// use no uplink that is metered), connections=N and rate=RATE (local: what one
/// peer may have at a time, such as rate=5mbit), quota=SIZE/PERIOD (local: what one peer may move,
/// such as quota=10GB/month), lifetime=TIME (udp: how long a datagram is worth sending, such as
/// 200ms).
///
/// Rules are kept in `rules` of ~/.config/manypath/config.toml, then /etc/manypath/config.toml.
/// Changes apply immediately.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath rules add remote disable port 25\n  manypath rules add local enable net 192.0.2.0/24 ports 8000-8099\n  manypath rules add local enable port 22 peer=alice\n  manypath rules add remote enable host 198.51.100.7 path=eth0\n  manypath rules explain connect 192.0.2.7:25"
)]
pub(crate) struct RulesArgs {
    /// Use this rules file.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) rules: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) action: RulesAction,
}

#[derive(Subcommand, Debug)]
pub(crate) enum RulesAction {
    /// Append a rule to its list.
    #[command(
        after_help = "Example:\n  manypath rules add --at 1 remote disable host 192.0.2.7 port 22"
    )]
    Add {
        /// Insert the rule at this position.
        #[arg(long, value_name = "N")]
        at: Option<usize>,
        /// Add it even if it can never match.
        #[arg(long)]
        force: bool,
        /// The rule.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
    },
    /// Delete a rule, given its words or its list and number.
    #[command(
        after_help = "Example:\n  manypath rules delete remote disable port 25\n  manypath rules delete remote disable 2"
    )]
    Delete {
        /// The rule's words, or CHAIN POLICY NUMBER as shown by `rules list`.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
    },
    /// Show defaults and rules, and which rules can never match.
    #[command(after_help = "Example:\n  manypath rules list\n  manypath rules list remote disable")]
    List {
        /// Show only this chain: local or remote.
        chain: Option<String>,
        /// Show only this policy: enable or disable.
        policy: Option<String>,
    },
    /// Delete all rules of your own file, but keep the defaults.
    #[command(after_help = "Example:\n  manypath rules flush")]
    Flush,
    /// Show or set the default policy of a chain.
    #[command(
        after_help = "Example:\n  manypath rules default\n  manypath rules default remote disable"
    )]
    Default {
        /// The chain: local or remote.
        chain: Option<String>,
        /// The new policy: enable or disable.
        policy: Option<String>,
    },
    /// Explain what happens to a connection to, or a service on, an address, and why.
    #[command(
        after_help = "Example:\n  manypath rules explain connect 192.0.2.7:22\n  manypath rules explain bind 0.0.0.0:80\n  manypath rules explain bind 192.0.2.1:22 --peer alice"
    )]
    Explain {
        /// Call of the program.
        #[arg(value_enum)]
        call: Call,
        /// ADDRESS:PORT.
        #[arg(value_parser = service)]
        address: SocketAddr,
        /// Explain datagrams instead of connections.
        #[arg(long)]
        udp: bool,
        #[command(flatten)]
        peer: PeerArgs,
    },
    /// Check a rules file for syntax errors and rules that can never match.
    #[command(after_help = "Example:\n  manypath rules test\n  manypath rules test new-rules")]
    Test {
        /// Rules file (default: the current one).
        file: Option<PathBuf>,
    },
}

impl RulesAction {
    /// Whether it is done to a table that need not exist, or says itself that it does not.
    pub(super) const fn takes_missing(&self) -> bool {
        match self {
            Self::Add { .. } | Self::Default { policy: Some(_), .. } | Self::Test { .. } => true,
            Self::Delete { .. } | Self::List { .. } | Self::Flush => false,
            Self::Default { policy: None, .. } | Self::Explain { .. } => false,
        }
    }
}

/// The peer that asks for a service.
#[derive(Args, Debug)]
pub(crate) struct PeerArgs {
    /// Explain it for a peer at this address.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) from: Option<IpAddr>,
    /// Explain it for the peer with the key of this fingerprint.
    #[arg(long, value_name = "SHA256:...")]
    pub(crate) key: Option<String>,
    /// Explain it for an authorized peer of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) peer: Option<String>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    /// A program connects to the address.
    Connect,
    /// A program offers a service at the address.
    Bind,
}

/// An address and a port, in numbers as rules have them.
fn service(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "write 192.0.2.7:22 or [2001:db8::1]:22; rules take no names".to_owned())
}

/// Edit rules with the flags of the original tool (Bickhart 2005).
///
/// Works on the same rules as `manypath rules`. -H lists the flags.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Example:\n  manypath shimrules -A -c remote -p disable -n 192.0.2.0/24 -r 1:1024\n  manypath shimrules -L"
)]
pub(crate) struct ShimrulesArgs {
    /// Flags: -A -D -L -F -G -S -H, -c -p -h -n -s -r.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAG")]
    pub(crate) flags: Vec<String>,
}
