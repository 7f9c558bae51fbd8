//! The options of `manypath gateway`.

use crate::args::EncapsulationArg;
use clap::{Args, ValueEnum};
use manypath_daemon::{Framing, LocalName};
use std::net::IpAddr;
use std::path::PathBuf;

/// Join programs that speak SCTP with programs that speak TCP.
///
/// Each TCP connection is one association of its own. The side that is a PORT alone is where clients
/// come in, the other one is the server: `--sctp PORT --tcp HOST:PORT` leads native SCTP clients to a
/// TCP service, `--tcp PORT --sctp HOST[,HOST]:PORT` TCP clients to a native SCTP server. Several
/// addresses, of this host or of the server, are paths of the same association.
///
/// FIN becomes SHUTDOWN and RST becomes ABORT, and the other way round. SCTP has no half-close: who ends
/// first ends both directions. Bytes travel in order in stream 0; with `--framing` each message of the
/// protocol is one message of SCTP.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath gateway --sctp 3868 --tcp diameter.example:3868 --framing diameter --encapsulation native\n  manypath gateway --tcp 2905 --sctp 192.0.2.1,198.51.100.1:2905 --framing m3ua --json"
)]
pub(crate) struct GatewayArgs {
    /// PORT of this host where SCTP clients come in, or HOST[,HOST]:PORT of the SCTP server.
    #[arg(long, value_name = "PORT|HOST:PORT")]
    pub(crate) sctp: String,
    /// PORT of this host where TCP clients come in, or HOST:PORT of the TCP service.
    #[arg(long, value_name = "PORT|HOST:PORT")]
    pub(crate) tcp: String,
    /// Take TCP clients at these addresses only (default: at all addresses of this host).
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    pub(crate) listen: Vec<IpAddr>,
    /// Use only these local addresses or those of these interfaces for SCTP (default: all addresses of interfaces
    /// that are up; those of tunnels and of bridges without a gateway only for what is routed into them).
    #[arg(long = "local", value_name = "ADDR|INTERFACE", value_delimiter = ',')]
    pub(crate) locals: Vec<LocalName>,
    /// What the bytes of TCP are: pieces of anything, or messages that tell their length.
    #[arg(long, value_enum, value_name = "HOW", default_value = "pieces")]
    pub(crate) framing: FramingArg,
    /// What carries SCTP: UDP (RFC 6951), or nothing: directly over IP, as protocol 132, which needs
    /// root or CAP_NET_RAW.
    #[arg(long, value_enum, value_name = "HOW", default_value = "udp")]
    pub(crate) encapsulation: EncapsulationArg,
    /// Our UDP port (default: 9899 where SCTP clients come in, else any).
    #[arg(long, value_name = "PORT")]
    pub(crate) udp_port: Option<u16>,
    /// UDP port of the SCTP server.
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(crate) peer_udp_port: u16,
    /// Most clients at a time; those beyond it are refused.
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_clients: u32,
    /// Print the state as a line of JSON on standard output, from time to time and at the end.
    #[arg(long)]
    pub(crate) json: bool,
    /// Seconds between two lines of --json.
    #[arg(long, value_name = "S", default_value_t = 10, requires = "json",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) interval: u64,
    /// Say more: every step of a connection.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Where to say it: `stderr`, `journal`, or a file that is added to.
    #[arg(long, value_name = "stderr|journal|FILE")]
    pub(crate) log: Option<PathBuf>,
}

/// What the bytes of TCP are.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FramingArg {
    /// Anything, in pieces as they come, without a payload protocol identifier.
    Pieces,
    /// Diameter messages (RFC 6733): identifier 46.
    Diameter,
    /// M3UA messages (RFC 4666): identifier 3, those of class Transfer in stream 1.
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
