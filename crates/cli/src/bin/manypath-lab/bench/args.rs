//! Arguments of `manypath-lab bench`.

use clap::{Args, ValueEnum};
use manypath_bench::Transport;
use std::net::IpAddr;
use std::path::PathBuf;

/// Measure throughput, latency, connection rate and CPU time, beside TCP, MPTCP and others.
///
/// Without -c and -s both ends are on this machine: on loopback and, as root, on two hosts in
/// namespaces joined by a veth pair or by emulated paths. Transports take turns; results are
/// medians, and ratios to TCP. CPU time is that of all processes at both ends.
///
/// -c and -s measure between two hosts, like iperf3; -c, -s, -p, -t, -n, -P, -R, -l, -i, -O, -J and
/// --bidir have the meaning they have there.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath-lab bench\n  manypath-lab bench --place veth --case throughput --transport tcp,manypath -t 5\n  manypath-lab bench --lab 'rate=500mbit,delay=40ms' --case throughput --output target/bench\n  manypath-lab bench -s                      # on one host\n  manypath-lab bench -c server.example -R    # on another\n  manypath-lab bench --json | jq '.results[] | [.case, .transport, .goodput_mbps, .ratio]'"
)]
pub(crate) struct BenchArgs {
    /// Serve clients on other hosts, until Ctrl-C.
    ///
    /// Anybody who can reach the port can use the sources and sinks on the three ports above it.
    #[arg(short, long, conflicts_with_all = ["client", "place", "lab"])]
    pub(crate) server: bool,
    /// Measure to this host, which runs `manypath-lab bench -s`.
    #[arg(short, long, value_name = "HOST", conflicts_with_all = ["place", "lab"])]
    pub(crate) client: Option<String>,
    /// Listen on this address only (with -s).
    #[arg(short = 'B', long, value_name = "ADDR", requires = "server")]
    pub(crate) bind: Option<IpAddr>,
    /// Exit after the first client (with -s).
    #[arg(short = '1', long, requires = "server")]
    pub(crate) one_off: bool,
    /// First of four ports: control (TCP), two services (TCP, UDP), the server's manypath (UDP).
    #[arg(short, long, value_name = "PORT", default_value_t = 5201)]
    pub(crate) port: u16,
    /// Where to measure on this machine (default: loopback, and veth as root; none with --lab).
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) place: Vec<PlaceName>,
    /// Measure across an emulated path, in the syntax of `manypath-lab up --path`; repeat for hosts
    /// with several paths. Needs root or user namespaces.
    #[arg(long, value_name = "SPEC")]
    pub(crate) lab: Vec<String>,
    /// What to measure (default: throughput, latency, latency-loaded, connects; with -P, -R or
    /// --bidir, that kind of throughput).
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) case: Vec<CaseName>,
    /// Transports to compare (default: all available).
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = transport,
          help = "What to compare: tcp, mptcp, manypath, association, encrypted, udp, iperf3 (default: all)")]
    pub(crate) transport: Vec<Transport>,
    /// Number of rounds; each transport runs once per round.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) runs: u32,
    /// Seconds to measure in each run.
    #[arg(short, long, value_name = "S", default_value_t = 2.0)]
    pub(crate) time: f64,
    /// Bytes to transfer in each run instead, such as 500M or 2G (K, M, G: powers of 1024).
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = size, conflicts_with = "time")]
    pub(crate) bytes: Option<u64>,
    /// Seconds to omit at the start of each run (default: 0.3 and ten round trips).
    #[arg(short = 'O', long, value_name = "S")]
    pub(crate) omit: Option<f64>,
    /// Number of parallel connections.
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1)]
    pub(crate) parallel: u32,
    /// Send from the server to the client.
    #[arg(short = 'R', long)]
    pub(crate) reverse: bool,
    /// Send in both directions at once.
    #[arg(long, conflicts_with = "reverse")]
    pub(crate) bidir: bool,
    /// Bytes per write or message (default: 128K; 16K for associations).
    #[arg(short, long, value_name = "BYTES", value_parser = size)]
    pub(crate) length: Option<u64>,
    /// Seconds between reports of each run.
    #[arg(short, long, value_name = "S")]
    pub(crate) interval: Option<f64>,
    /// Congestion control of TCP and MPTCP.
    #[arg(short = 'C', long, value_name = "NAME", default_value = "cubic")]
    pub(crate) congestion: String,
    /// Number of veth pairs between the hosts.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) wires: usize,
    /// Largest IP packet on veth, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    pub(crate) mtu: u32,
    /// Output directory for table, chart (SVG) and JSON.
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object with `results`, and `start`, `intervals` and `end` as in iperf3.
    #[arg(short = 'J', long)]
    pub(crate) json: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlaceName {
    /// The loopback interface.
    Loopback,
    /// Two hosts in namespaces joined by veth pairs: root.
    Veth,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CaseName {
    /// Bytes per second, from client to server.
    Throughput,
    /// From server to client.
    Reverse,
    /// Both ways at once.
    Bidir,
    /// 1000 connections at once.
    #[value(name = "flows-1000")]
    Flows1000,
    /// Request and response, on idle paths.
    Latency,
    /// Request and response beside a bulk transfer.
    LatencyLoaded,
    /// Connects per second, 8 at a time.
    Connects,
}

/// Hidden: one program of a measurement.
#[derive(Args, Debug)]
pub(crate) struct BenchWorkerArgs {
    /// What to do, as JSON.
    pub(crate) job: String,
}

/// Hidden: ends the programs of a measurement that was killed.
#[derive(Args, Debug)]
pub(crate) struct BenchGuardArgs {
    /// What they are marked with.
    pub(crate) mark: String,
}

fn transport(text: &str) -> Result<Transport, String> {
    let known = Transport::ALL.into_iter().find(|transport| transport.name() == text);
    known.ok_or_else(|| {
        let names: Vec<_> = Transport::ALL.iter().map(|transport| transport.name()).collect();
        format!("use {}", names.join(", "))
    })
}

/// "1500", "128K", "2M", "1G".
fn size(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err("use a number like 1500, 128K, 2M or 1G".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "use a number like 1500 or 128K".to_owned())?;
    match number.checked_mul(1 << shift) {
        Some(bytes) if bytes > 0 => Ok(bytes),
        Some(_) | None => Err("out of range".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_for_iperf3() {
        assert_eq!(size("1500"), Ok(1500));
        assert_eq!(size("128K"), Ok(131_072));
        assert_eq!(size("2g"), Ok(2 << 30));
        for wrong in ["", "K", "0", "1.5M", "12x", "99999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn transports_have_names() {
        assert_eq!(transport("mptcp"), Ok(Transport::Mptcp));
        assert!(transport("quic").is_err_and(|why| why.contains("association")));
    }
}
