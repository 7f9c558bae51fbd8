//! What all runs together say: medians and ratios.

use crate::case::{Transport, Workload};
use crate::stage::Run;
use crate::statistics::median;
use crate::usage::{Usage, Used};
use serde::Serialize;
use std::collections::BTreeMap;

const GIB: f64 = (1_u64 << 30) as f64;

/// Everything.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// One for each case and transport.
    pub results: Vec<Row>,
    /// What could not be measured, and why.
    pub skipped: Vec<Skipped>,
}

/// Something that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Place and workload.
    pub case: String,
    /// By which transport; none if the whole case is missing.
    pub transport: Option<Transport>,
    /// Why.
    pub reason: String,
    /// Whether it was tried and has failed, rather than being impossible here.
    pub failed: bool,
}

/// One case over one transport. Figures are medians of the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Place and workload, as `veth/throughput`.
    pub case: String,
    /// Where.
    pub place: String,
    /// What was done.
    pub workload: String,
    /// By what.
    pub transport: Transport,
    /// Connections at a time.
    pub flows: u32,
    /// Payload that arrived, in millions of bits per second.
    pub goodput_mbps: Option<f64>,
    /// Processor seconds of both ends, user and system, for 2^30 bytes of payload.
    pub cpu_s_per_gib: Option<f64>,
    /// Payload bits per processor second of the busier end, in thousands of millions.
    pub gbit_per_busy_cpu_s: Option<f64>,
    /// Name of the field that `ratio` is about.
    pub figure: &'static str,
    /// Median of that field over the median that TCP has in it.
    pub ratio: Option<f64>,
    /// Median of the ratios within each round.
    pub ratio_of_pairs: Option<f64>,
    /// `cpu_s_per_gib` (`cpu_ms_per_connect`) over that of TCP.
    pub cpu_ratio: Option<f64>,
    /// Times to an answer, or of connects: half of them are not longer.
    pub p50_ms: Option<f64>,
    /// 95 of 100.
    pub p95_ms: Option<f64>,
    /// 99 of 100.
    pub p99_ms: Option<f64>,
    /// The longest of a run.
    pub max_ms: Option<f64>,
    /// Connects per second.
    pub connects_per_s: Option<f64>,
    /// Processor milliseconds of both ends for each connect and close.
    pub cpu_ms_per_connect: Option<f64>,
    /// Memory of all processes at the end of a run, in MiB.
    pub memory_mib: Option<f64>,
    /// Who has used the processors: parts of both ends, as `client launcher`, in seconds per run.
    pub cpu_s_of: BTreeMap<String, f64>,
    /// Every run, as it was.
    pub runs: Vec<Run>,
}

impl Row {
    /// Sums up runs. Ratios are left to [`relate`].
    pub(crate) fn new(
        place: &str,
        workload: Workload,
        transport: Transport,
        runs: Vec<Run>,
    ) -> Self {
        let over = |figure: fn(&Run) -> Option<f64>| median(runs.iter().filter_map(figure));
        let is_connects = matches!(workload, Workload::Connects { .. });
        let only = |condition: bool, value: Option<f64>| value.filter(|_| condition);
        let times = |nanos: fn(&Run) -> Option<u64>| {
            median(runs.iter().filter_map(nanos).map(|nanos| nanos as f64 / 1e6))
        };
        Self {
            case: format!("{place}/{}", workload.name()),
            place: place.to_owned(),
            workload: workload.name(),
            transport,
            flows: workload.flows(),
            goodput_mbps: over(goodput),
            cpu_s_per_gib: over(|run| per_gib(run, cpu_s(run))),
            gbit_per_busy_cpu_s: over(busier_end),
            figure: figure(workload),
            ratio: None,
            ratio_of_pairs: None,
            cpu_ratio: None,
            p50_ms: times(|run| Some(run.times?.p50)),
            p95_ms: times(|run| Some(run.times?.p95)),
            p99_ms: times(|run| Some(run.times?.p99)),
            max_ms: times(|run| Some(run.times?.max)),
            connects_per_s: only(is_connects, over(rate)),
            cpu_ms_per_connect: only(is_connects, over(cpu_ms_per_operation)),
            memory_mib: over(memory_mib),
            cpu_s_of: parts(&runs),
            runs,
        }
    }

    /// The value that the ratio is about.
    pub fn value(&self) -> Option<f64> {
        match self.figure {
            "connects_per_s" => self.connects_per_s,
            "p50_ms" => self.p50_ms,
            "p99_ms" => self.p99_ms,
            _ => self.goodput_mbps,
        }
    }

    fn value_of(&self, run: &Run) -> Option<f64> {
        match self.figure {
            "connects_per_s" => rate(run),
            "p50_ms" => run.times.map(|times| times.p50 as f64 / 1e6),
            "p99_ms" => run.times.map(|times| times.p99 as f64 / 1e6),
            _ => goodput(run),
        }
    }

    fn cost(&self) -> Option<f64> {
        self.cpu_ms_per_connect.or(self.cpu_s_per_gib)
    }
}

/// What a workload is about.
fn figure(workload: Workload) -> &'static str {
    match workload {
        Workload::Throughput { .. } => "goodput_mbps",
        Workload::Latency { loaded: false } => "p50_ms",
        Workload::Latency { loaded: true } => "p99_ms",
        Workload::Connects { .. } => "connects_per_s",
    }
}

