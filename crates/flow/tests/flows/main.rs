//! Flows seen from outside: two muxes joined by messages.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod ends;
mod errors;
mod limits;
mod model;
mod pair;
mod properties;
mod reuse;
mod scenarios;
