//! The tests of the sockets API, in one binary.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it is for tests")]

mod common;
mod linux;
mod options;
mod pair;
mod parts;
