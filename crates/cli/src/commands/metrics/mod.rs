//! `manypath metrics`: what the stacks of this host do, for Prometheus.
//!
//! A process of its own asks the stacks as `manypath status` does, so that whoever scrapes never
//! reaches the process that carries data.

mod exposition;
mod ledger;
mod server;

use super::stacks;
use crate::failure::Failure;
use clap::Args;
use ledger::Ledger;
use manypath_control::status::StackStatus;
use std::net::SocketAddr;

/// Print metrics for Prometheus, or serve them over HTTP.
///
/// Metrics of all stacks, in the OpenMetrics format. There is no login: bind `--listen` only to an
/// address where everybody may see the peers of this host.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath metrics\n  manypath metrics --listen 127.0.0.1:9898\n  manypath metrics --json | jq '.stacks[].counters'"
)]
pub(crate) struct MetricsArgs {
    /// Serve http://ADDR:PORT/metrics until interrupted, instead of printing once.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "json")]
    listen: Option<SocketAddr>,
    /// Include stacks in other network namespaces.
    #[arg(long)]
    all: bool,
    /// Print one JSON object, the same as `manypath status --json`.
    #[arg(long)]
    json: bool,
}

/// Prints or serves.
pub(crate) fn metrics(args: &MetricsArgs) -> Result<u8, Failure> {
    if let Some(addr) = args.listen {
        return server::serve(addr, args.all);
    }
    let stacks = stacks::query(args.all)?;
    let text = if args.json {
        super::status::json(stacks)?
    } else {
        text(&mut Ledger::default(), &stacks)?
    };
    super::print(text.as_bytes())
}

/// The whole text, as it is at this moment.
fn text(ledger: &mut Ledger, stacks: &[StackStatus]) -> Result<String, Failure> {
    exposition::encode(ledger, stacks).map_err(|_| Failure::new("cannot encode the metrics"))
}
