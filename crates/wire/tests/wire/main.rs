//! Tests of the crate from outside: whole packets, foreign packets, random packets.
#![forbid(unsafe_code)]

mod arbitrary;
mod captures;
mod corpus;
mod emit;
mod exhaustive;
mod golden;
mod reparse;
mod round_trip;
