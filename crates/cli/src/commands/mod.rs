//! One file per command.

pub(crate) mod attach;
pub(crate) mod cache;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod enable;
pub(crate) mod gateway;
pub(crate) mod key;
pub(crate) mod metrics;
mod outcome;
pub(crate) mod path;
pub(crate) mod preload;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod serve;
mod shared;
pub(crate) mod stack;
mod stack_options;
mod stacks;
pub(crate) mod status;

use manypath_cli::print;

/// Version of what `run --json` and `status --json` print. It rises when a field goes or changes its meaning, not when
/// one is added.
const SCHEMA: u32 = 1;
