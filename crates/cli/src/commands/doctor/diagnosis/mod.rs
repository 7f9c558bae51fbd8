//! From findings to causes: what is wrong, the worst first, and how to fix it. No I/O here.

mod cause;
mod host;
mod path;
mod quality;
mod service;
#[cfg(test)]
mod tests;

use super::findings::Findings;
pub(super) use cause::{Cause, Place, Weight};

/// Judges what was found.
pub(super) fn diagnose(findings: &Findings) -> Vec<Cause> {
    let mut causes = host::causes(findings);
    causes.extend(path::causes(findings));
    causes.extend(quality::causes(findings));
    causes.extend(service::causes(findings));
    // Stable: among equals what comes first on the way comes first.
    causes.sort_by_key(|cause| cause.weight);
    causes
}

/// Whether there is nothing to mend.
pub(super) fn is_well(causes: &[Cause]) -> bool {
    causes.iter().all(|cause| cause.weight == Weight::Note)
}
