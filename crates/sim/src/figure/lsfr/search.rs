//! For which delays, queues, windows and senders the published order holds: all set-ups that were tried.

use super::setup::{LSFR, NO_LS, NO_LSFR, mean};
use crate::campaign::{Record, summarise};
use crate::figure::curves::Runs;
use crate::figure::plot::{Chart, Curve, Panel, Point};
use crate::figure::verdict::Criterion;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The sender of the class of set-ups that is declared: windows grow by the cumulative TSN alone, and the
/// association recovers as a whole.
const SENDER: &str = "windows by cumulative TSN";
/// What the set-ups are counted by: all three conditions hold, two of them, fewer.
const SORTS: [(usize, &str); 3] =
    [(3, "all three hold"), (5, "two of them"), (7, "one of them or none")];

/// A set-up, in the order of the table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct SetUp {
    sender: String,
    /// Receive window and send buffer.
    kib: u64,
    /// One-way delays of the primary and the other path in ms.
    delays: [u64; 2],
    /// Packets.
    queue: u64,
}

/// Mean times of 5 MB in seconds, and ratios of pairs of runs with the same seed.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    lsfr: f64,
    no_lsfr: f64,
    none: f64,
    /// With LSFR / without.
    gain: f64,
    /// Without LSFR / no load sharing.
    harm: f64,
    /// No load sharing / LSFR.
    speed_up: f64,
}

impl SetUp {
    fn of(record: &Record) -> Option<Self> {
        let number = |name: &str| record.parameter(name)?.parse::<f64>().ok();
        let delay = |name: &str| Some((number(name)? * 1e3).round() as u64);
        Some(Self {
            sender: record.setup.clone(),
            kib: (number("engine.buffer")? / 1024.0) as u64,
            delays: [delay("path.A.delay")?, delay("path.B.delay")?],
            queue: number("path.A.queue")? as u64,
        })
    }

    /// Whether it is of the declared class.
    fn is_declared(&self) -> bool {
        let [a, b] = self.delays;
        self.sender == SENDER
            && a == b
            && (15..=25).contains(&a)
            && (8..=12).contains(&self.queue)
            && (48..=1024).contains(&self.kib)
    }
}

impl Outcome {
    fn of(runs: &[&Record]) -> Self {
        let all = |case: &'static str| runs.iter().filter(move |run| run.case == case);
        let time = |run: &Record| run.figure("duration_s");
        let seconds = |case| mean(summarise(all(case).map(|run| time(run))));
        let ratio = |a, b| {
            let pairs = all(a).filter_map(|one| {
                let other = all(b).find(|other| other.seed == one.seed)?;
                Some(time(one) / time(other))
            });
            mean(summarise(pairs))
        };
        Self {
            lsfr: seconds(LSFR),
            no_lsfr: seconds(NO_LSFR),
            none: seconds(NO_LS),
            gain: ratio(LSFR, NO_LSFR),
            harm: ratio(NO_LSFR, NO_LS),
            speed_up: ratio(NO_LS, LSFR),
        }
    }

    /// How many of the conditions hold: the ratio of Table 3, the order, and the speed-up.
    fn holding(self) -> usize {
        let order = self.speed_up > 1.0 && self.harm > 1.0;
        [self.gain <= 0.6, order, self.speed_up >= 1.8].into_iter().filter(|holds| *holds).count()
    }

    /// Place in [`SORTS`].
    fn sort(self) -> usize {
        3 - self.holding().max(1)
    }
}

fn outcomes(runs: &Runs<'_>) -> BTreeMap<SetUp, Outcome> {
    let mut by_set_up: BTreeMap<SetUp, Vec<&Record>> = BTreeMap::new();
    for record in runs.all() {
        if let Some(set_up) = SetUp::of(record) {
            by_set_up.entry(set_up).or_default().push(record);
        }
    }
    by_set_up.into_iter().map(|(set_up, runs)| (set_up, Outcome::of(&runs))).collect()
}

