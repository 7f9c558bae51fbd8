//! Messages between launcher, daemon and command line.
