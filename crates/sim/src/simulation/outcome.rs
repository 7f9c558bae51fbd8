//! The figures of a run.

use super::apps::Way;
use super::ceiling;
use super::histogram::Histogram;
use super::ledger::{Ledger, StreamLedger};
use super::session::Session;
use crate::scenario::AppSpec;
use manypath_engine::Instant;

/// Streams that get columns of their own.
const MOST_STREAMS: usize = 64;

/// Part of what the paths could carry at which a change of the network counts as overcome.
const RECOVERED: f64 = 0.95;

/// Percentiles of delays that results have: the part of a column's name, and the share of messages that took no longer.
pub const PERCENTILES: [(&str, f64); 9] = [
    ("p5", 0.05),
    ("p10", 0.1),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p999", 0.999),
];

/// What has come out of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name and value of each figure, in a fixed order; NaN where there is none. Throughputs count
    /// payload delivered to the receiving application in Mbit/s, delays are in ms.
    pub figures: Vec<(String, f64)>,
    /// Stands for every packet of the run: equal if two runs were equal.
    pub trace_hash: u64,
    /// Why the association ended before the run did.
    pub failure: Option<String>,
    /// The time series as CSV, if it was asked for.
    pub series: Option<String>,
    /// The capture (pcapng), if it was asked for.
    pub capture: Option<Vec<u8>>,
    /// Packets sent by both ends.
    pub packets: u64,
    /// Simulated time.
    pub simulated_s: f64,
}

impl Outcome {
    /// The figure with this name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }
}

pub(super) fn figures(session: &Session<'_>) -> Outcome {
    let now = session.network.world.now();
    let ledgers = session.ledgers.each_ref();
    let times = (session.start, session.from, now);
    let mut figures = Figures::default();
    figures.deliveries(&session.scenario.apps, ledgers, times, session.sampler.blocked());
    figures.ceiling(session);
    figures.competitors(session);
    let received = session.network.world.look(session.network.receiver).counters();
    figures.add("duplicates_received", Some(received.duplicate_data as f64));
    let packets = figures.paths(session, now);
    let modules = &session.network.modules;
    figures.out.extend(modules.figures(packets));
    let fault = modules.failure();
    Outcome {
        figures: figures.out,
        trace_hash: session.network.world.trace_hash(),
        failure: session
            .closed
            .as_ref()
            .map(|reason| format!("{reason:?}"))
            .or(fault)
            .or(session.competitors.failure()),
        series: None,
        capture: None,
        packets,
        simulated_s: now.since(Instant::ZERO).as_secs_f64(),
    }
}

/// The names of the figures of a run that may not have begun yet.
pub(super) fn names(session: &Session<'_>) -> Vec<String> {
    let mut all = figures(session).figures;
    let mut answers = Figures::default();
    // A run has these only if an answer came.
    for app in session.scenario.apps.iter().filter(|app| app.kind.is_answered()) {
        answers.delays(&answers_of(app), &[]);
    }
    all.extend(answers.out);
    all.into_iter().map(|(name, _)| name).collect()
}

/// With what the names of the figures of its answers begin.
fn answers_of(app: &AppSpec) -> String {
    format!("{}_answer_", app.name)
}

/// The figures of what was delivered: all of a run's except those of its paths. `ledgers` are those
/// of the way to the receiver and back; `times` are the start of the association and of the
/// measurement, and the end; `blocked` is the part of the time in which the receive window kept a
/// path idle.
pub fn delivery_figures(
    apps: &[AppSpec],
    ledgers: [&Ledger; 2],
    times: (Instant, Instant, Instant),
    blocked: f64,
) -> Vec<(String, f64)> {
    let mut figures = Figures::default();
    figures.deliveries(apps, ledgers, times, blocked);
    figures.out
}

#[derive(Default)]
struct Figures {
    out: Vec<(String, f64)>,
    /// Time measured.
    seconds: f64,
}

impl Figures {
    fn deliveries(
        &mut self,
        apps: &[AppSpec],
        [forth, back]: [&Ledger; 2],
        (start, from, end): (Instant, Instant, Instant),
        blocked: f64,
    ) {
        self.seconds = end.since(from).as_secs_f64();
        self.totals(forth);
        self.add("duration_s", Some(end.since(start).as_secs_f64()));
        self.add("rwnd_blocked", Some(blocked));
        self.apps(apps, forth.streams(), back.streams());
        self.streams(forth.streams());
    }

    fn add(&mut self, name: impl Into<String>, value: Option<f64>) {
        self.out.push((name.into(), value.unwrap_or(f64::NAN)));
    }

    fn mbps(&self, bytes: u64) -> Option<f64> {
        (self.seconds > 0.0).then(|| bytes as f64 * 8.0 / self.seconds / 1e6)
    }

    fn totals(&mut self, ledger: &Ledger) {
        let streams = ledger.streams();
        self.add("throughput_mbps", self.mbps(streams.iter().map(|s| s.bytes).sum()));
        self.delays("", streams);
        let means: Vec<_> = streams.iter().filter_map(|s| s.delays.mean()).collect();
        let of_streams = means.iter().sum::<f64>() / means.len() as f64 / 1e6;
        self.add("stream_delay_ms", (!means.is_empty()).then_some(of_streams));
        self.add("longest_gap_s", Some(ledger.longest_gap().as_secs_f64()));
    }

