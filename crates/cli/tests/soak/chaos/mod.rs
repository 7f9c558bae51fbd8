//! Faults of the network and of processes, with plain TCP beside manypath: the same transfers at the same moment.
//! `docs/soak.md` has what is demanded.

mod faults;
mod ground;
mod pairs;
mod processes;
mod witness;

use crate::soak::dice::Dice;
use crate::soak::hosts::{Daemons, Hosts, stacks};
use crate::soak::ledger::Scope;
use crate::soak::vitals::Vitals;
use crate::soak::workers::{Foreman, Whistle};
use crate::soak::{clock_seed, number, vitals};
use faults::{Course, Fault};
use ground::Ground;
use manypath_lab::{Change, Host};
use pairs::Pairs;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use witness::Witness;

/// Bits per second of the three paths: low, so that a busy machine does not matter.
const RATES: [(&str, u64); 3] = [("A", 8_000_000), ("B", 4_000_000), ("C", 3_000_000)];
const PAIRS_AT_ONCE: usize = 3;
/// Beginning of the associations, before the first look at what daemons use.
const WARM_UP: Duration = Duration::from_secs(5);
/// What no piece may have.
const FAULTS: [&str; 6] =
    ["corruptions", "hangs", "survived_by_tcp_alone", "open_at_the_end", "would_not_end", "grown"];

/// A few faults: nothing is damaged, and nothing hangs.
#[test]
#[ignore = "half a minute of faults: make test-full"]
fn a_short_chaos_loses_nothing() {
    let piece = run(Duration::from_secs(12), 1, 0);
    for kind in FAULTS {
        assert_eq!(piece[kind], json!([]), "{kind}: {piece:#}");
    }
    assert!(piece["pairs"].as_u64() > Some(0), "{piece:#}");
}

/// `MANYPATH_CHAOS_SECONDS` (600), `MANYPATH_CHAOS_SEED`, and `MANYPATH_CHAOS_STATE`: a file to which each piece
/// is added, so that the next run goes on with other faults of the same seed.
#[test]
#[ignore = "takes minutes to hours: make soak"]
fn chaos() {
    let state = std::env::var_os("MANYPATH_CHAOS_STATE").map(PathBuf::from);
    let text = state.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    let mut pieces: Vec<Value> =
        text.map_or_else(Vec::new, |text| serde_json::from_str(&text).expect("pieces"));
    let seed = pieces.first().and_then(|piece| piece["seed"].as_u64());
    let seed = seed.unwrap_or_else(|| number("MANYPATH_CHAOS_SEED", clock_seed()));
    let time = Duration::from_secs(number("MANYPATH_CHAOS_SECONDS", 600));
    let last = run(time, seed, pieces.len() as u64);
    println!("{last:#}");
    pieces.push(last.clone());
    println!("chaos: all pieces: {:#}", total(&pieces));
    if let Some(file) = state {
        std::fs::write(file, format!("{:#}\n", Value::from(pieces))).expect("the file");
    }
    for kind in FAULTS {
        assert_eq!(last[kind], json!([]), "{kind}");
    }
}

fn total(pieces: &[Value]) -> Value {
    let sum = |name: &str| pieces.iter().filter_map(|one| one[name].as_u64()).sum::<u64>();
    let lines = |name: &str| -> usize {
        pieces.iter().filter_map(|one| one[name].as_array()).map(Vec::len).sum()
    };
    let mut total = json!({ "pieces": pieces.len() });
    for name in ["seconds", "pairs", "bytes", "both_failed", "tcp_alone_failed"] {
        total[name] = sum(name).into();
    }
    for name in FAULTS.into_iter().chain(["own_process_killed"]) {
        total[name] = lines(name).into();
    }
    total
}

fn run(time: Duration, seed: u64, piece: u64) -> Value {
    println!("chaos: {time:?}, MANYPATH_CHAOS_SEED={seed}, piece {piece}");
    let course = if piece.is_multiple_of(2) { Course::All } else { Course::WithoutDeaths };
    let (ground, site, disk) = Ground::new();
    let (hosts, group) = Hosts::start_on(site, Some(disk));
    for (path, rate) in RATES {
        let path = hosts.site.lab.path(path).expect("a path");
        path.set(&[Change::Rate(Some(rate))]).expect("a rate");
    }
    let mut daemons = Daemons::start(&hosts, group);
    let (pairs, begun) = (Pairs::default(), Instant::now());
    let mut chaos = Chaos { ground, daemons: &mut daemons, pairs: &pairs, course, begun };
    let before = chaos.until(begun + WARM_UP + time, [seed, piece * 100]);
    let settled = vitals::settle(&daemons).err();
    let after = vitals::take_settled(&daemons, Some(&before));
    let counters = counters(&daemons);
    let unwilling = daemons.end();
    let mut summary = pairs.summary(hosts.begun);
    let grown = if course == Course::All { Vec::new() } else { growth(&before, &after) };
    let about = json!({
        "seconds": time.as_secs(), "seed": seed, "piece": piece,
        "deaths": course == Course::All,
        "open_at_the_end": settled.into_iter().collect::<Vec<_>>(),
        "would_not_end": unwilling, "grown": grown, "lost_lines_and_entries": counters,
        "use": vitals::as_json(&[before, after]),
    });
    summary
        .as_object_mut()
        .expect("an object")
        .extend(about.as_object().cloned().unwrap_or_default());
    summary
}

