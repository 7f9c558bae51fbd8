//! Checks of the workspace as a whole live in `tests/`; here is what they and the `requirements`
//! command share: reading RFCs, the tables that say how each requirement is met, and the checklist.

mod checklist;
mod report;
mod specification;
mod table;

pub use checklist::{Row, checklist};
pub use report::{Totals, page, totals};
pub use specification::{Level, Section, Sentence, Specification};
pub use table::{Requirement, Status, Table, skeleton};

use std::path::{Path, PathBuf};

/// The workspace's root folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// The RFCs whose requirements are tracked, in the order of the report: number and subject.
pub const RFCS: &[(&str, &str)] = &[
    ("rfc9260", "Stream Control Transmission Protocol"),
    ("rfc3758", "Partial reliability"),
    ("rfc4820", "Padding chunk and parameter"),
    ("rfc4895", "Authenticated chunks"),
    ("rfc5061", "Dynamic address reconfiguration"),
    ("rfc6525", "Stream reconfiguration"),
    ("rfc6951", "UDP encapsulation"),
    ("rfc7496", "Further policies of partial reliability"),
    ("rfc7829", "Potentially failed paths"),
    ("rfc8260", "Stream schedulers and interleaving"),
    ("rfc8899", "Path MTU discovery with probes"),
];
