//! Connections of whole cgroups, taken to a stack without touching the programs.
//!
//! [`run`] attaches eBPF programs (`bpf/manypath.bpf.c`) to a cgroup (version 2). From then on connects of its
//! programs, whatever they were made with (io_uring, static and setuid programs too), go to the SYN gate on
//! loopback, where they wait until the destination has answered; then the socket is joined with the stack.
//!
//! ```text
//! connect() ─▶ connect4/6: carried? ──no──▶ the kernel's own TCP
//!                  │ yes: 127.0.0.1:gate
//!                  ▼
//!               sock_ops ── event: who, where to, sequence number ──▶ redirector ── OpenWaiting ──▶ stack
//!                                                                      │  ◀── Accepted, Failed ──┘
//!              socket ◀── simultaneous open, or RST / ICMP ────────────┘
//! getpeername, getsockname, accept, SO_ERROR ─▶ the true addresses and errors, from the maps
//! TCP_INFO, TCP_MAXSEG, SO_RCVBUF ─▶ the way to the destination, from a map that is renewed (`redirector/ways.rs`)
//! ```
//!
//! What is needed to decide at once lies in maps: rules, routes, and services that are known to be plain
//! TCP. Once sent to the gate a connect cannot go back; the stack relays it then.
//!
//! Datagrams that a rule names leave their sockets as ever, and are taken at the last moment:
//!
//! ```text
//! sendto() ─▶ egress: carried? ──no──▶ the network
//!                │ yes: ring buffer
//!                ▼
//!            redirector ── line: datagrams of all flows ──▶ stack
//! recvfrom() ◀── loopback, from the peer's own address ─────┘
//! ```
//!
//! Sockets that ask for errors are connected to a sink instead (`redirector/detours.rs` stands for those that
//! are not carried after all).
//!
//! Nothing is pinned. When this process ends, however, the programs' sockets are the kernel's own again.
//!
//! The parts: `kernel` what `bpf(2)` offers, `layout` the structures that both sides share, `tables` the
//! maps by meaning, `redirector` the loop, `refusal` how a connect fails, `routes`, `owner` and `listening` what
//! is asked of the kernel, `rival` who else is at work, `networks` programs in network namespaces of their own, `datagram` and `plain` what was taken and how it goes on its way after all, [`group`] the cgroup itself, [`systemd`] how units come to have one attached.

pub mod systemd;

mod connections;
mod datagram;
pub mod group;
mod kernel;
mod layout;
mod listening;
mod networks;
mod owner;
mod plain;
mod redirector;
mod refusal;
mod report;
mod rival;
mod routes;
mod tables;

pub use networks::Containers;
pub use redirector::{Error, Options, run};
pub use report::{DatagramReport, Reasons, Report};
pub use rival::Rival;
