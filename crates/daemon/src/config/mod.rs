//! Every parameter of a stack, with its default.

mod doors;
mod gateway;
mod relay;
mod users;

pub use doors::Doors;
pub use gateway::{Gateway, Way};
pub use relay::{RelayConfig, RelayTo, RelayToError};
pub use users::Users;

use crate::allow::Allow;
use crate::budgets::SharedQuotas;
use crate::files::peer_cache::PeerCache;
use crate::keys::KeyFiles;
use crate::log::{self, Level, Levels};
use crate::packets::SharedAllowances;
use crate::proxy::ProxyAt;
use crate::tls::TlsConfig;
use manypath_engine::{Announce, Profile, Redundancy, SharedBottleneck};
use manypath_keys::TicketIssuer;
use manypath_net::{Behind, Carriers, Interface, Seat};
use manypath_rules::paths::PathsFile;
use manypath_rules::{Encrypt, Part, RulesFile, Sources, StepAside, Via};
use std::fmt;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tracing::info;

/// UDP port of a server unless told otherwise: the SCTP tunnelling port (RFC 6951 section 5.1).
pub const DEFAULT_UDP_PORT: u16 = 9899;

/// UDP port of a privileged server beside [`DEFAULT_UDP_PORT`]: who has it may answer for ports below 1024. IANA has
/// assigned it to nobody.
pub const DEFAULT_PRIVILEGED_PORT: u16 = 899;
/// The first port that every user of a host may have.
pub(crate) const FIRST_FREE_PORT: u16 = 1024;

/// Most connections that one side opens on an association: TCP has 28,232 ports for those to one service.
pub(crate) const MAX_FLOWS: u16 = 16_384;

/// Most engine loops of a server.
pub const MAX_LOOPS: usize = 16;

/// Which local addresses carry paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Locals {
    /// Every unicast address of every interface that is up, except loopback and link-local ones.
    /// They are followed as they come and go, by associations that are in use, too.
    Auto,
    /// The same, without those of these interfaces.
    Except(Vec<String>),
    /// Exactly these; each must be an address of this host when the stack begins, and is used as long
    /// as it is one.
    List(Vec<IpAddr>),
    /// These, and those of interfaces as they come and go. Each must be there when the stack begins.
    Named(Vec<LocalName>),
}

/// Local addresses as a user names them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LocalName {
    /// This one.
    Address(IpAddr),
    /// Those of an interface.
    Interface(String),
}

impl LocalName {
    /// Whether the address of `interface` is meant.
    pub(crate) fn fits(&self, interface: &Interface) -> bool {
        match self {
            Self::Address(addr) => *addr == interface.addr,
            Self::Interface(name) => *name == interface.name,
        }
    }
}

impl FromStr for LocalName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |text: &str| {
            let odd = |c: char| c.is_whitespace() || matches!(c, '/' | ':');
            (1..libc::IFNAMSIZ).contains(&text.len()) && !text.contains(odd)
        };
        match text.parse() {
            Ok(addr) => Ok(Self::Address(addr)),
            Err(_) if is_name(text) => Ok(Self::Interface(text.to_owned())),
            Err(_) => Err("neither an address nor the name of an interface".to_owned()),
        }
    }
}

impl fmt::Display for LocalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(addr) => addr.fmt(f),
            Self::Interface(name) => name.fmt(f),
        }
    }
}

/// What carries SCTP packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encapsulation {
    /// UDP (RFC 6951): passes NATs, needs no privilege.
    Udp,
    /// Nothing: SCTP directly over IP, as protocol 132. Needs CAP_NET_RAW.
    Native,
}

