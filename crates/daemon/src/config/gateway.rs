//! What a gateway joins: SCTP programs with TCP programs.

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

    /// The addresses of the TCP service behind it, if that is what it leads to.
    pub(crate) fn service(&self) -> &[SocketAddr] {
        match &self.way {
            Way::ToTcp { service, .. } => service,
            Way::ToSctp { .. } => &[],
        }
    }
}
