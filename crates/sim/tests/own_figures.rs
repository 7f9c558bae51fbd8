//! Figures that scenario files describe.

use crate::support::execute;
use manypath_sim::figure::{check, draw, plot};
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::figure_names;

const EXAMPLE: &str = include_str!("../../../papers/mathis1997/scenario.toml");
const SHORT: [(&str, &str); 3] = [("seeds", "2"), ("warmup", "\"1s\""), ("measure", "\"2s\"")];

fn parse(text: &str, set: &[(&str, &str)]) -> Result<Plan, String> {
    let set: Vec<_> = set.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Plan::parse(text, "scenario.toml", &set).map_err(|error| error.to_string())
}

#[test]
fn the_example_is_drawn_with_its_curves_and_what_was_published() {
    let plan = parse(EXAMPLE, &SHORT).unwrap();
    let records = execute(&plan, "own-example");
    let chart = draw(&plan.figures[0], &plan, &records).unwrap();
    let [panel] = &chart.panels[..] else { panic!("one panel") };
    let names: Vec<_> = panel.curves.iter().map(|curve| curve.name.as_str()).collect();
    assert_eq!(names, ["RFC 9260", "CUBIC (RFC 9438)"]);
    for (curve, case) in panel.curves.iter().zip(&plan.cases) {
        let places: Vec<_> = curve.points.iter().map(|p| (p.x * 100.0).round() as i64).collect();
        assert_eq!((places, curve.points[0].count), (vec![10, 25, 50, 100, 200], 2));
        let first = records.iter().filter(|r| r.case == *case).take(2);
        let mean = first.map(|record| record.figure("throughput_mbps")).sum::<f64>() / 2.0;
        assert!((curve.points[0].y - mean).abs() < 1e-9, "{case}");
    }
    assert_eq!((panel.published.len(), panel.published[0].curve), (5, 1));
    let picture = plot::to_svg(&chart);
    assert!(picture.contains("Goodput [Mbit/s]") && picture.contains("published"));
}

#[test]
fn without_curves_there_is_one_for_each_case_and_value_and_names_become_groups() {
    let (head, _) = EXAMPLE.split_once("[[figure]]").unwrap();
    let figure = |x: &str| {
        format!(
            "{head}[[figure]]\nname = \"f\"\nx = \"{x}\"\ny = [\"throughput_mbps\", \"delay_ms\"]\n"
        )
    };
    let short = [&SHORT[..], &[("sweep", "{ \"path.A.loss\" = [\"0.1%\", \"1%\"] }")]].concat();
    let plan = parse(&figure("case"), &short).unwrap();
    let records = execute(&plan, "own-groups");
    let chart = draw(&plan.figures[0], &plan, &records).unwrap();
    assert_eq!(chart.panels.len(), 2);
    assert_eq!(chart.panels[1].groups, ["RFC 9260", "CUBIC"]);
    let names: Vec<_> = chart.panels[0].curves.iter().map(|curve| curve.name.as_str()).collect();
    assert_eq!(names, ["path.A.loss=0.1%", "path.A.loss=1%"]);
    let plan = parse(&figure("path.A.loss"), &short).unwrap();
    let chart = draw(&plan.figures[0], &plan, &records).unwrap();
    let names: Vec<_> = chart.panels[0].curves.iter().map(|curve| curve.name.as_str()).collect();
    assert_eq!(names, ["RFC 9260", "CUBIC"]);
    assert!(chart.panels[0].groups.is_empty());
    let cdf = format!("{head}[[figure]]\nname = \"delays\"\ncdf = \"delay\"\n");
    let distributed = parse(&cdf, &short).unwrap();
    let chart = draw(&distributed.figures[0], &distributed, &records).unwrap();
    let [curve, ..] = &chart.panels[0].curves[..] else { panic!("a curve for each case") };
    assert_eq!(
        (chart.panels[0].curves.len(), curve.name.as_str()),
        (4, "RFC 9260, path.A.loss=0.1%")
    );
    assert!(curve.points.windows(2).all(|two| two[0].x <= two[1].x && two[0].y < two[1].y));
    assert_eq!(curve.points.last().map(|point| point.y), Some(100.0));
    let wrong = parse(&cdf.replace("cdf =", "x = \"case\"\ncdf ="), &short).unwrap_err();
    assert!(wrong.contains("figure.delays.x: unknown key"), "{wrong}");
    let unknown = plan.figures[0].clone();
    let unknown =
        manypath_sim::scenario::FigureSpec { y: vec![("rate".into(), String::new())], ..unknown };
    let error = draw(&unknown, &plan, &records).unwrap_err();
    assert!(error.contains("no run has a value of rate; there are throughput_mbps"), "{error}");
}

