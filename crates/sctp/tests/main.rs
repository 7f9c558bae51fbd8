//! The tests of the library for C programs, in one binary.

mod header;
mod programs;
mod support;
