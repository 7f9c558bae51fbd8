//! Transfers in pairs: the same one through manypath and by plain TCP, at the same moment.

use super::faults::Fault;
use super::ground::shell;
use super::witness::Witness;
use crate::soak::dice::Dice;
use crate::soak::hosts::{Hosts, stacks};
use crate::soak::ledger::{Carrier, Failure, Scope};
use crate::soak::transfers::{LONGEST, Transfer};
use crate::soak::workers::Foreman;
use manypath_lab::Host;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Until this long after its end a fault is named beside a failure.
const AFTERMATH: Duration = Duration::from_secs(8);
/// What takes longer is looked into while it lasts.
const SLOW: Duration = Duration::from_secs(40);
const BREATH: Duration = Duration::from_millis(50);
/// Until a transfer is killed, whatever faults it has met.
const LIMIT: Duration = Duration::from_secs(150);
/// For so long after a signal a process that connects may not be able to see that its own stack has gone.
const UNDER_WAY: Duration = Duration::from_millis(100);

/// One transfer of a pair.
struct Half {
    result: Result<u64, Failure>,
    took: Duration,
}

struct Pair {
    worker: usize,
    carrier: Carrier,
    what: String,
    begun: Instant,
    ended: Instant,
    ours: Half,
    tcp: Half,
    /// A connect by plain TCP failed in the same way, at the moment at which this one failed.
    refused: bool,
}

struct Happened {
    kind: &'static str,
    what: String,
    /// Whose transfers use the process that it happened to.
    scope: Option<Scope>,
    begun: Instant,
    mended: Option<Instant>,
    /// When that process ended, and when what had lost it was ended to be started anew: between these times.
    killed: Vec<[Instant; 2]>,
}

#[derive(Default)]
pub(super) struct Pairs {
    all: Mutex<Vec<Pair>>,
    faults: Mutex<Vec<Happened>>,
}

impl Half {
    fn damaged(&self) -> bool {
        matches!(&self.result, Err(Failure::Wrong(said)) if !said.starts_with("it hung"))
    }
}

impl Pairs {
    /// Called just before a fault begins.
    pub(super) fn begin(&self, fault: &Fault) {
        let scope = fault.victim.as_ref().and_then(|victim| victim.scope);
        let (kind, what, begun) = (fault.kind, fault.what.clone(), Instant::now());
        let happened = Happened { kind, what, scope, begun, mended: None, killed: Vec::new() };
        self.faults.lock().expect("no worker panics").push(happened);
    }

    fn last(&self, change: impl FnOnce(&mut Happened)) {
        if let Some(last) = self.faults.lock().expect("no worker panics").last_mut() {
            change(last);
        }
    }

    /// A process has ended for the last fault, since a moment at which it was alive.
    pub(super) fn killed(&self, since: Instant) {
        self.last(|fault| fault.killed.push([since, Instant::now()]));
    }

    pub(super) fn mended(&self) {
        self.last(|fault| fault.mended = Some(Instant::now()));
    }

    pub(super) fn progress(&self) -> String {
        let all = self.all.lock().expect("no worker panics");
        let failed = |of: fn(&Pair) -> bool| all.iter().filter(|pair| of(pair)).count();
        let ours = failed(|pair| pair.ours.result.is_err());
        let tcp = failed(|pair| pair.tcp.result.is_err());
        format!("{} pairs, failed: manypath {ours}, TCP {tcp}", all.len())
    }

