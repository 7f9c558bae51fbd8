//! Messages between launcher, daemon and command line.

pub mod status;
