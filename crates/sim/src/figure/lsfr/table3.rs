use super::setup::{
    KINDS, LSFR, MB_1, MB_5, NO_LS, NO_LSFR, PART, RATIO, Row, Setup, bars, mean, panel, published,
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
        panel(
            "Time with LSFR / without",
            RATIO,
            groups(),
            curves(&time(LSFR, NO_LSFR), &[0.58, 0.27]),
        ),
        panel(
            "Time without LSFR / without load sharing",
            RATIO,
            groups(),
            curves(&time(NO_LSFR, NO_LS), &[0.76, 1.87]),
        ),
        panel("Retransmission ratio with LSFR", PART, groups(), curves(&again(LSFR), &[0.0, 0.0])),
        panel(
            "Retransmission ratio without",
            PART,
            groups(),
            curves(&again(NO_LSFR), &[0.073, 0.015]),
        ),
    ];
    Chart { title: "Load sharing with and without LSFR (Table 3)".into(), panels }
}

/// What the paper has of a row: both ratios, and times in seconds with LSFR, without it and without load
/// sharing.
struct Published {
    gain: &'static str,
    again: &'static str,
    times: [f64; 3],
}

const PUBLISHED: [Published; 2] = [
    Published { gain: "0.58", again: "0.073", times: [2.999, 5.203, 6.842] },
    Published { gain: "0.27", again: "0.015", times: [14.434, 52.803, 28.176] },
];

pub(super) fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    let rows = || ROWS.into_iter().zip(&PUBLISHED);
    let all = KINDS.into_iter().flat_map(|kind| rows().map(move |row| (kind, row)));
    all.flat_map(|(kind, (row, published))| of_row(runs, kind, row, published)).collect()
}

fn of_row(
    runs: &Runs<'_>,
    kind: (usize, &'static str),
    row: Row,
    published: &Published,
) -> [Criterion; 3] {
    let setup = row.setup(kind, false);
    let name = format!("{}, {}", setup.name(), row.name());
    let gain = mean(setup.time_ratio(runs, LSFR, NO_LSFR));
    let again = mean(setup.of(runs, NO_LSFR, retransmitted));
    [
        Criterion::new(
            format!("{name}: time with LSFR / without"),
            &format!("{} (topology unknown)", published.gain),
            format!("{gain:.2}"),
            "<= 0.6",
            gain <= 0.6,
        ),
        Criterion::new(
            format!("{name}: retransmitted without LSFR"),
            &format!("{} (topology unknown)", published.again),
            format!("{again:.3}"),
            "> 0.01 of the file",
            again > 0.01,
        ),
        order(runs, setup, &name, published.times),
    ]
}

/// LSFR is the fastest. Without it load sharing is slower than none at 5 MB, and faster at 1 MB.
fn order(runs: &Runs<'_>, setup: Setup, name: &str, [lsfr, no_lsfr, none]: [f64; 3]) -> Criterion {
    let to_none = |case| mean(setup.time_ratio(runs, case, NO_LS));
    let (with, without) = (to_none(LSFR), to_none(NO_LSFR));
    let slower = no_lsfr > none;
    let what = match slower {
        true => "LSFR is faster than no load sharing, that faster than no LSFR",
        false => "LSFR is faster than no LSFR, that faster than no load sharing",
    };
    let met = match slower {
        true => with < 1.0 && 1.0 < without,
        false => with < without && without < 1.0,
    };
    Criterion::new(
        format!("{name}: {what}"),
        &format!("{lsfr:.1}, {none:.1}, {no_lsfr:.1} s"),
        format!("{with:.2}, 1, {without:.2}"),
        "order",
        met,
    )
}
