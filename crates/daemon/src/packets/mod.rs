//! IP packets that are neither TCP nor UDP, each a datagram of a flow to a relay.
//!
//! ```text
//! LAN ─▶ TUN device ─▶ doors ─▶ flow of datagrams ─▶ relay ─▶ raw ICMP socket ─▶ host
//! ```
//!
//! What a packet is. The relay's side is `datagrams/pings.rs`. A relay has no privilege to send packets of strangers: it carries
//! echo requests and what answers them, and says so of everything else.

mod allowance;
mod echo;

pub use allowance::SharedAllowances;
pub(crate) use echo::{Content, Echo, Packet, parse};

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The destination of a flow of packets in DATAGRAM RELAY OPEN: nothing else has it.
pub(crate) const PACKETS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
