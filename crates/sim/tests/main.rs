//! The tests of the simulator, in one binary: each file on its own would link the whole workspace again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the test")]

mod bbr;
mod campaigns;
mod capture;
mod controls;
mod coverage;
mod delivery;
mod determinism;
mod dynamic_figure;
mod ecn;
mod failover;
mod fairness;
mod fat_paths;
mod figures;
mod goodput;
mod grid;
mod latency;
mod loss_recovery;
mod mapping;
mod memory_of_fat_paths;
mod mtu;
mod options;
mod paper;
mod policies;
mod reduced;
mod redundant;
mod routes;
mod scenarios;
mod schedulers;
mod sharing;
mod slow_start;
mod support;
mod theory;
mod traces;
mod variants;
mod windows;
