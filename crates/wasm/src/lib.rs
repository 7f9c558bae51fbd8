//! Path schedulers from files: modules in WebAssembly that the simulator and live runs load as they are.
//!
//! A module imports nothing, exports its `memory`, a function `view` that returns the address of [`VIEW_LEN`] bytes to which
//! what it decides by is written, and at least one of:
//!
//! * `observe(paths: i32)`: the state of the paths, each time before they are asked for packets.
//! * `rank(paths: i32, index: i32) -> i32`: where a path stands in the order in which they are asked, lowest first.
//! * `allows(paths: i32, index: i32) -> i32`: whether a path should carry something, for each packet.
//!
//! They are [`manypath_engine::PathScheduler`]'s; `docs/simulation.md` has the layout of the view. Each call may run
//! [`MAX_INSTRUCTIONS`], each scheduler may have [`MAX_MEMORY`]. One that does more, or traps, is not asked again: its
//! association goes on with the order of the smallest srtt, and [`Module::failure`] says why.
//!
//! ```
//! let module = manypath_wasm::Module::load(concat!(env!("CARGO_MANIFEST_DIR"), "/schedulers/blest.wasm").as_ref()).unwrap();
//! let scheduler = module.schedulers().begin();
//! assert_eq!((module.usage().calls, module.failure()), (0, None));
//! ```

#![forbid(unsafe_code)]

mod guest;
mod layout;

pub use layout::VIEW_LEN;

use guest::Guest;
use manypath_engine::{PathScheduler, PathSchedulers};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use wasmi::{Config, Engine};

/// What one call may run, in the interpreter's units: about one for each instruction.
pub const MAX_INSTRUCTIONS: u64 = 100_000;
/// What the memory and the tables of one scheduler may grow to, in bytes.
pub const MAX_MEMORY: usize = 1 << 20;
/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Why a module cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleError {
    file: String,
    reason: String,
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path scheduler {}: {}", self.file, self.reason)
    }
}

impl std::error::Error for ModuleError {}

/// What the calls of a module have cost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Calls of its functions.
    pub calls: u64,
    /// What they have run, in the units of [`MAX_INSTRUCTIONS`].
    pub instructions: u64,
}

/// A file that was read and checked.
#[derive(Clone, Debug)]
pub struct Module {
    code: wasmi::Module,
    name: Arc<str>,
    ledger: Arc<Ledger>,
}

/// What happens to the schedulers of a module.
#[derive(Debug, Default)]
struct Ledger {
    calls: AtomicU64,
    instructions: AtomicU64,
    fault: OnceLock<String>,
}

impl Module {
    /// Reads a module and makes a first scheduler from it, so that a wrong one is found before a run begins.
    ///
    /// # Errors
    /// A file that cannot be read, or is no module as described above.
    pub fn load(file: &Path) -> Result<Self, ModuleError> {
        let shown = file.display().to_string();
        let error = |reason: String| ModuleError { file: shown.clone(), reason };
        let bytes = read(file).map_err(error)?;
        Self::parse(&shown, &bytes)
    }

    /// As [`Self::load`], from the bytes of a file with this name.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, ModuleError> {
        let error = |reason: String| ModuleError { file: file.to_owned(), reason };
        let mut config = Config::default();
        config.consume_fuel(true);
        let code = wasmi::Module::new(&Engine::new(&config), bytes)
            .map_err(|reason| error(format!("not a WebAssembly module: {reason}")))?;
        let digest = Sha256::digest(bytes);
        let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
        let digest: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let module = Self { code, name: format!("{stem}-{digest}").into(), ledger: Arc::default() };
        Guest::new(&module.code, Arc::clone(&module.ledger)).map_err(error)?;
        Ok(module)
    }

    /// The name of its file and a digest of what is in it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same module, with a count and a fault of its own.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { ledger: Arc::default(), ..self.clone() }
    }

    /// What makes a scheduler for each association of a [`manypath_engine::Config`].
    pub fn schedulers(&self) -> Arc<dyn PathSchedulers> {
        Arc::new(self.clone())
    }

    /// What all its schedulers have cost so far.
    pub fn usage(&self) -> Usage {
        Usage {
            calls: self.ledger.calls.load(Ordering::Relaxed),
            instructions: self.ledger.instructions.load(Ordering::Relaxed),
        }
    }

    /// Which scheduler has failed first, when, and why: it is not asked any more.
    pub fn failure(&self) -> Option<String> {
        self.ledger.fault.get().map(|fault| format!("path scheduler {}: {fault}", self.name))
    }
}

impl PathSchedulers for Module {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) -> Box<dyn PathScheduler> {
        match Guest::new(&self.code, Arc::clone(&self.ledger)) {
            Ok(guest) => Box::new(guest),
            Err(reason) => {
                self.ledger.fail(reason);
                Box::new(guest::SmallestSrtt)
            }
        }
    }
}

impl Ledger {
    fn count(&self, instructions: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.instructions.fetch_add(instructions, Ordering::Relaxed);
    }

    /// The first fault counts.
    fn fail(&self, reason: String) {
        let _first = self.fault.set(reason);
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(file).map_err(|error| error.to_string())?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!("larger than {MAX_FILE} bytes"));
    }
    Ok(bytes)
}
