//! The command line of `manypath doctor`.

use clap::Args;
use std::path::PathBuf;

/// Check this machine or the paths to a host, and show how to fix them.
///
/// Without HOST: whether programs under `manypath run` are carried here, which addresses are used
/// and why, and whether the files of rules, settings and path policies are valid.
///
/// Probes HOST from each local address: whether SCTP gets there (with an INIT, which costs the peer
/// no memory), the path MTU, and whether NATs, firewalls, routes, rules or policies are in the way.
/// With a PORT it also connects to that service, as `manypath run` would. As root it also finds
/// answers that this host drops, and the firewall chain that drops them.
///
/// Exit status: 0 if all is well, 1 if something is wrong, 2 for wrong arguments.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath doctor\n  manypath doctor server.example\n  manypath doctor server.example:22\n  manypath doctor --nat server.example\n  manypath doctor --speed server.example --svg speed.svg\n  manypath doctor server.example --json | jq -r '.causes[].command'"
)]
pub(crate) struct DoctorArgs {
    /// Peer, as HOST, HOST:PORT or [IPv6]:PORT; PORT is the TCP port of a service there.
    #[arg(value_name = "HOST[:PORT]")]
    pub(crate) host: Option<String>,
    /// UDP port of the peer's manypath (RFC 6951), for services on ports above 1023.
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(crate) peer_port: u16,
    /// Also measure how long NATs keep an idle mapping (two minutes at most).
    #[arg(long, requires = "host")]
    pub(crate) nat: bool,
    /// Measure how fast each uplink is to HOST, and all of them together, and what limits them. HOST
    /// allows that to hosts in its --authorized file, and to those for whom a rule opens TCP port 9899. Each uplink
    /// carries as much as it can for twice --seconds.
    #[arg(long, requires = "host", conflicts_with = "nat")]
    pub(crate) speed: bool,
    /// With --speed: how long to measure in each direction.
    #[arg(long, requires = "speed", value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=20))]
    pub(crate) seconds: u64,
    /// With --speed: also draw a picture.
    #[arg(long, requires = "speed", value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
