//! The command line of `manypath doctor`.

use clap::Args;

/// Find out what keeps paths to a host from being used, and say how to mend it.
///
/// Asks HOST over each local address whether SCTP gets there (an INIT, which costs the peer no memory), how
/// large packets may be, and whether NATs, firewalls, routes, rules or policies are in the way. With a
/// PORT it also makes a connection to that service, as `manypath run` would. As root it sees
/// more: answers that this host drops, and which chain of the firewall does it.
///
/// Exit status: 0 all is well, 1 something is wrong, 2 wrong arguments.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath doctor server.example\n  manypath doctor server.example:22\n  manypath doctor --nat server.example\n  manypath doctor server.example --json | jq -r '.causes[].command'"
)]
pub(crate) struct DoctorArgs {
    /// The peer, as HOST, HOST:PORT or [IPv6]:PORT; PORT is the TCP port of a service there.
    #[arg(value_name = "HOST[:PORT]")]
    pub(crate) host: String,
    /// UDP port of the peer's manypath (RFC 6951), for services at ports above 1023.
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(crate) peer_port: u16,
    /// Measure how long NATs keep a mapping that is not used, too: two minutes at most.
    #[arg(long)]
    pub(crate) nat: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
