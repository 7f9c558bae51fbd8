use super::*;

fn error(text: &str) -> String {
    match Trace::parse("a.trace", text) {
        Ok(trace) => panic!("accepted {text:?} as {trace:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn mistakes_are_told_with_file_line_and_what_to_do() {
    assert!(error("").starts_with("a.trace: the trace is empty: write one line per packet"));
    assert!(
        error("1\nx\n").starts_with("a.trace:2: \"x\" is not a time: write whole milliseconds")
    );
    for text in ["1.5\n", "-1\n", "+1\n", " 1\n", "1\n\n2\n", "4294967296\n"] {
        assert!(error(text).contains("is not a time"), "{text:?}");
    }
    let decreasing = error("1\n5\n4\n");
    assert!(decreasing.starts_with("a.trace:3: 4 comes after 5: sort the file"), "{decreasing}");
    assert!(error("0\n0\n").starts_with("a.trace:2: the trace ends at 0 ms"));
    let missing = Trace::load(Path::new("no/such.trace")).unwrap_err().to_string();
    assert!(missing.starts_with("no/such.trace: cannot read the trace: No such file"), "{missing}");
    assert!(missing.contains("manypath-lab trace"), "{missing}");
}

#[test]
fn text_and_trace_are_the_same() {
    let trace = Trace::parse("a", "0\n3\n3\n10\r\n").unwrap();
    assert_eq!((trace.times(), trace.to_text().as_str()), (&[0, 3, 3, 10][..], "0\n3\n3\n10\n"));
    assert_eq!(trace.period(), Duration::from_millis(10));
    // Four packets of 12,000 bit in 10 ms.
    assert_eq!(trace.mean_rate_bps(), 4_800_000);
}

#[test]
fn opportunities_are_counted_over_periods() {
    let trace = Trace::parse("a", "0\n3\n3\n10\n").unwrap();
    let count = |from, to| {
        trace.opportunities_between(Duration::from_micros(from), Duration::from_micros(to))
    };
    assert_eq!((count(0, 2999), count(0, 3000), count(2999, 3000)), (0, 2, 2));
    // The last of a period and the first of the next come at the same time.
    assert_eq!((count(3000, 9999), count(9999, 10_000), count(10_000, 13_000)), (0, 2, 2));
    assert_eq!(count(0, 1_000_000), 400);
    assert_eq!([0, 3, 4, 5, 7].map(|n| trace.time_of(n).as_millis()), [0, 10, 10, 13, 20]);
}

#[test]
fn what_comes_from_another_process_is_checked() {
    let trace = Trace::parse("a", "1\n2\n").unwrap();
    let text = serde_json::to_string(&trace).unwrap();
    assert_eq!(serde_json::from_str::<Trace>(&text).unwrap(), trace);
    assert!(serde_json::from_str::<Trace>(&text.replace("[1,2]", "[2,1]")).is_err());
    assert!(serde_json::from_str::<Trace>(&text.replace("[1,2]", "[]")).is_err());
}

#[test]
fn ids_of_runs_depend_on_the_times() {
    let debug = |text| format!("{:?}", Trace::parse("a", text).unwrap());
    assert_ne!(debug("1\n2\n"), debug("2\n2\n"));
    assert!(debug("1\n2\n").len() < 80);
}
