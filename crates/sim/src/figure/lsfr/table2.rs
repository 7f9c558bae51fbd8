use super::setup::KINDS;
use super::table1::{Published, panels, retransmits_less, speed_ups};
use crate::figure::curves::Runs;
use crate::figure::plot::Chart;
use crate::figure::verdict::Criterion;

const PUBLISHED: Published = Published {
    speed_up: [2.58, 3.30, 2.67, 2.84],
    retransmitted: [0.002, 0.001, 0.0, 0.006],
    retransmitted_without: [0.047, 0.009, 0.038, 0.009],
};

pub(super) fn draw(runs: &Runs<'_>) -> Chart {
    let title = "Load sharing with LSFR against none, half of each path used by others (Table 2)";
    Chart { title: title.into(), panels: panels(runs, true, &PUBLISHED) }
}

pub(super) fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    let mut out = speed_ups(runs, true, PUBLISHED.speed_up);
    out.extend(KINDS.map(|kind| retransmits_less(runs, kind, true, &PUBLISHED)));
    out
}