/// What each stack has counted of what a full disk has cost.
fn counters(daemons: &Daemons) -> Value {
    let stacks = Host::ALL.into_iter().flat_map(|host| stacks(daemons.hosts, host));
    let count = |name: &str| {
        let figures = stacks.clone().filter_map(|stack| stack["counters"][name].as_u64());
        json!(figures.sum::<u64>())
    };
    json!({ "log_lines_lost": count("stack_log_lines_lost"), "peer_cache_failures": count("stack_peer_cache_failures") })
}

/// What daemons that nothing has ended use more than at first.
fn growth(before: &Vitals, after: &Vitals) -> Vec<String> {
    // Of the looks, the first and the last third are compared.
    vitals::growth(&[before.clone(), after.clone(), after.clone()])
}

struct Chaos<'a, 'b> {
    ground: Ground,
    daemons: &'b mut Daemons<'a>,
    pairs: &'b Pairs,
    course: Course,
    begun: Instant,
}

impl Chaos<'_, '_> {
    /// Transfers and faults until `end`; what the daemons used at rest before the first fault.
    fn until(&mut self, end: Instant, [seed, first]: [u64; 2]) -> Vitals {
        let (hosts, foreman, pairs) = (self.daemons.hosts, Foreman::default(), self.pairs);
        let (carriers, witness) = (hosts.carriers(), Witness::start(hosts));
        std::thread::scope(|scope| {
            let _whistle = Whistle(&foreman);
            for worker in 0..PAIRS_AT_ONCE {
                let (foreman, beside) = (&foreman, (&carriers[..], &witness));
                let dice = Dice::new(seed, first + worker as u64 + 1);
                scope.spawn(move || pairs.work(hosts, foreman, worker, dice, beside));
            }
            std::thread::sleep(WARM_UP);
            foreman.pause();
            let _ = vitals::settle(self.daemons);
            let before = vitals::take(self.daemons);
            foreman.go_on();
            self.disturb(end, Dice::new(seed, first + 50));
            foreman.pause();
            before
        })
    }

    fn disturb(&mut self, end: Instant, mut dice: Dice) {
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(dice.range(500, 4_000)));
            let fault = faults::any(self.daemons, &self.ground, self.course, &mut dice);
            if let Some(fault) = fault {
                self.one(&fault);
            }
        }
    }

    fn one(&mut self, fault: &Fault) {
        let (at, progress) = (self.begun.elapsed().as_secs_f64(), self.pairs.progress());
        println!("chaos: {at:.1} s: {}; {progress}", fault.what);
        self.pairs.begin(fault);
        let begun = Instant::now();
        fault.begin(self.daemons.hosts, &self.ground);
        let killed = self.wait(fault, begun);
        fault.mend(self.daemons.hosts, &self.ground);
        self.revive(fault, killed);
        self.pairs.mended();
    }

    /// Lets the fault last; whether it has ended a process, which was `alive` before.
    fn wait(&self, fault: &Fault, mut alive: Instant) -> bool {
        let end = Instant::now() + fault.lasts;
        let ended = || {
            let looked = Instant::now();
            let ended = fault.victim.as_ref().is_some_and(|one| processes::has_ended(one.pid));
            if !ended {
                alive = looked;
            }
            ended
        };
        let ends = fault.ends() && vitals::within(fault.lasts, ended);
        if ends {
            self.pairs.killed(alive);
        }
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        ends
    }

    /// Starts what has ended.
    fn revive(&mut self, fault: &Fault, killed: bool) {
        if matches!(self.daemons.serve.try_wait(), Ok(Some(_))) {
            self.daemons.start_serve();
        }
        let scope = fault.victim.as_ref().and_then(|victim| victim.scope);
        if killed && scope == Some(Scope::Attach) {
            let (site, alive) = (&self.daemons.hosts.site, Instant::now());
            if let Some(group) = &mut self.daemons.group {
                let _ = group.end(site, Host::Left, "-TERM");
            }
            self.pairs.killed(alive);
            self.daemons.attach();
        }
    }
}
