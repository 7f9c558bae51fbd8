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
mod association;
mod associations;
mod attempt;
mod base;
mod budgets;
mod config;
mod confinement;
mod control_server;
mod core;
mod counters;
mod datagrams;
mod doors;
mod drain;
mod gateway;
mod jobs;
mod keeper;
mod keys;
mod locals;
mod log;
mod loops;
mod names;
mod packets;
mod parameters;
mod path_policies;
mod peers;
mod privileged;
mod proven;
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
mod way;

pub use allow::{Allow, AllowError};
pub use budgets::SharedQuotas;
pub use config::{
    Carrying, DEFAULT_PRIVILEGED_PORT, DEFAULT_UDP_PORT, Encapsulation, Limits, LocalName, Locals,
    ProcessConfig, StackConfig,
};
pub use datagrams::SharedAllowances;
pub use doors::{Doors, Users, listen_transparently, receive_transparently};
pub use gateway::{Gateway, Way};
pub use keeper::{Keeper, Kept, keep};
pub use keys::KeyFiles;
pub use locals::check_locals;
pub use log::{
    Level, Levels, LogTo, Subsystem, WaitingLog, flush_log, log_to, stderr_is_the_journal,
};
pub use loops::{MAX_LOOPS, Server};
pub use manypath_flow::{Framing, SCTP_PORT};
pub use manypath_net::Behind;
pub use peers::{PeerCache, PeerRecord};
pub use proxy::ProxyAt;
pub use scopes::{LocalScope, LocalScopes};
pub use services::{RelayConfig, RelayTo, RelayToError};
pub use settings::{KNOBS, Knob, Said, SettingsError, SettingsFile};
pub use stack::{Stack, Stopper};
pub use takeover::loops_to_replace;
pub use tls::{Certificate, TlsConfig};
