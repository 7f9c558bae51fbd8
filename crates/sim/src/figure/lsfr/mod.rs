//! The tables of "Split fast retransmit for load sharing" (LSFR) on a topology of our own: its own is
//! lost, so only ratios are compared. One file per table; all have the same runs.

mod setup;
mod table1;
mod table2;
mod table3;

use super::catalogue::{Figure, no_details};

const SCENARIO: &str = include_str!("../../../../../papers/lsfr/scenario.toml");
const FILE: &str = "papers/lsfr/scenario.toml";
const NOTES: &str = include_str!("../../../../../papers/lsfr/notes.md");

/// All tables of the paper.
pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "lsfr-table1",
        title: "Load sharing with LSFR against none, no background traffic",
        scenario: SCENARIO,
        file: FILE,
        notes: NOTES,
        draw: table1::draw,
        details: no_details,
        judge: table1::judge,
    },
    Figure {
        name: "lsfr-table2",
        title: "Load sharing with LSFR against none, half of each path used by others",
        scenario: SCENARIO,
        file: FILE,
        notes: NOTES,
        draw: table2::draw,
        details: no_details,
        judge: table2::judge,
    },
    Figure {
        name: "lsfr-table3",
        title: "Load sharing with and without LSFR",
        scenario: SCENARIO,
        file: FILE,
        notes: NOTES,
        draw: table3::draw,
        details: no_details,
        judge: table3::judge,
    },
];
