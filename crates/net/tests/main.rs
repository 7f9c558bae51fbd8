//! The tests of the driver, in one binary. Namespaces are entered by single threads, so they need no process of their own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the test")]

mod driver;
mod interop;
mod native;
mod path_mtu;
mod support;
mod usrsctp;