/// A map for each sender and window: the paths from left to right, the queue upwards.
pub(super) fn draw(runs: &Runs<'_>) -> Chart {
    let outcomes = outcomes(runs);
    let sorted = |values: Vec<SetUp>| -> Vec<SetUp> {
        let mut values = values;
        values.sort();
        values.dedup();
        values
    };
    let maps = sorted(
        outcomes.keys().map(|it| SetUp { delays: [0; 2], queue: 0, ..it.clone() }).collect(),
    );
    let mut delays: Vec<[u64; 2]> = outcomes.keys().map(|it| it.delays).collect();
    // Equal delays first.
    delays.sort_by_key(|[a, b]| (a != b, *a, *b));
    delays.dedup();
    let panel = |map: &SetUp| {
        let here = |it: &SetUp| it.sender == map.sender && it.kib == map.kib;
        let curve = |(sort, (number, name)): (usize, (usize, &str))| {
            let chosen = outcomes.iter().filter(|(it, o)| here(it) && o.sort() == sort);
            let point = |(it, _): (&SetUp, _)| {
                let x = delays.iter().position(|delays| *delays == it.delays)? as f64;
                Some(Point { x, y: it.queue as f64, error: 0.0, count: 1 })
            };
            Curve { number, name: name.to_owned(), points: chosen.filter_map(point).collect() }
        };
        Panel {
            title: format!("{} KiB, {}", map.kib, map.sender),
            x_label: "Delays of both paths [ms]".into(),
            y_label: "Queue [packets]".into(),
            curves: SORTS.into_iter().enumerate().map(curve).collect(),
            groups: delays.iter().map(|[a, b]| format!("{a}/{b}")).collect(),
            dots: true,
            ..Panel::default()
        }
    };
    let title =
        "Where LSFR / no LSFR ≤ 0.6, LSFR < no load sharing < no LSFR, speed-up ≥ 1.8".into();
    Chart { title, panels: maps.iter().map(panel).collect() }
}

/// Each set-up in which all three conditions hold, and each of the declared class.
pub(super) fn details(runs: &Runs<'_>) -> String {
    let outcomes = outcomes(runs);
    let mut out = format!(
        "{} set-ups were tried. These are the ones in which all three conditions hold, and all of the declared class. \
         Times of 5 MB in s.\n\n\
         | sender | window | delays | queue | class | LSFR | no LSFR | no load sharing | LSFR / no LSFR | no LSFR / none | speed-up | hold |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
        outcomes.len()
    );
    for (it, o) in outcomes.iter().filter(|(it, o)| it.is_declared() || o.holding() == 3) {
        let (SetUp { sender, kib, delays: [a, b], queue }, class) =
            (it, if it.is_declared() { "yes" } else { "" });
        // Memory takes everything.
        let _ = writeln!(
            out,
            "| {sender} | {kib} KiB | {a}/{b} ms | {queue} | {class} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {} of 3 |",
            o.lsfr,
            o.no_lsfr,
            o.none,
            o.gain,
            o.harm,
            o.speed_up,
            o.holding()
        );
    }
    out
}

/// How often all three conditions hold in the class, window by window, and elsewhere.
pub(super) fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    let outcomes = outcomes(runs);
    let count = |chosen: &dyn Fn(&SetUp) -> bool| {
        let all = || outcomes.iter().filter(|(it, _)| chosen(it));
        (all().filter(|(_, o)| o.holding() == 3).count(), all().count())
    };
    let mut windows: Vec<u64> =
        outcomes.keys().filter(|it| it.is_declared()).map(|it| it.kib).collect();
    windows.sort_unstable();
    windows.dedup();
    let criterion = |what: String, (some, all): (usize, usize), tolerance: &str, met: bool| {
        let published = "14.4 < 28.2 < 52.8 s; 0.27; 1.95";
        Criterion::new(what, published, format!("in {some} of {all} set-ups"), tolerance, met)
    };
    let mut out: Vec<Criterion> = windows
        .into_iter()
        .map(|kib| {
            let (some, all) = count(&|it| it.is_declared() && it.kib == kib);
            let what = format!("declared class, window of {kib} KiB: all three conditions hold");
            criterion(what, (some, all), "in more than half", 2 * some > all)
        })
        .collect();
    let class = count(&SetUp::is_declared);
    let others = count(&|it| !it.is_declared());
    let part = |(some, all): (usize, usize)| some as f64 / all as f64;
    out.push(criterion(
        "declared class as a whole".into(),
        class,
        "in more than half",
        part(class) > 0.5,
    ));
    out.push(criterion(
        "all other set-ups".into(),
        others,
        "in a smaller part than of the class",
        part(others) < part(class),
    ));
    out
}
