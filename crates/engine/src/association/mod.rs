//! One association: its state machine and everything that is not data transfer itself.
//!
//! ```text
//!   user (commands)      endpoint (packets)         clock
//!         |                    |                      |
//!       user.rs           receive.rs             timers.rs
//!         |          /     |     |     \              |
//!         |    setup  restart heartbeat teardown    fault      each may move `state`
//!         |          \     |     |     /              |        and ask for chunks
//!         |     reconfiguration (RE-CONFIG)           |
//!         |     authentication (AUTH)                 |
//!         |     protection (DTLS)                     |
//!         |     asconf, asconf_answer, addresses      |
//!         |     suspension (links of our own)         |
//!         |     translation (NATs)                    |
//!         |     unverified (addresses of others)      |
//!         +-------------- state.rs, control.rs -------+
//!                              |
//!                         transmit.rs        builds what is due when the driver polls
//! ```
//!
//! Handlers that work on some parts alone borrow these: `PathManager` and `Addressing` (path_manager.rs),
//! `Reconfiguring` (reconfiguration.rs), `UpperLayer` (user.rs), `Packets` (packets.rs), `Ending` (ending.rs); what
//! protects packets is `Security` (authentication.rs). What single chunks say is written and read by functions over
//! what they need: acknowledgement, ecn, heartbeat, teardown.
//!
//! Handlers never transmit. They change the state, note what is to be sent and on which path, and
//! give events to the [`Context`]. `transmit` then builds packets from what has been noted. Data
//! transfer is done by [`Sender`](crate::send::Sender) and [`Receiver`](crate::recv::Receiver).

pub(crate) mod abort_reasons;
mod acknowledgement;
pub(crate) mod addresses;
pub(crate) mod announcement;
pub(crate) mod asconf;
mod asconf_answer;
mod authentication;
mod context;
pub(crate) mod control;
pub(crate) mod cookie;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod cookie_model;
mod cookie_paths;
pub(crate) mod doubt;
mod ecn;
mod ending;
mod families;
mod fault;
mod handshake;
mod heartbeat;
mod mtu;
mod packets;
mod path_manager;
mod protection;
mod receive;
pub(crate) mod reconfiguration;
mod reconfiguration_answer;
mod regulation;
pub(crate) mod restart;
pub(crate) mod setup;
mod sharing;
mod state;
mod statistics;
pub(crate) mod status;
mod supervision;
mod suspension;
mod tcb;
mod teardown;
mod timers;
mod translation;
mod transmit;
pub(crate) mod unverified;
pub(crate) mod user;

pub(crate) use authentication::Authenticity;
pub(crate) use context::Context;
pub(crate) use protection::Protection;
pub use state::InitRepetition;
pub(crate) use tcb::{Association, Ports};
