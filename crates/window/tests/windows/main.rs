//! Windows over a small model of a path, and against a reference model.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod lean;
mod memory;
mod model;
mod others;
mod path;
mod rule;