/// Which connections are carried and how, where no rule says otherwise.
#[derive(Clone, Debug)]
pub struct Carrying {
    /// How packets get to peers where UDP at the usual port does not; where a server listens beside that port.
    pub carriers: Carriers,
    /// The HTTP proxy by which carriers may go, or why there is none.
    pub proxy: Result<ProxyAt, String>,
    /// What carriers inside of TLS show to who looks on.
    pub tls: TlsConfig,
    /// The server that gets connections to TLS ports that are no carriers.
    pub behind: Option<Behind>,
    /// Whether services at ports below 1024 are asked for at [`peer_udp_port`](StackConfig::peer_udp_port), where any user of
    /// the peer's host may answer, unless a rule says otherwise.
    pub unproven: bool,
    /// Which peers are told the addresses of this host, beside the one that the handshake uses.
    pub announce: Announce,
    /// What is sent over several paths at once.
    pub redundancy: Redundancy,
    /// What happens on paths that share a bottleneck.
    pub shared_bottleneck: SharedBottleneck,
    /// Whether connections of programs that have bound an address use every path; otherwise they
    /// are left to plain TCP from that address.
    pub force_bindall: bool,
    /// Whether connections are left to plain TCP where a single short path leads to the peer, unless a
    /// rule says otherwise.
    pub step_aside: StepAside,
    /// Whether plain TCP is tried beside SCTP from the start where nothing is known of a peer, and used unless the peer
    /// answers over SCTP soon after.
    pub tcp_race: bool,
    /// Whether what is known about peers is used and kept.
    pub peer_cache: bool,
    /// At which relays this host is registered, so that others reach it there by its key.
    pub register: Option<Via>,
    /// Whether datagrams of a gateway's clients go by a relay where no rule names their destination.
    pub door_datagrams: bool,
}

impl Default for Carrying {
    fn default() -> Self {
        Self {
            carriers: Carriers::default(),
            proxy: Err("no proxy is named".to_owned()),
            tls: TlsConfig::default(),
            behind: None,
            unproven: false,
            announce: Announce::All,
            redundancy: Redundancy::Off,
            shared_bottleneck: SharedBottleneck::Detect,
            force_bindall: true,
            step_aside: StepAside::Auto,
            tcp_race: true,
            peer_cache: true,
            register: None,
            door_datagrams: false,
        }
    }
}

/// How long a stack waits and remembers, how often it tries, and how much it holds.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes that peers may be promised for data that programs have not taken, by all flows together.
    pub receive_memory: u64,
    /// INITs sent again before the fallback.
    pub init_rtx_max: u32,
    /// Losses in a row after which a path is inactive.
    pub path_rtx_max: u32,
    /// Shortest retransmission timeout.
    pub rto_min: Duration,
    /// Longest retransmission timeout.
    pub rto_max: Duration,
    /// How long a peer may stay silent before a connection goes on as plain TCP.
    pub fallback_timeout: Duration,
    /// How long a peer that carries connections may be silent when its host says that nobody listens there.
    pub unreachable_patience: Duration,
    /// How long a non-blocking connect waits for SCTP before plain TCP is tried in parallel.
    pub tcp_head_start: Duration,
    /// How long a peer or service that could not be used is remembered.
    pub negative_cache: Duration,
    /// How long a service that was reached over SCTP is trusted to be reached so.
    pub positive_cache: Duration,
    /// How long a datagram is worth something, if no rule says so.
    pub datagram_lifetime: Duration,
    /// How long a flow of datagrams is kept in which none comes or goes.
    pub datagram_idle: Duration,
    /// How long an association that this side began is kept without flows.
    pub idle_timeout: Duration,
    /// How long an association that a peer began is kept without flows. Longer than `idle_timeout`, so
    /// that it is the peer who ends it unless it hoards associations.
    pub peer_idle_timeout: Duration,
    /// How long a draining stack waits without any byte moving before it gives up.
    pub drain_timeout: Duration,
    /// How long a stack that was told to end by a signal lets flows run on.
    pub exit_timeout: Duration,
    /// How long a stack that launchers share, and its associations, outlive the last of them.
    pub shared_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            receive_memory: default_receive_memory(),
            init_rtx_max: 2,
            path_rtx_max: 5,
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(60),
            fallback_timeout: Duration::from_millis(300),
            unreachable_patience: Duration::from_secs(15),
            tcp_head_start: Duration::from_millis(150),
            negative_cache: Duration::from_secs(60),
            positive_cache: Duration::from_secs(86_400),
            datagram_lifetime: Duration::from_millis(500),
            datagram_idle: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            peer_idle_timeout: Duration::from_secs(600),
            drain_timeout: Duration::from_secs(60),
            exit_timeout: Duration::from_secs(3),
            shared_pause: Duration::from_secs(300),
        }
    }
}