    pub(super) fn work(
        &self,
        hosts: &Hosts,
        foreman: &Foreman,
        worker: usize,
        mut dice: Dice,
        (carriers, witness): (&[Carrier], &Witness),
    ) {
        let dirs = ["ours", "tcp"].map(|name| hosts.site.dir.join(format!("{name}-{worker}")));
        for dir in &dirs {
            std::fs::create_dir_all(dir).expect("a folder");
        }
        while foreman.begin() {
            let carrier = *dice.pick(carriers);
            let seed = dice.next();
            let transfer = |by, dir| {
                let (dice, longest) = (&mut Dice::new(seed, 0), LIMIT);
                let begun = Instant::now();
                let mut transfer = Transfer { hosts, worker, carrier: by, dir, dice, longest };
                let (_, what, result) = transfer.comparable(carrier);
                (what, Half { result, took: begun.elapsed() })
            };
            let begun = Instant::now();
            let ((what, ours), (_, tcp)) = std::thread::scope(|scope| {
                let tcp = scope.spawn(|| transfer(Carrier::Plain, &dirs[1]));
                let (done, waited) = mpsc::channel::<()>();
                scope.spawn(move || {
                    if waited.recv_timeout(SLOW) == Err(RecvTimeoutError::Timeout) {
                        println!("chaos: {carrier:?} takes long: {}", state(hosts));
                    }
                });
                let ours = transfer(carrier, &dirs[0]);
                drop(done);
                (ours, tcp.join().expect("a transfer"))
            });
            let ended = begun + ours.took;
            let refused = match &ours.result {
                Err(Failure::Broken(said)) => witness.has_met(said, ended),
                _ => false,
            };
            let pair = Pair { worker, carrier, what, begun, ended, ours, tcp, refused };
            self.enter(hosts.begun, pair);
            foreman.finish();
            std::thread::sleep(BREATH);
        }
    }

    /// Failures that count are printed at once.
    fn enter(&self, origin: Instant, pair: Pair) {
        let faults = self.faults.lock().expect("no worker panics");
        if pair.is_lost(&faults) || pair.hung(&faults) || pair.ours.damaged() {
            println!("chaos: LOST: {}", pair.describe(&faults, origin));
        }
        self.all.lock().expect("no worker panics").push(pair);
    }

    /// What was found.
    pub(super) fn summary(&self, origin: Instant) -> Value {
        let (all, faults) = (self.all.lock().expect("ended"), self.faults.lock().expect("ended"));
        let those = |of: &dyn Fn(&Pair) -> bool| -> Vec<&Pair> {
            all.iter().filter(|pair| of(pair)).collect()
        };
        let lines = |of: &dyn Fn(&Pair) -> bool| -> Vec<String> {
            those(of).iter().map(|pair| pair.describe(&faults, origin)).collect()
        };
        let failed = |pair: &Pair| [&pair.ours, &pair.tcp].map(|half| half.result.is_err());
        let bytes: u64 = all.iter().filter_map(|pair| pair.ours.result.as_ref().ok()).sum();
        json!({
            "pairs": all.len(), "bytes": bytes, "carriers": by_carrier(&all),
            "faults": by_kind(&all, &faults),
            "both_failed": those(&|pair| failed(pair) == [true, true]).len(),
            "tcp_alone_failed": those(&|pair| failed(pair) == [false, true]).len(),
            "own_process_killed": lines(&|pair| failed(pair) == [true, false] && !pair.refused && pair.was_killed(&faults)),
            "tcp_was_refused": lines(&|pair| failed(pair) == [true, false] && pair.refused),
            "corruptions": lines(&|pair| pair.ours.damaged()),
            "hangs": lines(&|pair| pair.hung(&faults)),
            "survived_by_tcp_alone": lines(&|pair| pair.is_lost(&faults)),
        })
    }
}

impl Happened {
    fn concerns(&self, pair: &Pair) -> bool {
        self.scope.is_some_and(|scope| scope.concerns(pair.worker, pair.carrier))
    }

    /// Whether a process that the pair used ended while the pair was at work.
    fn killed(&self, pair: &Pair) -> bool {
        let grace = match self.scope {
            Some(Scope::Attach | Scope::Worker(_)) => UNDER_WAY,
            _ => Duration::ZERO,
        };
        let at_work =
            |[since, until]: [Instant; 2]| pair.begun <= until + grace && since <= pair.ended;
        self.concerns(pair) && self.killed.iter().copied().any(at_work)
    }

    /// For how long of the pair's time it was there.
    fn meanwhile(&self, begun: Instant, ended: Instant) -> Duration {
        let until = self.mended.unwrap_or(ended).min(ended);
        until.saturating_duration_since(self.begun.max(begun))
    }

    /// Whether it may have to do with how the pair ended.
    fn is_near(&self, pair: &Pair) -> bool {
        let mended = self.mended.unwrap_or(pair.ended);
        self.begun <= pair.ended && mended + AFTERMATH >= pair.begun
    }
}

impl Pair {
    fn was_killed(&self, faults: &[Happened]) -> bool {
        faults.iter().any(|fault| fault.killed(self))
    }

