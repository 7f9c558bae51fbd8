//! Drives one endpoint over UDP sockets (RFC 6951): the only crate that touches the network.
//!
//! ```text
//! mio event ─▶ Driver::handle_event   ─▶ error queue (ICMP) ─▶ Endpoint::handle_unreachable
//! Driver::handle_timeout ─▶ sockets ─▶ receive (GRO, split, in order of arrival) ─▶ Endpoint::handle_packet
//! Driver::flush ─▶ Endpoint::poll_transmit ─▶ run ─▶ send (GSO, or packet by packet) ─▶ socket
//! ```
//!
//! There is one socket per local address, bound to the address and to its interface, so that a path
//! is a socket and a remote address, whatever the routing table says. Each socket judges for itself
//! whether segmentation offload works on its interface.
//!
//! The user's loop is:
//!
//! ```text
//! loop {
//!     poll.poll(&mut events, clock.until(driver.timeout()))
//!     for each event  { driver.handle_event(clock.now(), event) or it is somebody else's }
//!     driver.handle_timeout(clock.now())      // reading, and timers
//!     while let Some(event) = driver.endpoint_mut().poll_event() { ... }
//!     driver.flush(clock.now())
//! }
//! ```
//!
//! Readiness is edge-triggered and the work of each call is bounded; what a call leaves over makes
//! [`Driver::timeout`] come due at once.

mod ancillary;
mod any_io;
mod apart;
mod arrivals;
mod bind;
mod bound;
mod carriage;
mod carried;
mod carriers;
mod clock;
mod counters;
mod driver;
#[cfg(test)]
mod driver_tests;
mod error_queue;
mod exchange;
mod flood;
mod inherited;
mod interfaces;
mod ip_packet;
#[cfg(test)]
mod kernel_tests;
mod lent;
mod limits;
mod links;
mod listeners;
mod loopback;
mod loops;
mod moderation;
#[cfg(test)]
#[path = "../tests/support/namespace.rs"]
mod namespace;
mod netlink;
mod offload;
mod open;
mod parcels;
mod path_io;
mod ping;
mod probe;
mod raw_io;
mod receive;
mod route;
#[cfg(test)]
mod scripted;
mod send;
mod signals;
mod sockaddr;
mod socket;
mod socket_option;
mod steering;
mod stray;
mod transparent;
mod tun;
mod udp_holder;
mod waiting;

#[cfg(test)]
extern crate self as manypath_net;

pub use apart::{Apart, ApartInterface, interfaces_apart, is_bridge};
pub use bind::{LocalBinding, UdpPort, check_native};
pub use carried::{LocalTime, carried, local_time};
pub use carriers::{Behind, Carrier, Carriers, Proxy, STREAM_PORT, Wrap, Wrapper, proxy_header};
pub use clock::{Clock, SuspendWatch};
pub use counters::Counters;
pub use driver::Driver;
pub use inherited::Inherited;
pub use interfaces::{Interface, interfaces};
pub use ip_packet::{icmp, icmp_error};
pub use limits::{keep_freed_memory, memory, raise_descriptor_limit};
pub use links::{Link, links};
pub use loopback::loopback_pair;
pub use loops::{Loops, Seat};
pub use netlink::{NetworkWatch, News};
pub use open::{BufferHelper, enlarge_buffers_through, force_buffers};
pub use parcels::Parcel;
pub use ping::PingSocket;
pub use probe::{ProbeReport, Probes, ReportKind};
pub use route::{Route, route_to, routes};
pub use signals::{Signal, Signals};
pub use socket::SocketStatus;
pub use socket_option::{choose_port_when_connecting, speaks_mptcp, tcp_info};
pub use transparent::{Intercepted, TransparentUdp};
pub use tun::Tun;
pub use udp_holder::{UdpHolder, udp_holders};
