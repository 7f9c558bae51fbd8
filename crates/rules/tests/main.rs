//! The tests of rules, in one binary.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod table;
mod words;
