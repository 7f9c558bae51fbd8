use super::setup::{
    KINDS, LSFR, MB_1, MB_5, NO_LS, NO_LSFR, Row, Setup, bars, mean, panel, published,
    retransmitted,
};
use crate::figure::curves::Runs;
use crate::figure::plot::{Chart, Curve};
use crate::figure::verdict::Criterion;

/// Rows 2 and 1 of the table; its rows 3 and 4 belong to nothing.
const ROWS: [Row; 2] = [Row { plr: "0", bytes: MB_1 }, Row { plr: "0", bytes: MB_5 }];

pub(super) fn draw(runs: &Runs<'_>) -> Chart {
    let curves = |value: &dyn Fn(Setup) -> _, last: &[f64]| -> Vec<Curve> {
        let ours = KINDS.iter().zip(1..).map(|(kind, number)| {
            let setups = ROWS.map(|row| row.setup(*kind, false));
            bars(number, &setups[0].name(), setups.into_iter().map(value))
        });
        ours.chain([published(KINDS.len() + 1, last)]).collect()
    };
    let groups = || ROWS.map(Row::name).to_vec();
    let time = |a: &'static str, b: &'static str| move |s: Setup| s.time_ratio(runs, a, b);
    let again = |case: &'static str| move |s: Setup| s.of(runs, case, retransmitted);
    let panels = vec![
        panel("Time with LSFR / without", groups(), curves(&time(LSFR, NO_LSFR), &[0.58, 0.27])),
        panel(
            "Time without LSFR / without load sharing",
            groups(),
            curves(&time(NO_LSFR, NO_LS), &[0.76, 1.87]),
        ),
        panel("Retransmission ratio with LSFR", groups(), curves(&again(LSFR), &[0.0, 0.0])),
        panel("Retransmission ratio without", groups(), curves(&again(NO_LSFR), &[0.073, 0.015])),
    ];
    Chart { title: "Load sharing with and without LSFR (Table 3)".into(), panels }
}

pub(super) fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    KINDS.into_iter().flat_map(|kind| at_5_mb(runs, ROWS[1].setup(kind, false))).collect()
}

fn at_5_mb(runs: &Runs<'_>, setup: Setup) -> [Criterion; 3] {
    let name = format!("{}, PLR 0, 5 MB", setup.name());
    let gain = mean(setup.time_ratio(runs, LSFR, NO_LSFR));
    let again = mean(setup.of(runs, NO_LSFR, retransmitted));
    let (with, without) =
        (mean(setup.time_ratio(runs, LSFR, NO_LS)), mean(setup.time_ratio(runs, NO_LSFR, NO_LS)));
    [
        Criterion::new(
            format!("{name}: time with LSFR / without"),
            "0.27 (topology unknown)",
            format!("{gain:.2}"),
            "<= 0.6",
            gain <= 0.6,
        ),
        Criterion::new(
            format!("{name}: retransmitted without LSFR"),
            "0.015 (topology unknown)",
            format!("{again:.3}"),
            "> 0.01 of the file",
            again > 0.01,
        ),
        Criterion::new(
            format!("{name}: LSFR is faster than no load sharing, that faster than no LSFR"),
            "14.4, 28.2, 52.8 s",
            format!("{with:.2}, 1, {without:.2}"),
            "order",
            with < 1.0 && 1.0 < without,
        ),
    ]
}
