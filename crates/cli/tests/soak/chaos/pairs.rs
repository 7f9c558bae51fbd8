//! Transfers in pairs: the same one through manypath and by plain TCP, at the same moment.

use super::faults::Fault;
use crate::dice::Dice;
use crate::hosts::Hosts;
use crate::ledger::{Carrier, Failure};
use crate::transfers::Transfer;
use crate::workers::Foreman;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// After the end of a fault, failures may still be its.
const AFTERMATH: Duration = Duration::from_secs(8);
const BREATH: Duration = Duration::from_millis(50);

struct Pair {
    carrier: Carrier,
    what: String,
    begun: Instant,
    ended: Instant,
    ours: Result<u64, Failure>,
    tcp: Result<u64, Failure>,
}

struct Happened {
    kind: &'static str,
    what: String,
    kills: bool,
    begun: Instant,
    mended: Option<Instant>,
}

#[derive(Default)]
pub(super) struct Pairs {
    all: Mutex<Vec<Pair>>,
    faults: Mutex<Vec<Happened>>,
}

fn hung(result: &Result<u64, Failure>) -> bool {
    matches!(result, Err(Failure::Wrong(said)) if said.starts_with("it hung"))
}

fn damaged(result: &Result<u64, Failure>) -> bool {
    matches!(result, Err(Failure::Wrong(_))) && !hung(result)
}

impl Pairs {
    /// Called just before a fault begins.
    pub(super) fn begin(&self, fault: &Fault) {
        let Fault { kind, what, kills, .. } = fault;
        let (what, begun) = (what.clone(), Instant::now());
        let happened = Happened { kind, what, kills: *kills, begun, mended: None };
        self.faults.lock().expect("no worker panics").push(happened);
    }

    pub(super) fn mended(&self) {
        if let Some(last) = self.faults.lock().expect("no worker panics").last_mut() {
            last.mended = Some(Instant::now());
        }
    }

    pub(super) fn progress(&self) -> String {
        let all = self.all.lock().expect("no worker panics");
        let failed = |of: fn(&Pair) -> bool| all.iter().filter(|pair| of(pair)).count();
        let (ours, tcp) = (failed(|pair| pair.ours.is_err()), failed(|pair| pair.tcp.is_err()));
        format!("{} pairs, failed: manypath {ours}, TCP {tcp}", all.len())
    }

    pub(super) fn work(
        &self,
        hosts: &Hosts,
        foreman: &Foreman,
        worker: usize,
        mut dice: Dice,
        carriers: &[Carrier],
    ) {
        let dirs = ["ours", "tcp"].map(|name| hosts.site.dir.join(format!("{name}-{worker}")));
        for dir in &dirs {
            std::fs::create_dir_all(dir).expect("a folder");
        }
        while foreman.begin() {
            let carrier = *dice.pick(carriers);
            let seed = dice.next();
            let transfer = |carrier, dir| {
                let dice = &mut Dice::new(seed, 0);
                Transfer { hosts, worker, carrier, dir, dice }.comparable()
            };
            let begun = Instant::now();
            let ((_, what, ours), (_, _, tcp)) = std::thread::scope(|scope| {
                let tcp = scope.spawn(|| transfer(Carrier::Plain, &dirs[1]));
                (transfer(carrier, &dirs[0]), tcp.join().expect("a transfer"))
            });
            let pair = Pair { carrier, what, begun, ended: Instant::now(), ours, tcp };
            self.all.lock().expect("no worker panics").push(pair);
            foreman.finish();
            std::thread::sleep(BREATH);
        }
    }

    /// What was found.
    pub(super) fn summary(&self, origin: Instant) -> Value {
        let (all, faults) = (self.all.lock().expect("ended"), self.faults.lock().expect("ended"));
        let lines = |of: &dyn Fn(&Pair) -> bool| -> Vec<String> {
            let those = all.iter().filter(|pair| of(pair));
            those.map(|pair| pair.describe(&pair.meanwhile(&faults), origin)).collect()
        };
        let count = |of: &dyn Fn(&Pair) -> bool| all.iter().filter(|pair| of(pair)).count();
        let killed = |pair: &Pair| pair.meanwhile(&faults).iter().any(|one| one.kills);
        let lost = |pair: &Pair| pair.ours.is_err() && pair.tcp.is_ok();
        let bytes: u64 = all.iter().filter_map(|pair| pair.ours.as_ref().ok()).sum();
        json!({
            "pairs": all.len(), "bytes": bytes, "faults": by_kind(&all, &faults),
            "both_failed": count(&|pair| pair.ours.is_err() && pair.tcp.is_err()),
            "tcp_alone_failed": count(&|pair| pair.ours.is_ok() && pair.tcp.is_err()),
            "failed_with_a_killed_process": count(&|pair| lost(pair) && killed(pair)),
            "corruptions": lines(&|pair| damaged(&pair.ours)),
            "hangs": lines(&|pair| hung(&pair.ours) && !hung(&pair.tcp)),
            "survived_by_tcp_alone": lines(&|pair| lost(pair) && !killed(pair)),
        })
    }
}

impl Pair {
    /// The faults that may have concerned it.
    fn meanwhile<'a>(&self, faults: &'a [Happened]) -> Vec<&'a Happened> {
        let still = |one: &&Happened| {
            let mended = one.mended.unwrap_or(self.ended);
            one.begun <= self.ended && mended + AFTERMATH >= self.begun
        };
        faults.iter().filter(still).collect()
    }

    fn describe(&self, meanwhile: &[&Happened], origin: Instant) -> String {
        let Self { carrier, what, begun, ended, ours, tcp } = self;
        let (at, took) = ((*begun - origin).as_secs_f64(), *ended - *begun);
        let since =
            |one: &&Happened| format!("{:.1} s {}", (one.begun - origin).as_secs_f64(), one.what);
        let causes: Vec<String> = meanwhile.iter().map(since).collect();
        format!("{at:.1} s {carrier:?} {what}, {took:?}: {ours:?}, TCP {tcp:?}; {causes:?}")
    }
}

/// How often each kind of fault came, and the failures meanwhile. A failure counts for each fault of its time.
fn by_kind(all: &[Pair], faults: &[Happened]) -> Value {
    let mut kinds: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for one in faults {
        kinds.entry(one.kind).or_default()[0] += 1;
    }
    for pair in all {
        for one in pair.meanwhile(faults) {
            let row = kinds.entry(one.kind).or_default();
            row[1] += usize::from(pair.ours.is_err());
            row[2] += usize::from(pair.tcp.is_err());
        }
    }
    let row = |(kind, [times, ours, tcp]): (&str, [usize; 3])| {
        let row = json!({ "times": times, "manypath_failed": ours, "tcp_failed": tcp });
        (kind.to_owned(), row)
    };
    Value::Object(kinds.into_iter().map(row).collect())
}
