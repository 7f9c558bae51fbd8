//! A gateway: programs that speak SCTP to programs that speak TCP, one association for each
//! connection, in either direction.
//!
//! ```text
//! SCTP client ══▶ association ──▶ dial ──▶ TCP service        Way::ToTcp
//! TCP client ──▶ caller ──▶ association ══▶ SCTP server       Way::ToSctp
//! ```
//!
//! What joins the two is the direct form: its relays, its back-pressure and its ends. A gateway has
//! no rules and no fallback, and carries no flows of a shared association.

mod callers;
mod printer;
mod services;
mod status_line;

pub(crate) use callers::Callers;
pub(crate) use printer::Printer;
pub(crate) use status_line::Totals;

use crate::core::Core;
use crate::parameters;
use crate::stack::Stack;
use manypath_engine::{Config, Duration};
use manypath_flow::{DIRECT_ADAPTATION, Framing};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// First timeout of an INIT, and how often one is sent again: 7.5 s in all for each address of the
/// server.
const INIT_TIMEOUT: Duration = Duration::from_millis(500);
const INIT_RETRANSMITS: u32 = 3;
/// Buffers of an association, each way, in bytes: what many clients may have at first, and what a
/// fast one may come to.
const BUFFER: u32 = 1 << 20;
const LARGEST_BUFFER: u32 = 4 << 20;

/// What a gateway joins, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gateway {
    /// From where to where.
    pub way: Way,
    /// How bytes of TCP become messages of SCTP.
    pub framing: Framing,
    /// Most clients at a time.
    pub max_clients: usize,
    /// How often a line of JSON with the state is printed on standard output; never, if absent.
    pub status_every: Option<Duration>,
}

/// From where to where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// SCTP clients at a port to a TCP service.
    ToTcp {
        /// The SCTP port.
        port: u16,
        /// Addresses of the service; each is tried in turn.
        service: Vec<SocketAddr>,
    },
    /// TCP clients to an SCTP server.
    ToSctp {
        /// Where TCP clients are taken in.
        listen: Vec<SocketAddr>,
        /// Addresses of the server; each is tried in turn until one answers, the last that did first.
        peers: Vec<IpAddr>,
        /// Its SCTP port.
        port: u16,
    },
}

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.way {
            Way::ToTcp { port, service } => {
                write!(f, "SCTP clients at port {port} to TCP {}", words(service))
            }
            Way::ToSctp { listen, peers, port } => {
                let (listen, peers) = (words(listen), words(peers));
                write!(f, "TCP clients at {listen} to SCTP {peers} port {port}")
            }
        }
    }
}

fn words<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

impl Gateway {
    /// The parameters of its associations, of which `config` are those of native ones in general.
    pub(crate) fn parameters(&self, config: Config) -> Config {
        let whole = self.framing == Framing::Pieces;
        Config {
            port: match self.way {
                Way::ToTcp { port, .. } => port,
                Way::ToSctp { .. } => 0,
            },
            // Messages of a protocol end with the association, as programs without manypath have it.
            adaptation: whole.then_some(DIRECT_ADAPTATION),
            streams: self.framing.streams(),
            receive_buffer: BUFFER,
            receive_buffer_max: LARGEST_BUFFER,
            send_buffer: BUFFER,
            send_buffer_max: LARGEST_BUFFER,
            rto_initial: INIT_TIMEOUT,
            max_init_retransmits: INIT_RETRANSMITS,
            max_associations: self.max_clients,
            // Behind one address of a signalling network there may be all clients.
            max_associations_per_address: self.max_clients,
            ..config
        }
    }
}

impl Stack {
    /// Begins what a gateway does besides accepting associations.
    pub(crate) fn begin_gateway(&mut self) -> std::io::Result<()> {
        let Some(gateway) = &self.base.core.config.gateway else { return Ok(()) };
        if let Way::ToSctp { listen, .. } = &gateway.way {
            self.clients.callers = Callers::listen(listen, &self.base.core.registry)?;
            tracing::info!(target: crate::log::STACK, "{gateway}");
        }
        status_line::plan_status_line(&mut self.base.core);
        Ok(())
    }

    /// The parameters of the endpoint.
    pub(crate) fn endpoint_parameters(config: &crate::StackConfig) -> Config {
        match config.gateway {
            Some(_) => parameters::of_direct(config, config.profile),
            None => parameters::of_stack(config),
        }
    }
}

impl Core {
    /// What the bytes of connections are.
    pub(crate) fn framing(&self) -> Framing {
        self.config.gateway.as_ref().map_or(Framing::Pieces, |gateway| gateway.framing)
    }
}