/// Computes the ratios of the rows of one case to TCP, or where that is not measured to the first.
pub(crate) fn relate(rows: &mut [Row]) {
    let base = rows.iter().position(|row| row.transport == Transport::Tcp).unwrap_or(0);
    let Some(base) = rows.get(base).cloned() else { return };
    for row in rows {
        let of = |value: Option<f64>, base: Option<f64>| Some(value? / base?);
        row.ratio = of(row.value(), base.value());
        row.cpu_ratio = of(row.cost(), base.cost());
        let pairs = row.runs.iter().zip(&base.runs);
        let ratios = pairs.filter_map(|(run, other)| of(row.value_of(run), base.value_of(other)));
        row.ratio_of_pairs = median(ratios);
    }
}

fn goodput(run: &Run) -> Option<f64> {
    (run.bytes > 0 && run.seconds > 0.0).then(|| run.bytes as f64 * 8e-6 / run.seconds)
}

fn cpu_s(run: &Run) -> f64 {
    run.client.cpu_s() + run.server.cpu_s()
}

fn per_gib(run: &Run, seconds: f64) -> Option<f64> {
    (run.bytes > 0).then(|| seconds / (run.bytes as f64 / GIB))
}

fn busier_end(run: &Run) -> Option<f64> {
    let busier = run.client.cpu_s().max(run.server.cpu_s());
    (busier > 0.0 && run.bytes > 0).then(|| run.bytes as f64 * 8e-9 / busier)
}

fn rate(run: &Run) -> Option<f64> {
    (run.seconds > 0.0).then(|| run.operations as f64 / run.seconds)
}

fn cpu_ms_per_operation(run: &Run) -> Option<f64> {
    (run.operations > 0).then(|| cpu_s(run) * 1e3 / run.operations as f64)
}

fn memory_mib(run: &Run) -> Option<f64> {
    let memory = run.client.memory() + run.server.memory();
    (memory > 0).then(|| memory as f64 / f64::from(1 << 20))
}

/// Medians of the processor time of each part.
fn parts(runs: &[Run]) -> BTreeMap<String, f64> {
    let of = |run: &Run| {
        let named = |end: &'static str, usage: &Usage| {
            let name = move |(kind, used): (&String, &Used)| (format!("{end} {kind}"), used.cpu_s);
            usage.0.iter().map(name).collect::<Vec<_>>()
        };
        [named("client", &run.client), named("server", &run.server)].concat()
    };
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, cpu_s) in runs.iter().flat_map(of) {
        all.entry(name).or_default().push(cpu_s);
    }
    all.into_iter().filter_map(|(name, values)| Some((name, median(values)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Direction;
    use crate::job::Times;

    const THROUGHPUT: Workload = Workload::Throughput { flows: 1, direction: Direction::Up };

    fn used(cpu_s: f64) -> Usage {
        Usage([("program".to_owned(), Used { cpu_s, user_s: 0.0, memory: 1 << 20 })].into())
    }

    fn run(mbit: u64, client: f64, server: f64) -> Run {
        let bytes = mbit * 125_000;
        Run { seconds: 1.0, bytes, client: used(client), server: used(server), ..Run::default() }
    }

    fn row(transport: Transport, mbits: [u64; 3]) -> Row {
        let runs = mbits.map(|mbit| run(mbit, 0.5, 0.25)).to_vec();
        Row::new("veth", THROUGHPUT, transport, runs)
    }

    #[test]
    fn figures_are_medians_and_ratios_are_those_of_medians() {
        let mut rows = [row(Transport::Manypath, [50, 10, 40]), row(Transport::Tcp, [80, 90, 100])];
        relate(&mut rows);
        assert_eq!(rows[0].goodput_mbps, Some(40.0));
        assert_eq!(rows[0].ratio, Some(40.0 / 90.0));
        assert_eq!(rows[0].ratio_of_pairs, Some(0.4), "the median of 50/80, 10/90 and 40/100");
        assert_eq!(rows[1].ratio, Some(1.0));
        assert_eq!((rows[0].case.as_str(), rows[0].figure), ("veth/throughput", "goodput_mbps"));
    }

    #[test]
    fn the_cost_is_that_of_both_ends() {
        let runs = vec![run(8590, 0.5, 0.25)];
        let row = Row::new("veth", THROUGHPUT, Transport::Tcp, runs);
        // 8590 Mbit are a GiB.
        assert!((row.cpu_s_per_gib.unwrap() - 0.75).abs() < 1e-3);
        assert!((row.gbit_per_busy_cpu_s.unwrap() - 17.18).abs() < 1e-9);
        assert_eq!(row.cpu_s_of["client program"], 0.5);
        assert_eq!(row.memory_mib, Some(2.0));
    }

    #[test]
    fn connects_are_counted_per_second() {
        let times = Times { count: 100, p50: 2_000_000, p95: 0, p99: 0, max: 0 };
        let runs = vec![Run {
            seconds: 2.0,
            operations: 100,
            client: used(0.1),
            times: Some(times),
            ..Run::default()
        }];
        let row = Row::new("veth", Workload::Connects { flows: 8 }, Transport::Tcp, runs);
        assert_eq!((row.connects_per_s, row.cpu_ms_per_connect), (Some(50.0), Some(1.0)));
        assert_eq!((row.p50_ms, row.goodput_mbps), (Some(2.0), None));
    }
}
