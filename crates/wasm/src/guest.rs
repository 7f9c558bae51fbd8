//! One scheduler: an instance of a module with its memory.

use crate::layout::{self, VIEW_LEN};
use crate::{Ledger, MAX_INSTRUCTIONS, MAX_MEMORY};
use manypath_engine::{Instant, PathScheduler, SchedulerView};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use wasmi::{
    Linker, Memory, Module, Store, StoreLimits, StoreLimitsBuilder, TypedFunc, WasmParams,
    WasmResults,
};

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
pub(crate) struct Guest {
    /// Locked for a call: questions change its memory.
    state: Mutex<State>,
    observe: Option<TypedFunc<i32, ()>>,
    rank: Option<TypedFunc<(i32, i32), i32>>,
    allows: Option<TypedFunc<(i32, i32), i32>>,
    ledger: Arc<Ledger>,
}

struct State {
    store: Store<StoreLimits>,
    memory: Memory,
    /// Where the view is written.
    view: usize,
    now: Instant,
    failed: bool,
}

impl Guest {
    pub(crate) fn new(module: &Module, ledger: Arc<Ledger>) -> Result<Self, String> {
        if let Some(import) = module.imports().next() {
            return Err(format!(
                "it imports {}.{}, but a scheduler must not import anything",
                import.module(),
                import.name()
            ));
        }
        let limits = StoreLimitsBuilder::new()
            .memory_size(MAX_MEMORY)
            .table_elements(MAX_MEMORY / 16)
            .memories(1)
            .tables(1)
            .build();
        let mut store = Store::new(module.engine(), limits);
        store.limiter(|limits| limits);
        let fuel = |store: &mut Store<StoreLimits>| {
            store.set_fuel(MAX_INSTRUCTIONS).map_err(|error| error.to_string())
        };
        fuel(&mut store)?;
        let instance = Linker::new(module.engine())
            .instantiate_and_start(&mut store, module)
            .map_err(|error| format!("it does not start: {error}"))?;
        let memory =
            instance.get_memory(&store, "memory").ok_or("it exports no memory named \"memory\"")?;
        let view = instance
            .get_typed_func::<(), i32>(&store, "view")
            .map_err(|_| "it exports no function view() -> i32")?;
        fuel(&mut store)?;
        let view = view.call(&mut store, ()).map_err(|error| format!("view() fails: {error}"))?;
        let view = view.cast_unsigned() as usize;
        let end = view.saturating_add(VIEW_LEN);
        if memory.data_size(&store) < end {
            return Err(format!(
                "view() must return the address of {VIEW_LEN} bytes of its memory"
            ));
        }
        let (observe, rank, allows) = (
            function(&instance, &store, "observe", "(paths: i32)")?,
            function(&instance, &store, "rank", "(paths: i32, index: i32) -> i32")?,
            function(&instance, &store, "allows", "(paths: i32, index: i32) -> i32")?,
        );
        if rank.is_none() && allows.is_none() {
            return Err("it exports neither rank nor allows, so it would decide nothing".to_owned());
        }
        let state = State { store, memory, view, now: Instant::ZERO, failed: false };
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
        let answer = state.call(function, view, params);
        self.ledger.count(MAX_INSTRUCTIONS - state.store.get_fuel().unwrap_or(0));
        answer
            .map_err(|error| {
                state.failed = true;
                self.ledger.fail(format!("{error}, at {:?}", state.now));
            })
            .ok()
    }
}

impl State {
    fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        function: &TypedFunc<P, R>,
        view: &SchedulerView<'_>,
        params: P,
    ) -> Result<R, wasmi::Error> {
        let mut bytes = [0; VIEW_LEN];
        let len = layout::write(&mut bytes, self.now, view);
        self.memory.write(&mut self.store, self.view, &bytes[..len])?;
        self.store.set_fuel(MAX_INSTRUCTIONS)?;
        function.call(&mut self.store, params)
    }
}

/// The exported function of that name, if there is one.
fn function<P: WasmParams, R: WasmResults>(
    instance: &wasmi::Instance,
    store: &Store<StoreLimits>,
    name: &str,
    signature: &str,
) -> Result<Option<TypedFunc<P, R>>, String> {
    let Some(function) = instance.get_func(store, name) else { return Ok(None) };
    let typed = function.typed(store);
    typed.map(Some).map_err(|_| format!("its function {name} is not {name}{signature}"))
}

/// An index as a module counts.
fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

impl PathScheduler for Guest {
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

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest").finish_non_exhaustive()
    }
}
