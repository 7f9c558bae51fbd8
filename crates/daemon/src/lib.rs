//! The host's stack: associations to peers, flows to and from local sockets.
//!
//! One [`Stack`] plays both roles. As a client it answers the connects of a launcher over a control
//! socket: an association to the peer is found or begun, a flow opened, and the program's
//! connection relayed over it; where that cannot be, plain TCP takes over. As a server it accepts
//! associations and dials the local services that its allow list names, and leads peers to the
//! listeners that launchers announce, and nothing else.
//!
//! ```text
//! launcher ◀─▶ control_server ─▶ attempt ─▶ flow ─┐
//!                                   │              ├─ associations ─▶ engine ─▶ net ═▶ paths
//! local service ◀─ dial ◀─ (allow) ─┼───── flow ◀─┘
//! listener ◀─ listeners ◀─ (rules) ─┤
//!                                   └─▶ relay: local TCP socket ◀─▶ flow
//! ```

#![forbid(unsafe_code)]

mod accept;
mod allow;
mod attempt;
mod base;
mod budgets;
mod carriers;
mod config;
mod control_server;
mod core;
mod counters;
mod datagrams;
mod doors;
mod files;
mod gateway;
mod ids;
mod jobs;
mod keeper;
mod kernel_tables;
mod keys;
mod locals;
mod log;
mod loops;
mod names;
mod packets;
mod parameters;
mod path_policies;
mod peers;
mod phase;
mod privileged;
mod proxy;
mod relays;
mod rules;
mod scopes;
mod scratch;
mod service;
mod services;
mod settings;
mod sharing;
mod socket;
pub mod speed;
mod stack;
mod status;
mod suspension;
mod sync;
mod takeover;
mod timers;
mod tls;
mod token;
mod uplinks;
mod watch;

pub use allow::{Allow, AllowError};
pub use budgets::SharedQuotas;
pub use config::{
    Carrying, DEFAULT_PRIVILEGED_PORT, DEFAULT_UDP_PORT, Doors, Encapsulation, Gateway, Limits,
    LocalName, Locals, MAX_LOOPS, ProcessConfig, RelayConfig, RelayTo, RelayToError, SettingsFile,
    StackConfig, Users, Way,
};
pub use doors::{listen_transparently, receive_transparently};
pub use files::peer_cache::{PeerCache, PeerRecord};
pub use keeper::{Keeper, Kept, keep};
pub use keys::KeyFiles;
pub use locals::check_locals;
pub use log::{
    Level, Levels, LogTo, Subsystem, WaitingLog, flush_log, log_to, stderr_is_the_journal,
};
pub use loops::Server;
pub use manypath_flow::{Framing, SCTP_PORT};
pub use manypath_net::Behind;
pub use packets::SharedAllowances;
pub use proxy::ProxyAt;
pub use scopes::{LocalScope, LocalScopes};
pub use settings::{KNOBS, Knob, Said, SettingsError};
pub use stack::{Stack, Stopper};
pub use takeover::loops_to_replace;
pub use tls::{Certificate, TlsConfig};
