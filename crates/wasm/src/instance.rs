//! An instance of a module, with its limits, its memory, and the place in it at which it reads.

use crate::{MAX_INSTRUCTIONS, MAX_MEMORY};
use std::fmt;
use wasmi::{
    Linker, Memory, Module, Store, StoreLimits, StoreLimitsBuilder, TypedFunc, WasmParams,
    WasmResults,
};

/// An instance.
pub(crate) struct Instance {
    store: Store<StoreLimits>,
    exports: wasmi::Instance,
    memory: Memory,
    /// Where the view lies.
    view: usize,
}

impl Instance {
    /// Starts a module, which must have `view_len` bytes for the view.
    pub(crate) fn new(module: &Module, view_len: usize) -> Result<Self, String> {
        if let Some(import) = module.imports().next() {
            return Err(format!(
                "it imports {}.{}, but a module must not import anything",
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
        let exports = Linker::new(module.engine())
            .instantiate_and_start(&mut store, module)
            .map_err(|error| format!("it does not start: {error}"))?;
        let memory =
            exports.get_memory(&store, "memory").ok_or("it exports no memory named \"memory\"")?;
        let view = exports
            .get_typed_func::<(), i32>(&store, "view")
            .map_err(|_| "it exports no function view() -> i32")?;
        fuel(&mut store)?;
        let view = view.call(&mut store, ()).map_err(|error| format!("view() fails: {error}"))?;
        let view = view.cast_unsigned() as usize;
        let end = view.saturating_add(view_len);
        if memory.data_size(&store) < end {
            return Err(format!(
                "view() must return the address of {view_len} bytes of its memory"
            ));
        }
        Ok(Self { store, exports, memory, view })
    }

    /// The exported function of that name, if there is one.
    pub(crate) fn function<P: WasmParams, R: WasmResults>(
        &self,
        name: &str,
        signature: &str,
    ) -> Result<Option<TypedFunc<P, R>>, String> {
        let Some(function) = self.exports.get_func(&self.store, name) else { return Ok(None) };
        let typed = function.typed(&self.store);
        typed.map(Some).map_err(|_| format!("its function {name} is not {name}{signature}"))
    }

    /// Calls `function`, which finds `view` in its memory.
    pub(crate) fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        function: &TypedFunc<P, R>,
        view: &[u8],
        params: P,
    ) -> Result<R, wasmi::Error> {
        self.show(view)?;
        function.call(&mut self.store, params)
    }

    /// Writes the view, and calls nothing.
    pub(crate) fn show(&mut self, view: &[u8]) -> Result<(), wasmi::Error> {
        self.memory.write(&mut self.store, self.view, view)?;
        self.store.set_fuel(MAX_INSTRUCTIONS)
    }

    /// What the last call has run, in the units of [`MAX_INSTRUCTIONS`].
    pub(crate) fn instructions(&self) -> u64 {
        MAX_INSTRUCTIONS - self.store.get_fuel().unwrap_or(0)
    }

    /// Reads the beginning of the view as the last call has left it.
    pub(crate) fn read(&self, view: &mut [u8]) -> Result<(), wasmi::Error> {
        Ok(self.memory.read(&self.store, self.view, view)?)
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").finish_non_exhaustive()
    }
}