#[test]
fn what_a_figure_names_must_be_there() {
    let wrong = |line: &str, other: &str, message: &str| {
        assert!(EXAMPLE.contains(line), "{line}");
        let error = parse(&EXAMPLE.replacen(line, other, 1), &[]).unwrap_err();
        assert!(error.contains(message), "{error}");
    };
    wrong("x = \"path.A.loss\"", "x = \"path.A.delay\"", "allowed are path.A.loss, case, setup");
    wrong("x_unit = \"%\"", "x_unit = \"percent\"", "figure.goodput.x_unit: allowed are s, ms");
    wrong("name = \"goodput\"", "name = \"../goodput\"", "becomes the name of files");
    wrong("y = \"throughput_mbps\"", "y = 3", "expected a figure of the runs");
    wrong("y_label =", "y_labl =", "did you mean \"y_label\"?");
    wrong("case = \"CUBIC\"", "case = \"BBR\"", "allowed are RFC 9260, CUBIC");
    wrong("case = \"CUBIC\"", "case = \"CUBICS\"", "allowed are RFC 9260, CUBIC");
    wrong("case = \"CUBIC\"", "with = { \"path.A.loss\" = \"3%\" }", "path.A.loss is never 3%");
    wrong("curve = \"RFC 9260\"", "curve = \"Reno\"", "is not the name of a [[figure.curve]]");
}

#[test]
fn a_name_that_no_run_has_is_an_error_before_any_run() {
    let (head, _) = EXAMPLE.split_once("[[figure]]").unwrap();
    let app = "[[app]]\nkind = \"request-response\"\nname = \"ask\"\n";
    let checked = |figure: &str| {
        let text = format!("{head}{app}[[figure]]\nname = \"f\"\n{figure}\n");
        check(&parse(&text, &SHORT).unwrap())
    };
    for right in ["y = [\"throughput_mbps\", \"A_timeouts\"]", "y = \"ask_answer_delay_p99_ms\""] {
        assert_eq!(checked(&format!("x = \"case\"\n{right}")), Ok(()));
    }
    for right in ["delay", "ask_delay", "ask_answer_delay"] {
        assert_eq!(checked(&format!("cdf = \"{right}\"")), Ok(()));
    }
    let wrong = checked("x = \"case\"\ny = [\"delay_ms\", \"troughput_mbps\"]").unwrap_err();
    let start = "figure.f.y: no run has \"troughput_mbps\" (did you mean \"throughput_mbps\"?); there are throughput_mbps, ";
    assert!(wrong.starts_with(start) && wrong.contains(", A_timeouts, "), "{wrong}");
    let wrong = checked("cdf = \"voice_delay\"").unwrap_err();
    assert!(
        wrong.starts_with("figure.f.cdf: no run has \"voice_delay\"; there are delay, "),
        "{wrong}"
    );
    assert!(!wrong.contains("_mbps"), "{wrong}");
}

#[test]
fn the_names_before_a_run_are_those_of_its_results() {
    let app = "[[app]]\nkind = \"request-response\"\nname = \"ask\"\n";
    let (head, _) = EXAMPLE.split_once("[[figure]]").unwrap();
    // Alone: the other application leaves no room in the send buffer.
    let saturated = "[[app]]\nkind = \"saturated\"\nmessage = 1444\n";
    assert!(head.contains(saturated));
    let plan = parse(&head.replace(saturated, app), &SHORT).unwrap();
    let run = &plan.runs[0];
    let outcome = manypath_sim::simulation::run(&run.scenario, run.seed, Default::default());
    let mut had: Vec<_> = outcome.figures.into_iter().map(|(name, _)| name).collect();
    let mut told = figure_names(&run.scenario);
    assert!(had.contains(&"ask_answer_delay_ms".to_owned()));
    had.sort();
    told.sort();
    assert_eq!(had, told);
}
