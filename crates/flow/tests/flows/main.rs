//! Flows seen from outside: two muxes joined by messages.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod corpus;
mod crowd;
mod direct;
mod ends;
mod errors;
mod framing;
mod garbage;
mod limits;
mod many;
mod model;
mod pair;
mod properties;
mod relays;
mod replay;
mod reuse;
mod scenarios;
mod shares;
mod windows;
