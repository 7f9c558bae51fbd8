//! Files of keys, also such that others have written.
mod common;
mod files;
mod fingerprints;
mod formats;
mod ssh;
mod tickets;
mod verdicts;
