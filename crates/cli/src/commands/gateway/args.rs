//! The options of `manypath gateway`.

use crate::args::EncapsulationArg;
use clap::{Args, ValueEnum};
use manypath_daemon::{Framing, LocalName};
use std::net::IpAddr;
use std::path::PathBuf;

/// Connect SCTP programs with TCP programs.
///
/// Each TCP connection becomes one association. The side given as PORT accepts clients, the other
/// side is the server: `--sctp PORT --tcp HOST:PORT` lets native SCTP clients reach a TCP service,
/// `--tcp PORT --sctp HOST[,HOST]:PORT` lets TCP clients reach a native SCTP server. Several
/// addresses, of this host or of the server, become paths of the same association.
///
/// FIN maps to SHUTDOWN and RST to ABORT, in both directions. SCTP has no half-close: whichever
/// side ends first ends both directions. Bytes travel in order on stream 0; with `--framing` each
/// message of the protocol becomes one SCTP message.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath gateway --sctp 3868 --tcp diameter.example:3868 --framing diameter --encapsulation native\n  manypath gateway --tcp 2905 --sctp 192.0.2.1,198.51.100.1:2905 --framing m3ua --json"
)]
pub(crate) struct GatewayArgs {
    /// PORT on which to accept SCTP clients, or HOST[,HOST]:PORT of the SCTP server.
    #[arg(long, value_name = "PORT|HOST:PORT")]
    pub(crate) sctp: String,
    /// PORT on which to accept TCP clients, or HOST:PORT of the TCP service.
    #[arg(long, value_name = "PORT|HOST:PORT")]
    pub(crate) tcp: String,
    /// Accept TCP clients on these addresses only (default: all addresses of this host).
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    pub(crate) listen: Vec<IpAddr>,
    /// Use only these local addresses or interfaces for SCTP, separated by commas (default: the
    /// addresses of all interfaces that are up; those of tunnels and of bridges without a gateway
    /// only for destinations routed through them).
    #[arg(long = "local", value_name = "ADDR|INTERFACE", value_delimiter = ',')]
    pub(crate) locals: Vec<LocalName>,
    /// How to split the TCP byte stream into SCTP messages.
    #[arg(long, value_enum, value_name = "HOW", default_value = "pieces")]
    pub(crate) framing: FramingArg,
    /// Carry SCTP in UDP (RFC 6951) or directly over IP (protocol 132), which needs root or
    /// CAP_NET_RAW.
    #[arg(long, value_enum, value_name = "HOW", default_value = "udp")]
    pub(crate) encapsulation: EncapsulationArg,
    /// Local UDP port (default: 9899 when accepting SCTP clients, else any).
    #[arg(long = "port", alias = "udp-port", value_name = "PORT")]
    pub(crate) udp_port: Option<u16>,
    /// UDP port of the SCTP server.
    #[arg(
        long = "peer-port",
        alias = "peer-udp-port",
        value_name = "PORT",
        default_value_t = 9899
    )]
    pub(crate) peer_udp_port: u16,
    /// Maximum number of concurrent clients; further ones are refused.
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_clients: u32,
    /// Print the state as JSON lines on standard output, periodically and on exit.
    #[arg(long)]
    pub(crate) json: bool,
    /// Seconds between two lines of --json.
    #[arg(long, value_name = "S", default_value_t = 10, requires = "json",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) interval: u64,
    /// Increase verbosity: log every step of a connection.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Log destination: `stderr`, `journal`, or a file to append to.
    #[arg(long, value_name = "stderr|journal|FILE")]
    pub(crate) log: Option<PathBuf>,
}

/// How the TCP byte stream is split into SCTP messages.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FramingArg {
    /// No framing: pieces of any size, without a payload protocol identifier.
    Pieces,
    /// Diameter messages (RFC 6733), payload protocol identifier 46.
    Diameter,
    /// M3UA messages (RFC 4666), payload protocol identifier 3; those of class Transfer on stream
    /// 1.
    M3ua,
}

impl From<FramingArg> for Framing {
    fn from(arg: FramingArg) -> Self {
        match arg {
            FramingArg::Pieces => Self::Pieces,
            FramingArg::Diameter => Self::Diameter,
            FramingArg::M3ua => Self::M3ua,
        }
    }
}
