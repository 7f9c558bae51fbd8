//! What the arguments ask for.

use super::args::{BenchArgs, CaseName, PlaceName};
use crate::failure::Failure;
use manypath_bench::{Direction, Place, Settings, Transport, Workload};
use std::time::Duration;

/// Connections at a time where connects are counted.
const CONNECTS_AT_A_TIME: u32 = 8;

/// A place, or its name, why there is none, and whether the user has asked for it.
type Found = Result<Place, (String, String, bool)>;

/// How to measure.
pub(super) fn settings(args: &BenchArgs) -> Result<Settings, Failure> {
    let positive = |name: &str, number: u32| match number {
        0 => Err(Failure::usage(format!("{name} must be at least 1"))),
        number => Ok(number),
    };
    if args.port > u16::MAX - 3 || args.port == 0 {
        return Err(Failure::usage("--port: four ports from there on are used: 1 to 65532"));
    }
    if args.parallel > 60_000 {
        return Err(Failure::usage("--parallel: at most 60000"));
    }
    positive("--parallel", args.parallel)?;
    Ok(Settings {
        time: seconds("--time", args.time, 0.05)?,
        omit: args.omit.map(|omit| seconds("--omit", omit, 0.0)).transpose()?,
        bytes: args.bytes,
        length: args.length.map(length).transpose()?,
        runs: positive("--runs", args.runs)?,
        port: args.port,
        congestion: args.congestion.clone(),
        interval: seconds("--interval", args.interval.unwrap_or(1.0), 0.05)?,
    })
}

fn seconds(name: &str, value: f64, least: f64) -> Result<Duration, Failure> {
    if !(least..=86_400.0).contains(&value) {
        return Err(Failure::usage(format!("{name}: {least} to 86400 seconds, not {value}")));
    }
    Ok(Duration::from_secs_f64(value))
}

fn length(bytes: u64) -> Result<u32, Failure> {
    let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes <= 1 << 20);
    bytes.ok_or_else(|| Failure::usage("--length: at most 1M"))
}

/// What to do.
pub(super) fn workloads(args: &BenchArgs) -> Vec<Workload> {
    let direction = match (args.reverse, args.bidir) {
        (true, _) => Direction::Down,
        (_, true) => Direction::Both,
        (false, false) => Direction::Up,
    };
    let throughput = |direction| Workload::Throughput { flows: args.parallel, direction };
    let special = args.parallel > 1 || direction != Direction::Up || args.bytes.is_some();
    if args.case.is_empty() && special {
        return vec![throughput(direction)];
    }
    let usual =
        [CaseName::Throughput, CaseName::Latency, CaseName::LatencyLoaded, CaseName::Connects];
    let cases = if args.case.is_empty() { &usual[..] } else { &args.case };
    let workload = |case: &CaseName| match case {
        CaseName::Throughput => throughput(direction),
        CaseName::Reverse => throughput(Direction::Down),
        CaseName::Bidir => throughput(Direction::Both),
        CaseName::Flows1000 => Workload::Throughput { flows: 1000, direction },
        CaseName::Latency => Workload::Latency { loaded: false },
        CaseName::LatencyLoaded => Workload::Latency { loaded: true },
        CaseName::Connects => Workload::Connects { flows: CONNECTS_AT_A_TIME },
    };
    cases.iter().map(workload).collect()
}

/// What to compare.
pub(super) fn transports(args: &BenchArgs) -> Vec<Transport> {
    let asked =
        |transport: &Transport| args.transport.is_empty() || args.transport.contains(transport);
    Transport::ALL.into_iter().filter(asked).collect()
}

/// Where to measure, one after the other: each place is made when it is its turn.
pub(super) fn places(args: &BenchArgs) -> impl Iterator<Item = Found> + '_ {
    let usual = [PlaceName::Loopback, PlaceName::Veth];
    let asked = !args.place.is_empty();
    let names = match (asked, args.lab.is_empty()) {
        (true, _) => args.place.clone(),
        (false, true) => usual.to_vec(),
        (false, false) => Vec::new(),
    };
    let places = names.into_iter().map(move |name| match name {
        PlaceName::Loopback => Ok(Place::loopback()),
        PlaceName::Veth => Place::veth(args.wires, args.mtu)
            .map_err(|e| ("veth".to_owned(), format!("{e}; veth pairs need root"), asked)),
    });
    let lab = (!args.lab.is_empty())
        .then(|| Place::lab("lab", &args.lab).map_err(|e| ("lab".into(), e.to_string(), true)));
    places.chain(lab)
}
