//! The tables on equal paths with short queues, where times can be compared in seconds.

use super::setup::{LSFR, NO_LS, NO_LSFR, ROWS, mean};
use super::{table1, table3};
use crate::figure::curves::Runs;
use crate::figure::verdict::Criterion;

/// How far a time may be off the published one.
const TOLERANCE: f64 = 0.02;

pub(super) fn judge_table1(runs: &Runs<'_>) -> Vec<Criterion> {
    let mut out = table1::judge(runs);
    out.extend(seconds(runs, LSFR, [2.999, 14.434]));
    out.extend(seconds(runs, NO_LS, [6.842, 28.176]));
    out
}

pub(super) fn judge_table3(runs: &Runs<'_>) -> Vec<Criterion> {
    let mut out = table3::judge(runs);
    out.extend(seconds(runs, NO_LSFR, [5.203, 52.803]));
    out
}

/// Times of 1 MB and 5 MB over two paths without loss, with the four reports of RFC 2960.
fn seconds(runs: &Runs<'_>, case: &str, published: [f64; 2]) -> [Criterion; 2] {
    [(ROWS[0], published[0]), (ROWS[1], published[1])].map(|(row, published)| {
        let setup = row.setup((2, "4"), false);
        let ours = mean(setup.of(runs, case, |record| record.figure("duration_s")));
        let off = ours / published - 1.0;
        Criterion::new(
            format!("{}, {}: time, {case}", setup.name(), row.name()),
            &format!("{published:.3} s"),
            format!("{ours:.3} s ({:+.1} %)", off * 100.0),
            "2 %",
            off.abs() <= TOLERANCE,
        )
    })
}