/// The process of a stack: what it was started with, who controls it, and when it ends.
#[derive(Debug, Default)]
pub struct ProcessConfig {
    /// Serve listeners of programs under `manypath run` and nothing else, from the first one that
    /// the rules open until the last launcher has gone.
    pub listeners_only: bool,
    /// A connected control socket, from the launcher that started this stack.
    pub control: Option<OwnedFd>,
    /// Where to put a listening control socket, named after the process, for `manypath status` and
    /// launchers of this host.
    pub runtime_dir: Option<PathBuf>,
    /// Drain and end when the launcher behind `control` has gone.
    pub exit_when_drained: bool,
    /// Where other launchers find this stack, too. It then ends when none has been there for
    /// [`shared_pause`](Limits::shared_pause), or for a few seconds if the file is gone.
    pub shared: Option<PathBuf>,
    /// The name under which a server also takes launchers of programs in, which would start stacks of their own otherwise.
    pub programs: Option<PathBuf>,
    /// Take SIGTERM, SIGINT and SIGHUP as orders to end in good order. The stack must then be made
    /// before its process has other threads, and run in the same one. It also raises the process's
    /// limit of open files.
    pub handle_signals: bool,
    /// Tell the service manager, if there is one (`$NOTIFY_SOCKET`), of begin, end, reloads and health;
    /// SIGHUP then means to read rules and settings again. For a stack that is the service itself.
    pub service: bool,
    /// UDP sockets that were opened before the process began, each bound to a local address: used in
    /// place of new ones. All have the port [`udp_port`](StackConfig::udp_port).
    pub sockets: Vec<OwnedFd>,
    /// Which of several engine loops of a server this is, each of which is a stack ([`Server`](crate::Server)).
    pub seat: Option<Seat>,
    /// What the engine loops of a server give tickets to clients with, so that each takes those of all.
    pub tickets: Arc<TicketIssuer>,
    /// Why a server has not as many engine loops as were asked for.
    pub loops_reason: Option<String>,
    /// What peers with a quota have moved, for all engine loops together.
    pub quotas: SharedQuotas,
    /// The same of the pings that peers of a relay may send.
    pub pings: SharedAllowances,
    /// Take over from a server of this user that has the port, or from one behind one of these lines, which a service
    /// manager has kept; see [`takeover`](crate). Under a service manager, let connections outlive a restart.
    pub replace: Option<Vec<OwnedFd>>,
    /// Whether the process is a child of the service manager's main process
    /// ([`anchor`](manypath_control::anchor)).
    pub anchored: bool,
    /// Go on at SIGINT and SIGHUP: what happens at the terminal is meant for the program, not for
    /// its stack.
    pub ignore_interrupt: bool,
}

/// The files of the caller's settings: `settings` of its configuration; see [`Sources::usual`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile(pub(crate) Sources);

impl SettingsFile {
    /// The caller's usual files.
    #[must_use]
    pub fn usual() -> Self {
        Self(Sources::usual(Part::Settings))
    }

    /// A file that the user has named: nothing else is read.
    #[must_use]
    pub fn named(path: PathBuf) -> Self {
        Self(Sources::named(Part::Settings, path))
    }

    /// Where they lie.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.0
    }
}