    /// TCP has survived what ended this, and no process of this was killed.
    fn is_lost(&self, faults: &[Happened]) -> bool {
        let lost = self.ours.result.is_err() && self.tcp.result.is_ok();
        lost && !self.refused && !self.was_killed(faults)
    }

    /// Whether it took too long without the time in which something was wrong, and TCP beside it did not.
    fn hung(&self, faults: &[Happened]) -> bool {
        let is_hung = |half: &Half| {
            let ended = self.begun + half.took;
            let faulty = faults.iter().map(|fault| fault.meanwhile(self.begun, ended)).sum();
            half.took > LONGEST + faulty
        };
        is_hung(&self.ours) && !is_hung(&self.tcp)
    }

    fn describe(&self, faults: &[Happened], origin: Instant) -> String {
        let Self { worker, carrier, what, begun, ours, tcp, .. } = self;
        let at = (*begun - origin).as_secs_f64();
        let since = |one: &Happened| (one.begun - origin).as_secs_f64();
        let near = faults.iter().filter(|fault| fault.is_near(self));
        let near: Vec<String> =
            near.map(|one| format!("{:.1} s {}", since(one), one.what)).collect();
        let (took, tcp_took) = (ours.took, tcp.took);
        format!(
            "{at:.1} s worker {worker} {carrier:?} {what}: {:?} after {took:?}, TCP {:?} after {tcp_took:?}; {near:?}",
            ours.result, tcp.result
        )
    }
}

/// What stacks and kernels of both hosts hold.
fn state(hosts: &Hosts) -> String {
    let of = |host| {
        let sockets = shell(&hosts.site, host, "ss -tanoi").stdout;
        let stacks = Value::from(stacks(hosts, host));
        format!("{host}: {stacks}\n{sockets}")
    };
    Host::ALL.map(of).join("\n")
}

fn by_carrier(all: &[Pair]) -> Value {
    let mut carriers: BTreeMap<String, usize> = BTreeMap::new();
    for pair in all {
        *carriers.entry(format!("{:?}", pair.carrier)).or_default() += 1;
    }
    json!(carriers)
}

/// How often each kind of fault came, and the failures meanwhile. A failure counts for each fault of its time.
fn by_kind(all: &[Pair], faults: &[Happened]) -> Value {
    let mut kinds: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for one in faults {
        kinds.entry(one.kind).or_default()[0] += 1;
    }
    for pair in all {
        for one in faults.iter().filter(|fault| fault.is_near(pair)) {
            let row = kinds.entry(one.kind).or_default();
            row[1] += usize::from(pair.ours.result.is_err());
            row[2] += usize::from(pair.tcp.result.is_err());
        }
    }
    let row = |(kind, [times, ours, tcp]): (&str, [usize; 3])| {
        let row = json!({ "times": times, "manypath_failed": ours, "tcp_failed": tcp });
        (kind.to_owned(), row)
    };
    Value::Object(kinds.into_iter().map(row).collect())
}

/// A process is looked at now and then: what it took along has often ended before the course sees its death.
#[test]
fn a_death_that_is_seen_late_explains_what_it_ended() {
    let alive = Instant::now();
    let at = |ms| alive + Duration::from_millis(ms);
    let pair = |begun, ended| {
        let half = |result| Half { result, took: Duration::from_millis(ended - begun) };
        Pair {
            worker: 0,
            carrier: Carrier::Attach,
            what: String::new(),
            begun: at(begun),
            ended: at(ended),
            ours: half(Err(Failure::Broken("reset".to_owned()))),
            tcp: half(Ok(1)),
            refused: false,
        }
    };
    let death = |scope| Happened {
        kind: "killed",
        what: String::new(),
        scope: Some(scope),
        begun: at(100),
        mended: None,
        killed: vec![[at(100), at(130)]],
    };
    let survived = |pair: Pair, scope| pair.is_lost(&[death(scope)]);
    assert!(!survived(pair(0, 105), Scope::Attach), "reset before its death was seen");
    assert!(!survived(pair(120, 200), Scope::Attach), "begun while it died");
    assert!(survived(pair(0, 99), Scope::Attach), "it was alive");
    assert!(survived(pair(0, 105), Scope::Door), "another one's process");
    assert!(survived(pair(1_000, 1_100), Scope::Attach), "long gone");
}
