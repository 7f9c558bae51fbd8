//! Flows seen from outside: two muxes joined by messages.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod model;
mod pair;
mod properties;
mod scenarios;
