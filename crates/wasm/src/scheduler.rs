//! One path scheduler: an instance of a module.

use crate::Ledger;
use crate::instance::Instance;
use crate::layout::{self, VIEW_LEN};
use manypath_engine::{Instant, PathScheduler, SchedulerView};
use std::sync::{Arc, Mutex, PoisonError};
use wasmi::{Module, TypedFunc, WasmParams, WasmResults};

/// The order that needs no module.
#[derive(Debug)]
pub(crate) struct SmallestSrtt;

impl PathScheduler for SmallestSrtt {
    fn observe(&mut self, _now: Instant, _view: &SchedulerView<'_>) {}

    fn rank(&self, _view: &SchedulerView<'_>, _index: usize) -> u32 {
        0
    }

    fn allows(&self, _view: &SchedulerView<'_>, _index: usize) -> bool {
        true
    }
}

/// A scheduler that a module has made.
#[derive(Debug)]
pub(crate) struct Scheduler {
    /// Locked for a call: questions change its memory.
    state: Mutex<State>,
    observe: Option<TypedFunc<i32, ()>>,
    rank: Option<TypedFunc<(i32, i32), i32>>,
    allows: Option<TypedFunc<(i32, i32), i32>>,
    ledger: Arc<Ledger>,
}

#[derive(Debug)]
struct State {
    instance: Instance,
    now: Instant,
    failed: bool,
}

impl Scheduler {
    pub(crate) fn new(module: &Module, ledger: Arc<Ledger>) -> Result<Self, String> {
        let instance = Instance::new(module, VIEW_LEN)?;
        let (observe, rank, allows) = (
            instance.function("observe", "(paths: i32)")?,
            instance.function("rank", "(paths: i32, index: i32) -> i32")?,
            instance.function("allows", "(paths: i32, index: i32) -> i32")?,
        );
        if rank.is_none() && allows.is_none() {
            return Err("it exports neither rank nor allows, so it would decide nothing".to_owned());
        }
        let state = State { instance, now: Instant::ZERO, failed: false };
        Ok(Self { state: Mutex::new(state), observe, rank, allows, ledger })
    }

    /// Asks `function`; none if it is not there, or the scheduler has failed.
    fn ask<P: WasmParams, R: WasmResults>(
        &self,
        function: Option<&TypedFunc<P, R>>,
        now: Option<Instant>,
        view: &SchedulerView<'_>,
        params: P,
    ) -> Option<R> {
        let function = function?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed {
            return None;
        }
        state.now = now.unwrap_or(state.now);
        let mut bytes = [0; VIEW_LEN];
        let len = layout::write(&mut bytes, state.now, view);
        let answer = state.instance.call(function, &bytes[..len], params);
        self.ledger.count(state.instance.instructions());
        answer
            .map_err(|error| {
                state.failed = true;
                self.ledger.fail(format!("{error}, at {:?}", state.now.since(Instant::ZERO)));
            })
            .ok()
    }
}

/// An index as a module counts.
fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

impl PathScheduler for Scheduler {
    fn observe(&mut self, now: Instant, view: &SchedulerView<'_>) {
        if self.observe.is_none() {
            self.state.get_mut().unwrap_or_else(PoisonError::into_inner).now = now;
        }
        self.ask(self.observe.as_ref(), Some(now), view, number(view.paths.len()));
    }

    fn rank(&self, view: &SchedulerView<'_>, index: usize) -> u32 {
        let params = (number(view.paths.len()), number(index));
        self.ask(self.rank.as_ref(), None, view, params).map_or(0, i32::cast_unsigned)
    }

    fn allows(&self, view: &SchedulerView<'_>, index: usize) -> bool {
        let params = (number(view.paths.len()), number(index));
        self.ask(self.allows.as_ref(), None, view, params).is_none_or(|answer| answer != 0)
    }
}