/// What a stack does and how. `StackConfig::default()` is a client that nobody controls yet.
#[derive(Debug)]
pub struct StackConfig {
    /// The local addresses to use.
    pub locals: Locals,
    /// Which parameters the engine has.
    pub profile: Profile,
    /// What carries SCTP.
    pub encapsulation: Encapsulation,
    /// UDP port of the own sockets; 0 takes a free one.
    pub udp_port: u16,
    /// UDP port at which peers are expected.
    pub peer_udp_port: u16,
    /// UDP port below 1024 where a server also listens if it may, and where a client asks for services at ports
    /// below 1024; 0 for none.
    pub privileged_port: u16,
    /// Whether peers may begin associations (the server role).
    pub accept: bool,
    /// What peers may reach through this host; nothing else is ever dialled.
    pub allow: Vec<Allow>,
    /// Join SCTP programs with TCP programs, and do nothing else.
    pub gateway: Option<Gateway>,
    /// Where connections come in of programs and hosts that no launcher intercepts.
    pub doors: Option<Doors>,
    /// The rules table: which connects are carried, and what peers may reach besides `allow`.
    /// Without one, connects are carried and `allow` is all.
    pub rules: Option<RulesFile>,
    /// What paths are there for, read at the beginning and again when asked.
    pub paths: Option<PathsFile>,
    /// Settings that are read at the beginning and again when asked; see [`Knob`](crate::Knob).
    pub settings: Option<SettingsFile>,
    /// Begin without the settings that are wrong, instead of not at all.
    pub ignore_wrong_settings: bool,
    /// Names of settings that the file does not change, because the user has given them.
    pub fixed: Vec<&'static str>,
    /// Whether associations are encrypted, unless a rule says otherwise. Those of a gateway never are.
    pub encrypt: Encrypt,
    /// Relay flows of authorized peers to other hosts.
    pub relay: Option<RelayConfig>,
    /// By which relays connections go, unless a rule says otherwise.
    pub via: Option<Via>,
    /// Where the keys of this host and of its peers are kept; nowhere when absent.
    pub keys: Option<KeyFiles>,
    /// Where what is known about peers is kept; nowhere when absent.
    pub peer_memory: Option<PeerCache>,
    /// Where it is kept what interfaces with a budget have carried; nowhere when absent.
    pub budgets: Option<PathBuf>,
    /// Let addresses of 127.0.0.0/8 carry paths. For tests, and for `manypath demo` without
    /// privileges. Even then a loopback service is dialled only if an `ADDR:PORT` entry of `allow`
    /// names exactly the address that the peer used.
    pub loopback_paths: bool,
    /// What is logged, where [`log_to`](crate::log_to) says.
    pub log: Levels,
    /// What tags, cookies and other secrets are drawn from; the system's randomness when absent. For tests that
    /// repeat themselves, by a clock of their own.
    pub seed: Option<[u8; 32]>,
    /// What is carried, and how.
    pub carrying: Carrying,
    /// Times, counts and sizes.
    pub limits: Limits,
    /// How its process runs.
    pub process: ProcessConfig,
}

/// What a stack may promise unless told otherwise: an eighth of the machine's memory, as TCP does about, but no less than
/// 256 MiB, and no more than [`MAX_FLOWS`] connections to one peer begin with, the first of them with larger windows.
fn default_receive_memory() -> u64 {
    let least_windows = u64::from(MAX_FLOWS) * u64::from(manypath_flow::INITIAL_CREDIT);
    (manypath_net::memory() / 8).clamp(256 << 20, least_windows / 4 * 5)
}

impl Default for StackConfig {
    fn default() -> Self {
        Self {
            locals: Locals::Auto,
            profile: Profile::Production,
            encapsulation: Encapsulation::Udp,
            udp_port: 0,
            peer_udp_port: DEFAULT_UDP_PORT,
            privileged_port: DEFAULT_PRIVILEGED_PORT,
            accept: false,
            allow: Vec::new(),
            gateway: None,
            doors: None,
            rules: None,
            paths: None,
            settings: None,
            ignore_wrong_settings: false,
            fixed: Vec::new(),
            encrypt: Encrypt::Opportunistic,
            relay: None,
            via: None,
            keys: None,
            peer_memory: None,
            budgets: None,
            loopback_paths: false,
            log: Levels::new(Level::Warn),
            seed: None,
            carrying: Carrying::default(),
            limits: Limits::default(),
            process: ProcessConfig::default(),
        }
    }
}

