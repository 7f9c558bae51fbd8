//! Everything at once for a quarter of an hour: random programs, a network that changes and fails, daemons that
//! are restarted and killed. No byte may be lost or damaged, nothing may leak, and programs connect by plain
//! TCP at once. `docs/soak.md` has what is demanded.

mod agent;
mod chaos;
mod deaths;
mod dice;
mod disturb;
mod hosts;
mod ledger;
mod transfers;
mod vitals;
mod workers;

use deaths::{KINDS, Measured, Reaper};
use dice::Dice;
use hosts::{Daemons, Hosts};
use ledger::Ledger;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use vitals::Vitals;
use workers::{Foreman, Whistle, work};

/// The part of the time in which nothing dies, so that what leaks can be seen.
const QUIET_PART: f64 = 0.6;
/// Beginning of an association, and of what daemons keep ready, before the first look at what they use.
const WARM_UP: Duration = Duration::from_secs(4);
/// Of transfers to `manypath serve`, those that it must have carried while nothing died.
const CARRIED: f64 = 0.5;

/// How long, how much, how strict.
struct Course {
    time: Duration,
    seed: u64,
    workers: usize,
    /// Looks at what the daemons use.
    laps: u32,
    /// How long a connect may take after a death.
    bar: Duration,
}

/// What was found.
#[derive(Default)]
struct Findings {
    ledger: Ledger,
    measured: Measured,
    disturbances: Vec<String>,
    checks: Vec<Vitals>,
    faults: Vec<String>,
}

pub(crate) fn number(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => usual,
    }
}

pub(crate) fn clock_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::from(since.expect("after 1970").subsec_nanos())
}

/// Short, on whatever machine: no bar on times.
#[test]
fn a_short_soak_loses_nothing() {
    let bar = Duration::from_secs(10);
    let course = Course { time: Duration::from_secs(16), seed: 1, workers: 2, laps: 1, bar };
    run(&course);
}

/// `MANYPATH_SOAK_SECONDS` (900), `MANYPATH_SOAK_SEED`, and `MANYPATH_SOAK_JSON` for a file with what was measured.
#[test]
#[ignore = "takes a quarter of an hour: make test-full"]
fn soak() {
    let course = Course {
        time: Duration::from_secs(number("MANYPATH_SOAK_SECONDS", 900)),
        seed: number("MANYPATH_SOAK_SEED", clock_seed()),
        workers: 4,
        laps: 9,
        bar: Duration::from_secs(1),
    };
    run(&course);
}

fn run(course: &Course) {
    println!("soak: {:?}, MANYPATH_SOAK_SEED={}", course.time, course.seed);
    let (hosts, group) = Hosts::start();
    let mut daemons = Daemons::start(&hosts, group);
    let (mut findings, foreman) = (Findings::default(), Foreman::default());
    let ledger = std::mem::take(&mut findings.ledger);
    std::thread::scope(|scope| {
        let _whistle = Whistle(&foreman);
        for worker in 0..course.workers {
            let (hosts, ledger, foreman) = (&hosts, &ledger, &foreman);
            scope.spawn(move || work(hosts, ledger, foreman, worker, course.seed));
        }
        let mut soak = Soak { course, daemons: &mut daemons, ledger: &ledger, foreman: &foreman };
        soak.quiet_part(&mut findings);
        soak.deadly_part(&mut findings);
    });
    findings.ledger = ledger;
    let namespaces = [daemons.agents.plain.pid(), daemons.serve.id()].map(deaths::namespace);
    findings.faults.extend(daemons.end());
    let gone = || namespaces.iter().all(|namespace| vitals::processes(namespace).is_empty());
    if !vitals::within(Duration::from_secs(10), gone) {
        findings.faults.push("processes of manypath are left".to_owned());
    }
    report(course, findings, hosts.begun);
}

