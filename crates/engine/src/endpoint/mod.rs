//! The only door to the protocol: one endpoint, all its associations.
//!
//! A packet finds its association by our verification tag, which is random and unique here, so that
//! a peer whose UDP port changes under way is still recognised (RFC 6951 section 5.4). Only packets
//! that cannot carry our tag are looked up by addresses and ports: INIT, ABORT and SHUTDOWN COMPLETE
//! with the T bit, and COOKIE ECHO.
//!
//! ```text
//! packet -> demux.rs --- our tag ------------------> association
//!              |-------- tag 0, INIT --------------> init.rs         answered without state
//!              |-------- COOKIE ECHO --------------> cookie_echo.rs  makes associations
//!              '-------- anything else ------------> ootb.rs         RFC 9260 sections 8.4, 8.5
//! ICMP, errors of sockets ------------------------> reports.rs      RFC 9260 section 10
//! ```

mod addresses;
mod api;
mod authentication;
mod cookie_echo;
mod demux;
mod index;
mod init;
mod ootb;
mod parameters;
mod path_requests;
mod protection;
mod registry;
mod reports;
mod unread;

pub use addresses::PathOffer;
pub use api::{ConnectError, Endpoint};

use crate::event::AssociationId;
