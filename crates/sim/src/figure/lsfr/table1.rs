use super::setup::{
    KINDS, LSFR, NO_LS, PART, RATIO, ROWS, Setup, bars, mean, needless, panel, published,
    retransmitted,
};
use crate::figure::curves::Runs;
use crate::figure::plot::{Chart, Curve, Panel};
use crate::figure::verdict::Criterion;

/// What the paper has, in the order of the rows.
pub(super) struct Published {
    pub(super) speed_up: [f64; 4],
    pub(super) retransmitted: [f64; 4],
    pub(super) retransmitted_without: [f64; 4],
}

const PUBLISHED: Published = Published {
    speed_up: [2.28, 1.95, 2.65, 2.78],
    retransmitted: [0.0, 0.0, 0.003, 0.002],
    retransmitted_without: [0.023, 0.005, 0.010, 0.013],
};

pub(super) fn draw(runs: &Runs<'_>) -> Chart {
    let title = "Load sharing with LSFR against none, no background traffic (Table 1)".into();
    Chart { title, panels: panels(runs, false, &PUBLISHED) }
}

/// Speed-up and retransmissions, as Tables 1 and 2 have them.
pub(super) fn panels(runs: &Runs<'_>, background: bool, published_: &Published) -> Vec<Panel> {
    let setups = |kind| ROWS.map(|row| row.setup(kind, background));
    let curves = |number: usize, value: &dyn Fn(Setup) -> _, last: &[f64]| -> Vec<Curve> {
        let kinds = KINDS.iter().zip(number..);
        let ours = kinds.map(|(kind, number)| {
            let name = setups(*kind)[0].name();
            bars(number, &name, setups(*kind).into_iter().map(value))
        });
        ours.chain([published(number + KINDS.len(), last)]).collect()
    };
    let groups = || ROWS.map(super::setup::Row::name).to_vec();
    let speed_up = |setup: Setup| setup.time_ratio(runs, NO_LS, LSFR);
    let with = |setup: Setup| setup.of(runs, LSFR, retransmitted);
    let without = |setup: Setup| setup.of(runs, NO_LS, retransmitted);
    vec![
        panel(
            "Time without load sharing / with",
            RATIO,
            groups(),
            curves(1, &speed_up, &published_.speed_up),
        ),
        panel(
            "Retransmission ratio with load sharing",
            PART,
            groups(),
            curves(1, &with, &published_.retransmitted),
        ),
        panel(
            "Retransmission ratio without",
            PART,
            groups(),
            curves(1, &without, &published_.retransmitted_without),
        ),
    ]
}

pub(super) fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    let mut out = speed_ups(runs, false, PUBLISHED.speed_up);
    for (kind, row) in KINDS.into_iter().flat_map(|kind| [ROWS[0], ROWS[1]].map(|row| (kind, row)))
    {
        let setup = row.setup(kind, false);
        let ours = mean(setup.of(runs, LSFR, needless));
        let all = mean(setup.of(runs, LSFR, retransmitted));
        out.push(Criterion::new(
            format!("{}, {}: retransmitted with LSFR, and not lost", setup.name(), row.name()),
            "0",
            format!("{ours:.4} (and {:.4} that queues dropped)", all - ours),
            "< 0.002 of the file",
            ours < 0.002,
        ));
    }
    out.extend(KINDS.map(|kind| retransmits_less(runs, kind, false, &PUBLISHED)));
    out
}

/// "Much less retransmissions": load sharing with LSFR against none, in every row.
pub(super) fn retransmits_less(
    runs: &Runs<'_>,
    kind: (usize, &'static str),
    background: bool,
    published: &Published,
) -> Criterion {
    let setups = ROWS.map(|row| row.setup(kind, background));
    let ours = |case: &str| setups.map(|setup| mean(setup.of(runs, case, retransmitted)));
    let (with, without) = (ours(LSFR), ours(NO_LS));
    let list = |values: [f64; 4]| values.map(|value| format!("{value:.3}")).join(", ");
    Criterion::new(
        format!("{}: load sharing retransmits less than none in every row", setups[0].name()),
        &format!("{} < {}", list(published.retransmitted), list(published.retransmitted_without)),
        format!("{} and {}", list(with), list(without)),
        "less",
        with.iter().zip(without).all(|(with, without)| *with < without),
    )
}

/// Load sharing uses what the paths have.
pub(super) fn speed_ups(runs: &Runs<'_>, background: bool, published: [f64; 4]) -> Vec<Criterion> {
    let rows = ROWS.into_iter().zip(published);
    let all = KINDS.into_iter().flat_map(|kind| rows.clone().map(move |row| (kind, row)));
    let criterion = |(kind, (row, value)): (_, (super::setup::Row, f64))| {
        let setup = row.setup(kind, background);
        let (ours, least) = (mean(setup.time_ratio(runs, NO_LS, LSFR)), 0.9 * setup.rates());
        Criterion::new(
            format!("{}, {}: speed-up by load sharing", setup.name(), row.name()),
            &format!("{value} (topology unknown)"),
            format!("{ours:.2}"),
            &format!(">= {least:.2}: 0.9 of all paths' rate in the primary's"),
            ours >= least,
        )
    };
    all.map(criterion).collect()
}
