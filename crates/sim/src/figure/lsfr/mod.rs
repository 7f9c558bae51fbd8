//! The tables of "Split fast retransmit for load sharing" (LSFR) on topologies of our own: its own is
//! lost. One file per table; the tables of a topology have the same runs. On paths of different delay only ratios
//! are compared, on equal paths seconds too; the search shows for which set-ups the published order holds.

mod equal;
mod search;
mod setup;
mod table1;
mod table2;
mod table3;

use super::catalogue::{Figure, no_details};

const SCENARIO: &str = include_str!("../../../../../papers/lsfr/scenario.toml");
const FILE: &str = "papers/lsfr/scenario.toml";
const EQUAL: &str = include_str!("../../../../../papers/lsfr/equal.toml");
const EQUAL_FILE: &str = "papers/lsfr/equal.toml";
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
    Figure {
        name: "lsfr-equal-table1",
        title: "Load sharing with LSFR against none on equal paths, no background traffic",
        scenario: EQUAL,
        file: EQUAL_FILE,
        notes: NOTES,
        draw: table1::draw,
        details: no_details,
        judge: equal::judge_table1,
    },
    Figure {
        name: "lsfr-equal-table2",
        title: "Load sharing with LSFR against none on equal paths, half of each used by others",
        scenario: EQUAL,
        file: EQUAL_FILE,
        notes: NOTES,
        draw: table2::draw,
        details: no_details,
        judge: table2::judge,
    },
    Figure {
        name: "lsfr-equal-table3",
        title: "Load sharing with and without LSFR on equal paths",
        scenario: EQUAL,
        file: EQUAL_FILE,
        notes: NOTES,
        draw: table3::draw,
        details: no_details,
        judge: equal::judge_table3,
    },
    Figure {
        name: "lsfr-search",
        title: "For which paths, windows and senders the published order holds",
        scenario: include_str!("../../../../../papers/lsfr/search.toml"),
        file: "papers/lsfr/search.toml",
        notes: NOTES,
        draw: search::draw,
        details: search::details,
        judge: search::judge,
    },
];