/// The parts of the course.
struct Soak<'a, 'b> {
    course: &'b Course,
    daemons: &'b mut Daemons<'a>,
    ledger: &'b Ledger,
    foreman: &'b Foreman,
}

impl Soak<'_, '_> {
    /// The network changes and fails, and the same daemons carry all.
    fn quiet_part(&self, findings: &mut Findings) {
        let mut dice = Dice::new(self.course.seed, 1_000);
        let lap = self.course.time.mul_f64(QUIET_PART) / self.course.laps;
        let warm = Instant::now() + WARM_UP.min(lap / 2);
        findings.disturbances.extend(disturb::until(self.daemons.hosts, &mut dice, warm));
        self.look("warm", findings);
        for number in 0..self.course.laps {
            let end = Instant::now() + lap;
            findings.disturbances.extend(disturb::until(self.daemons.hosts, &mut dice, end));
            self.look(&format!("lap {} of {}", number + 1, self.course.laps), findings);
        }
        findings.faults.extend(vitals::growth(&findings.checks));
        let (carried, all) = (self.daemons.carried(), self.ledger.count_to_server());
        if (carried as f64) < all as f64 * CARRIED {
            findings.faults.push(format!("only {carried} connections of {all} transfers carried"));
        }
    }

    /// Lets all rest, and looks at what is still open and in use.
    fn look(&self, when: &str, findings: &mut Findings) {
        self.foreman.pause();
        if let Err(fault) = vitals::settle(self.daemons) {
            findings.faults.push(format!("{when}: {fault}"));
        }
        let check = vitals::take_settled(self.daemons, findings.checks.first());
        let age = self.daemons.hosts.age().as_secs_f64();
        println!("soak: {age:.1} s: {when}: {} transfers; {check:?}", self.ledger.count());
        findings.checks.push(check);
        self.foreman.go_on();
    }

    /// Daemons are restarted and killed, each kind in turn, at times that the seed says.
    fn deadly_part(&mut self, findings: &mut Findings) {
        let mut dice = Dice::new(self.course.seed, 2_000);
        let end = Instant::now() + self.course.time.mul_f64(1.0 - QUIET_PART);
        for kind in KINDS.iter().cycle() {
            let calm = Instant::now() + Duration::from_millis(dice.range(300, 2_500));
            findings.disturbances.extend(disturb::until(self.daemons.hosts, &mut dice, calm));
            if Instant::now() > end {
                break;
            }
            let (daemons, measured) = (&mut *self.daemons, &mut findings.measured);
            Reaper { daemons, ledger: self.ledger, measured, dice: &mut dice }.one(*kind);
            let age = self.daemons.hosts.age().as_secs_f64();
            println!("soak: {age:.1} s: {kind:?}: {} transfers", self.ledger.count());
        }
        self.foreman.pause();
        if let Err(fault) = vitals::settle(self.daemons) {
            findings.faults.push(format!("after all deaths: {fault}"));
        }
        println!("soak: after all deaths: {:?}", vitals::take(self.daemons));
    }
}

fn report(course: &Course, mut findings: Findings, begun: Instant) {
    findings.faults.extend(findings.ledger.faults(begun));
    findings.faults.append(&mut findings.measured.faults);
    findings.faults.extend(findings.measured.too_slow(course.bar));
    let summary: Value = json!({
        "seconds": course.time.as_secs(),
        "seed": course.seed,
        "transfers": findings.ledger.summary(),
        "disturbances": findings.disturbances.len(),
        "dying": findings.measured.as_json(),
        "use": vitals::as_json(&findings.checks),
        "faults": findings.faults,
    });
    let text = serde_json::to_string_pretty(&summary).expect("plain values");
    println!("{text}");
    if let Some(file) = std::env::var_os("MANYPATH_SOAK_JSON") {
        std::fs::write(file, text).expect("the file");
    }
    assert!(findings.faults.is_empty(), "seed {}: {:#?}", course.seed, findings.faults);
}
