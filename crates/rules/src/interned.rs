//! Texts of options that stay for the life of the process, so that options can be copied: files and commands name few.

use std::sync::{Mutex, PoisonError};

/// Texts that were read.
pub(crate) type Known = Mutex<Vec<&'static str>>;

/// The text as it is kept.
pub(crate) fn keep(known: &Known, text: &str) -> &'static str {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.iter().copied().find(|kept| *kept == text).unwrap_or_else(|| {
        let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
        known.push(kept);
        kept
    })
}
