//! What became of each transfer, what died meanwhile, and which failures a death explains.

use super::deaths::UNDER_WAY;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A transfer that its own stack leaves must end within this time: a reset or an end, no hang.
const PROMPT: Duration = Duration::from_secs(6);
/// What `docs/service.md` promises connections when a service is told to end, less what a look at the
/// clock may cost.
const TIME_TO_FINISH: Duration = Duration::from_millis(2900);

/// What takes a transfer's connections to the stack that carries them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Carrier {
    /// `manypath attach`, on the cgroup in which the program runs.
    Attach,
    /// `manypath run`, one launcher for each.
    Run,
    /// The same, to a server that is under `manypath run` as well.
    Door,
    /// Plain TCP, for comparison.
    Plain,
}

/// What was killed or told to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// `manypath serve`.
    Server,
    /// What carries the cgroup of clients: redirector or stack.
    Attach,
    /// The stack of one launcher, that of a worker.
    Worker(usize),
    /// The stack that leads peers to the server under `manypath run`.
    Door,
}

impl Scope {
    /// Whether a transfer of this worker uses what was killed.
    pub(crate) fn concerns(self, worker: usize, carrier: Carrier) -> bool {
        match self {
            Self::Server => carrier != Carrier::Door,
            Self::Attach => carrier == Carrier::Attach,
            Self::Worker(killed) => killed == worker && carrier != Carrier::Attach,
            Self::Door => carrier == Carrier::Door,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Death {
    /// Just before the signal, and just after it: a busy machine takes its time to send one.
    at: Instant,
    sent: Instant,
    scope: Scope,
    /// Told to end, so that what it carries may finish.
    graceful: bool,
    /// When it was back: only then can a peer be told that its associations are lost, and a busy machine takes its time.
    back: Option<Instant>,
}

impl Death {
    /// Whether the failure of a transfer is no more than what this death costs.
    fn explains(&self, outcome: &Outcome) -> bool {
        // The client's own daemon takes along what begins before its death is seen.
        let own = matches!(self.scope, Scope::Attach | Scope::Worker(_));
        let seen = if own { self.sent + UNDER_WAY } else { self.at };
        let alive = outcome.begun <= seen && self.at <= outcome.ended;
        let earliest = self.at + if self.graceful { TIME_TO_FINISH } else { Duration::ZERO };
        let latest = self.back.map_or(earliest, |back| back.max(earliest)) + PROMPT;
        self.scope.concerns(outcome.worker, outcome.carrier)
            && alive
            && (earliest..=latest).contains(&outcome.ended)
    }
}

/// How a transfer failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// Its program said so, and what had arrived until then was right.
    Broken(String),
    /// Bytes were lost or damaged although the program saw no error, or it did not end at all.
    Wrong(String),
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) worker: usize,
    pub(crate) carrier: Carrier,
    pub(crate) kind: &'static str,
    /// What exactly was done, so that it can be done again.
    pub(crate) what: String,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    /// Bytes that were moved and checked.
    pub(crate) result: Result<u64, Failure>,
}

/// Written by all workers and by whoever kills.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    outcomes: Mutex<Vec<Outcome>>,
    deaths: Mutex<Vec<Death>>,
}

impl Ledger {
    pub(crate) fn enter(&self, outcome: Outcome) {
        self.outcomes.lock().expect("no worker panics").push(outcome);
    }

    /// Called just before it happens.
    pub(crate) fn death(&self, scope: Scope, graceful: bool) {
        let now = Instant::now();
        let death = Death { at: now, sent: now, scope, graceful, back: None };
        self.deaths.lock().expect("no worker panics").push(death);
    }

    /// Called when what died last is there again.
    pub(crate) fn is_back(&self) {
        if let Some(death) = self.deaths.lock().expect("no worker panics").last_mut() {
            death.back = Some(Instant::now());
        }
    }

    /// Called just after the signal.
    pub(crate) fn signal_sent(&self) {
        if let Some(death) = self.deaths.lock().expect("no worker panics").last_mut() {
            death.sent = Instant::now();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.outcomes.lock().expect("no worker panics").len()
    }

    /// Transfers whose connections `manypath serve` may have carried.
    pub(crate) fn count_to_server(&self) -> usize {
        let outcomes = self.outcomes.lock().expect("no worker panics");
        outcomes.iter().filter(|outcome| outcome.carrier != Carrier::Door).count()
    }

    fn excused(&self, outcome: &Outcome) -> bool {
        let deaths = self.deaths.lock().expect("no worker panics");
        let broken = matches!(outcome.result, Err(Failure::Broken(_)));
        broken && deaths.iter().any(|death| death.explains(outcome))
    }

    /// Failures that no death explains.
    pub(crate) fn faults(&self, begun: Instant) -> Vec<String> {
        let outcomes = self.outcomes.lock().expect("no worker panics");
        let failed = outcomes.iter().filter(|outcome| outcome.result.is_err());
        let faults = failed.filter(|outcome| !self.excused(outcome));
        faults.map(|outcome| self.describe(outcome, begun)).collect()
    }

    fn describe(&self, outcome: &Outcome, origin: Instant) -> String {
        let deaths = self.deaths.lock().expect("no worker panics");
        let meanwhile = deaths.iter().filter(|one| one.at + PROMPT * 2 > outcome.begun);
        let meanwhile: Vec<String> = meanwhile
            .filter(|one| one.at < outcome.ended)
            .map(|one| {
                let before_end = outcome.ended - one.at;
                format!(
                    "{:?} (graceful: {}) {before_end:?} before the end",
                    one.scope, one.graceful
                )
            })
            .collect();
        let Outcome { carrier, what, begun, ended, result, .. } = outcome;
        let (at, took) = ((*begun - origin).as_secs_f64(), *ended - *begun);
        format!(
            "at {at:.1} s {carrier:?}: {what}: {result:?} after {took:?}; deaths: {meanwhile:?}"
        )
    }

    /// The counts.
    pub(crate) fn summary(&self) -> Value {
        let outcomes = self.outcomes.lock().expect("no worker panics");
        let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut carriers: BTreeMap<String, u64> = BTreeMap::new();
        for outcome in outcomes.iter() {
            let kind = kinds.entry(outcome.kind).or_default();
            kind.0 += 1;
            kind.1 += outcome.result.as_ref().map_or(0, |bytes| *bytes);
            *carriers.entry(format!("{:?}", outcome.carrier).to_lowercase()).or_default() += 1;
        }
        let bytes: u64 = kinds.values().map(|(_, bytes)| bytes).sum();
        let kinds: BTreeMap<_, _> = kinds
            .into_iter()
            .map(|(name, (count, bytes))| (name, json!({ "transfers": count, "bytes": bytes })))
            .collect();
        let ended = outcomes.iter().filter(|one| one.result.is_err() && self.excused(one)).count();
        json!({
            "transfers": outcomes.len(),
            "bytes_checked": bytes,
            "by_kind": kinds,
            "by_carrier": carriers,
            "ended_by_the_death_of_their_stack": ended,
        })
    }
}
