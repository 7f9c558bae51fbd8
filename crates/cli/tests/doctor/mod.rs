//! `manypath doctor` in prepared broken setups: it names the cause, and the command that it prints mends it.
//! `docs/doctor.md` has the list.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that meets the unexpected has failed"
)]

mod files;
mod firewalls;
mod patient;
mod peers;
mod routes;
mod speed;
mod well;