    /// What the paths could carry, and how long after their last change that is nearly reached.
    fn ceiling(&mut self, session: &Session<'_>) {
        let Session { scenario, from, end, start, .. } = session;
        let (from, end) = (from.since(*start), end.since(*start));
        let bps = ceiling::between(scenario, *start, (from, end));
        self.add("ceiling_mbps", bps.map(|bps| bps / 1e6));
        if let Some(change) = ceiling::last_change(scenario) {
            let forth = &session.ledgers[Way::Forth as usize];
            let after =
                ceiling::between(scenario, *start, (change, end)).map(|bps| bps * RECOVERED);
            self.add("recovery_s", after.and_then(|bits| forth.first_second_with(change, bits)));
        }
    }

    /// What the flows of each table have got together.
    fn competitors(&mut self, session: &Session<'_>) {
        for (table, spec) in session.scenario.competitors.iter().enumerate() {
            let rate = self.mbps(session.competitors.received(table));
            self.add(format!("{}_throughput_mbps", spec.name), rate);
        }
    }

    fn apps(&mut self, apps: &[AppSpec], forth: &[StreamLedger], back: &[StreamLedger]) {
        for app in apps {
            let range = usize::from(app.first_stream)..usize::from(app.first_stream + app.streams);
            let mine = forth.get(range.clone()).unwrap_or_default();
            let answers = back.get(range).unwrap_or_default();
            let rate = self.mbps(mine.iter().map(|s| s.bytes).sum());
            self.add(format!("{}_throughput_mbps", app.name), rate);
            self.delays(&format!("{}_", app.name), mine);
            if answers.iter().any(|stream| stream.delays.count() > 0) {
                self.delays(&answers_of(app), answers);
            }
        }
    }

    fn streams(&mut self, streams: &[StreamLedger]) {
        for (number, stream) in streams.iter().enumerate().take(MOST_STREAMS) {
            self.add(format!("s{number}_throughput_mbps"), self.mbps(stream.bytes));
            self.add(format!("s{number}_delay_ms"), stream.delays.mean().map(|ns| ns / 1e6));
            self.add(format!("s{number}_gap_s"), Some(stream.longest_gap.as_secs_f64()));
        }
    }

    fn delays(&mut self, prefix: &str, streams: &[StreamLedger]) {
        let mut all = Histogram::default();
        streams.iter().for_each(|stream| all.merge(&stream.delays));
        let ms = |nanos: u64| nanos as f64 / 1e6;
        self.add(format!("{prefix}delay_ms"), all.mean().map(|ns| ns / 1e6));
        for (name, share) in PERCENTILES {
            self.add(format!("{prefix}delay_{name}_ms"), all.quantile(share).map(ms));
        }
        self.add(format!("{prefix}delay_max_ms"), all.max().map(ms));
    }

    /// Figures of the paths, over the whole run. Returns the packets that both ends have sent.
    fn paths(&mut self, session: &Session<'_>, now: Instant) -> u64 {
        let network = &session.network;
        let look = network.world.look(network.sender);
        let status = session.associations[0].and_then(|id| look.status(now, id));
        let mut packets = 0;
        for (spec, path) in session.scenario.paths.iter().zip(&network.paths) {
            let state = status.as_ref().and_then(|status| network.status_of(*path, status));
            packets += state.map_or(0, |state| state.packets_sent + state.packets_received);
            let name = &spec.name;
            self.add(format!("{name}_packets_sent"), state.map(|s| s.packets_sent as f64));
            self.add(format!("{name}_fast_retransmits"), state.map(|s| s.fast_retransmits as f64));
            let again = state.map(|s| s.bytes_retransmitted as f64);
            self.add(format!("{name}_bytes_retransmitted"), again);
            self.add(format!("{name}_timeouts"), state.map(|s| s.timeouts as f64));
            let spurious = state.map(|s| s.spurious_retransmits as f64);
            self.add(format!("{name}_spurious_retransmits"), spurious);
            self.add(format!("{name}_tail_probes"), state.map(|s| s.tail_probes as f64));
            self.add(format!("{name}_ecn_reductions"), state.map(|s| s.ecn_reductions as f64));
            self.add(format!("{name}_copies"), state.map(|s| s.copies as f64));
            let link = network.world.link_counters(*path, network.receiver);
            self.add(format!("{name}_dropped_queue"), Some(link.dropped_queue as f64));
            self.add(format!("{name}_dropped_early"), Some(link.dropped_early as f64));
            self.add(format!("{name}_marked"), Some(link.marked as f64));
            self.add(format!("{name}_dropped_loss"), Some(link.dropped_loss as f64));
            let back = network.world.link_counters(*path, network.sender);
            self.add(format!("{name}_bytes_back"), Some(back.bytes_in as f64));
        }
        packets
    }
}