impl StackConfig {
    /// A server on the default port that lets peers reach `allow`.
    pub fn server(allow: Vec<Allow>) -> Self {
        Self {
            udp_port: DEFAULT_UDP_PORT,
            accept: true,
            allow,
            process: ProcessConfig {
                handle_signals: true,
                service: true,
                ..ProcessConfig::default()
            },
            log: Levels::new(Level::Info),
            ..Self::default()
        }
    }

    /// The stack that a launcher starts for one program and controls through `control`.
    pub fn embedded(control: OwnedFd) -> Self {
        let process = ProcessConfig {
            control: Some(control),
            exit_when_drained: true,
            handle_signals: true,
            ignore_interrupt: true,
            ..ProcessConfig::default()
        };
        Self { process, ignore_wrong_settings: true, ..Self::default() }
    }

    /// The stack that a launcher starts for the listeners of its program, and shares with other
    /// launchers of this host.
    pub fn for_listeners(control: OwnedFd, udp_port: u16) -> Self {
        let mut config = Self { udp_port, accept: true, ..Self::embedded(control) };
        config.process.listeners_only = true;
        config
    }

    /// The port of `peer` in addresses of its host: 0 stands for SCTP directly over IP.
    pub(crate) fn peer_port(&self) -> u16 {
        match self.encapsulation {
            Encapsulation::Udp => self.peer_udp_port,
            Encapsulation::Native => 0,
        }
    }

    /// Says of the host or the process what every engine loop notices: only the first one does.
    pub(crate) fn say_once(&self, line: fmt::Arguments<'_>) {
        if self.loop_index() == 0 {
            info!(target: log::STACK, "{line}");
        }
    }

    /// Which of the engine loops of the process this is.
    pub(crate) fn loop_index(&self) -> usize {
        self.process.seat.as_ref().map_or(0, Seat::index)
    }

    /// How many engine loops the process has.
    pub(crate) fn loops(&self) -> usize {
        self.process.seat.as_ref().map_or(1, Seat::count)
    }

    /// Bytes that peers of this loop may be promised.
    pub(crate) fn window_memory(&self) -> u64 {
        self.limits.receive_memory / self.loops() as u64
    }

    /// Whether the stack may come to resolve names: those of destinations, or of relays that rules name while it runs.
    pub(crate) fn may_resolve_names(&self) -> bool {
        let process = &self.process;
        let runs = process.exit_when_drained || process.programs.is_some();
        !process.listeners_only && runs
            || self.relay.is_some()
            || self.via.is_some()
            || self.carrying.register.is_some()
    }

    /// The configuration of another loop than the first: what there is once in a process is the first one's.
    pub(crate) fn leave_to_the_first(&mut self) {
        let process = &mut self.process;
        (process.handle_signals, process.anchored) = (false, false);
        (process.control, process.programs, self.peer_memory) = (None, None, None);
        process.replace = process.replace.take().map(|_| Vec::new());
    }

    /// The UDP ports of a server beside its first.
    pub(crate) fn beside_ports(&self) -> Vec<u16> {
        let serves = self.accept && self.encapsulation == Encapsulation::Udp;
        let second = self.second_port();
        let taken = [Some(self.udp_port), second];
        let carriers = self.carrying.carriers.udp_ports();
        let free = carriers.filter(|port| serves && !taken.contains(&Some(*port)));
        second.into_iter().chain(free).collect()
    }

    /// The second port of a server, if it is to have one.
    pub(crate) fn second_port(&self) -> Option<u16> {
        let udp = self.encapsulation == Encapsulation::Udp;
        let wanted = udp && self.accept && self.udp_port >= FIRST_FREE_PORT;
        Some(self.privileged_port).filter(|port| wanted && *port != 0)
    }
}
