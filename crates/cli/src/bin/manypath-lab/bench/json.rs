//! The results as JSON: ours, and beside them what iperf3's users look for.

use super::Report;
use super::args::BenchArgs;
use manypath_bench::{Interval, Pinned, Row, Run, Transport};
use serde_json::{Map, Value, json};

/// The object that `--json` prints.
pub(super) fn object(report: &Report, args: &BenchArgs) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("command", report.command.clone().into());
    put("version", env!("CARGO_PKG_VERSION").into());
    put("commit", option_env!("MANYPATH_COMMIT").into());
    put("places", report.places.clone().into());
    put("congestion_control", args.congestion.clone().into());
    let pinned: Vec<_> = report.pinned.iter().map(|pinned| pinned.name()).collect();
    put("congestion_control_pinned_on", pinned.into());
    put("system_congestion_control", Pinned::default_of_system().into());
    put("baseline", Transport::Tcp.name().into());
    put("results", json!(report.results.results));
    put("skipped", json!(report.results.skipped));
    if let Some((row, run)) = main_run(report) {
        put("start", start(args, row));
        put("intervals", run.intervals.iter().map(interval).collect());
        put("end", end(run));
    }
    Value::Object(object)
}

/// The run that is told as iperf3 would: the last one of the main transport's first throughput case.
fn main_run(report: &Report) -> Option<(&Row, &Run)> {
    let transport = report.main_transport()?;
    let rows = report.results.results.iter();
    let row =
        rows.filter(|row| row.transport == transport).find(|row| row.figure == "goodput_mbps")?;
    Some((row, row.runs.last()?))
}

fn start(args: &BenchArgs, row: &Row) -> Value {
    json!({
        "version": format!("manypath {}", env!("CARGO_PKG_VERSION")),
        "connecting_to": { "host": args.client, "port": args.port },
        "test_start": {
            "protocol": row.transport.name(),
            "num_streams": row.flows,
            "duration": args.time,
            "bytes": args.bytes.unwrap_or(0),
            "reverse": u8::from(args.reverse),
            "bidir": u8::from(args.bidir),
        },
    })
}

fn interval(interval: &Interval) -> Value {
    json!({ "streams": [], "sum": sum(interval.start, interval.end, interval.bytes) })
}

fn end(run: &Run) -> Value {
    let sum = sum(0.0, run.seconds, run.bytes);
    let percent = |cpu_s: f64| cpu_s / run.seconds.max(1e-9) * 100.0;
    json!({
        "streams": [],
        // What arrived is all that counts here: what is still under way was not delivered.
        "sum_sent": sum,
        "sum_received": sum,
        "cpu_utilization_percent": {
            "host_total": percent(run.client.cpu_s()),
            "remote_total": percent(run.server.cpu_s()),
        },
    })
}

fn sum(start: f64, end: f64, bytes: u64) -> Value {
    let seconds = end - start;
    json!({
        "start": start,
        "end": end,
        "seconds": seconds,
        "bytes": bytes,
        "bits_per_second": bytes as f64 * 8.0 / seconds.max(1e-9),
    })
}
