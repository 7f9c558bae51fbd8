//! Path schedulers and congestion controls from files: modules in WebAssembly that the simulator and live runs load as
//! they are.
//!
//! A module imports nothing, and exports its `memory` and a function `view` that returns the address of the bytes to which
//! what it decides by is written before each call ([`VIEW_LEN`] or [`CONTROL_VIEW_LEN`]). A path scheduler exports at least
//! one of:
//!
//! * `observe(paths: i32)`: the state of the paths, each time before they are asked for packets.
//! * `rank(paths: i32, index: i32) -> i32`: where a path stands in the order in which they are asked, lowest first.
//! * `allows(paths: i32, index: i32) -> i32`: whether a path should carry something, for each packet.
//!
//! A congestion control exports `on_ack()`, `on_loss()` and `on_timeout()`; it may have `on_mark()`, without which a mark is
//! a loss, and `on_idle(timeouts: i32)`. It writes its window into the view.
//!
//! They are [`manypath_engine::PathScheduler`]'s and [`manypath_engine::CongestionEvent`]'s; `docs/simulation.md` describes
//! the views. Each call may run [`MAX_INSTRUCTIONS`], each scheduler of an association and each control of a path may have
//! [`MAX_MEMORY`]. One that does more, or traps, is not asked again, and [`Module::failure`] says why: an association goes
//! on with the order of the smallest srtt, a path with the congestion control of the configuration.
//!
//! ```
//! use manypath_wasm::{Kind, Module};
//!
//! let file = concat!(env!("CARGO_MANIFEST_DIR"), "/schedulers/blest.wasm");
//! let module = Module::load(Kind::PathScheduler, file.as_ref()).unwrap();
//! let scheduler = module.schedulers().begin();
//! assert_eq!((module.usage().calls, module.failure()), (0, None));
//! ```

#![forbid(unsafe_code)]

mod control;
mod instance;
mod layout;
mod scheduler;

pub use layout::{CONTROL_VIEW_LEN, VIEW_LEN};

use control::Control;
use manypath_engine::{CongestionController, CongestionControllers, PathScheduler, PathSchedulers};
use scheduler::{Scheduler, SmallestSrtt};
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
/// What the memory and the tables of one scheduler or control may grow to, in bytes.
pub const MAX_MEMORY: usize = 1 << 20;
/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// What a module is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It chooses paths for an association.
    PathScheduler,
    /// It moves the congestion window of a path.
    CongestionControl,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PathScheduler => "path scheduler",
            Self::CongestionControl => "congestion control",
        })
    }
}

/// Why a module cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleError {
    kind: Kind,
    file: String,
    reason: String,
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.kind, self.file, self.reason)
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
    kind: Kind,
    code: wasmi::Module,
    name: Arc<str>,
    ledger: Arc<Ledger>,
}

/// What happens to what a module has made.
#[derive(Debug, Default)]
struct Ledger {
    calls: AtomicU64,
    instructions: AtomicU64,
    fault: OnceLock<String>,
}

impl Module {
    /// Reads a module and starts it once, so that a wrong one is found before a run begins.
    ///
    /// # Errors
    /// A file that cannot be read, or is no module as described above.
    pub fn load(kind: Kind, file: &Path) -> Result<Self, ModuleError> {
        let shown = file.display().to_string();
        let error = |reason: String| ModuleError { kind, file: shown.clone(), reason };
        let bytes = read(file).map_err(error)?;
        Self::parse(kind, &shown, &bytes)
    }

    /// As [`Self::load`], from the bytes of a file with this name.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(kind: Kind, file: &str, bytes: &[u8]) -> Result<Self, ModuleError> {
        let error = |reason: String| ModuleError { kind, file: file.to_owned(), reason };
        let mut config = Config::default();
        config.consume_fuel(true);
        let code = wasmi::Module::new(&Engine::new(&config), bytes)
            .map_err(|reason| error(format!("not a WebAssembly module: {reason}")))?;
        let digest = Sha256::digest(bytes);
        let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
        let digest: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let (name, ledger) = (format!("{stem}-{digest}").into(), Arc::default());
        let module = Self { kind, code, name, ledger };
        match kind {
            Kind::PathScheduler => module.scheduler().map(drop),
            Kind::CongestionControl => module.control().map(drop),
        }
        .map_err(error)?;
        Ok(module)
    }

    fn scheduler(&self) -> Result<Scheduler, String> {
        Scheduler::new(&self.code, Arc::clone(&self.ledger))
    }

    fn control(&self) -> Result<Control, String> {
        Control::new(&self.code, Arc::clone(&self.ledger))
    }

    /// What it was loaded as.
    pub fn kind(&self) -> Kind {
        self.kind
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

    /// What makes a congestion control for each path.
    pub fn congestion_controllers(&self) -> Arc<dyn CongestionControllers> {
        Arc::new(self.clone())
    }

    /// What all that it has made has cost so far.
    pub fn usage(&self) -> Usage {
        Usage {
            calls: self.ledger.calls.load(Ordering::Relaxed),
            instructions: self.ledger.instructions.load(Ordering::Relaxed),
        }
    }

    /// Which scheduler or control has failed first, when, and why: it is not asked any more.
    pub fn failure(&self) -> Option<String> {
        self.ledger.fault.get().map(|fault| format!("{} {}: {fault}", self.kind, self.name))
    }
}

impl PathSchedulers for Module {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) -> Box<dyn PathScheduler> {
        match self.scheduler() {
            Ok(scheduler) => Box::new(scheduler),
            Err(reason) => {
                self.ledger.fail(reason);
                Box::new(SmallestSrtt)
            }
        }
    }
}

impl CongestionControllers for Module {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) -> Option<Box<dyn CongestionController>> {
        let control = self.control().map_err(|reason| self.ledger.fail(reason)).ok()?;
        Some(Box::new(control))
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
