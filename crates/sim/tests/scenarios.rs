//! Scenario files: what they mean, what is wrong with them, and what comes out.

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{Outcome, RunOptions, run};

const TWO_PATHS: &str = r#"name = "two"
warmup = "1s"
measure = "3s"
udp = false

[engine]
buffer = "128KiB"

[[path]]
name = "A"
rate = "10mbit"
delay = "10ms"

[[path]]
name = "B"
rate = "5mbit"
delay = "20ms"

[[app]]
kind = "saturated"
streams = 2
"#;

fn plan(text: &str) -> Plan {
    Plan::parse(text, "test.toml", &[]).unwrap_or_else(|e| panic!("{e}"))
}

fn error(text: &str) -> String {
    match Plan::parse(text, "test.toml", &[]) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

/// The error about `TWO_PATHS` with one line replaced.
fn error_with(line: &str, replacement: &str) -> String {
    assert!(TWO_PATHS.contains(line), "{line}");
    error(&TWO_PATHS.replacen(line, replacement, 1))
}

fn first(text: &str) -> Outcome {
    let plan = plan(text);
    run(&plan.runs[0].scenario, plan.runs[0].seed, RunOptions::default())
}

#[test]
fn errors_name_file_line_column_and_key_and_what_is_allowed() {
    let expected = [
        (
            "delay = \"10ms\"",
            "dealy = \"10ms\"",
            "test.toml:12:1: path.A.dealy: unknown key (did you mean \"delay\"?); allowed are name, mtu",
        ),
        ("delay = \"20ms\"", "delay = 20", "test.toml:17:1: path.B.delay: expected a time such as"),
        ("rate = \"5mbit\"", "rate = \"0mbit\"", "test.toml:16:1: path.B.rate: a rate is between"),
        (
            "buffer = \"128KiB\"",
            "bufer = 1",
            "test.toml:7:1: engine.bufer: the engine has no such option (did you mean \"buffer\"?); allowed are receive_buffer",
        ),
        (
            "buffer = \"128KiB\"",
            "congestion = \"reno\"",
            "test.toml:7:1: engine.congestion: unknown congestion control \"reno\", allowed are rfc9260",
        ),
        (
            "kind = \"saturated\"",
            "kind = \"greedy\"",
            "test.toml:20:1: app.0.kind: expected one of saturated, file, request-response, on-off, channel, connection, not \"greedy\"",
        ),
        ("kind = \"saturated\"", "", "test.toml:19:1: app.0.kind: is missing"),
        ("name = \"B\"", "name = \"A\"", "test.toml:15:1: path.A.name: there are two paths \"A\""),
        ("streams = 2", "streams = 2\nbytes = 5", "app.0.bytes: unknown key"),
        ("measure = \"3s\"", "measure = 0", "test.toml:3:1: measure: a run takes more than 0"),
        ("udp = false", "udp = = 1", "test.toml:4:7: "),
        ("udp = false", "seeds = [1, 1]", "test.toml:4:1: seeds: expected"),
    ];
    for (line, replacement, message) in expected {
        let error = error_with(line, replacement);
        assert!(
            error.starts_with(message) || error.contains(message),
            "{error}\nis not\n{message}"
        );
        assert!(error.starts_with("test.toml:"), "{error}");
    }
}

#[test]
fn sweeps_and_cases_are_checked_too() {
    let sweep = |text: &str| format!("{TWO_PATHS}\n{text}");
    let error_of = |text: &str| error(&sweep(text));
    assert!(
        error_of("[sweep]\n\"path.B.dealy\" = [\"1ms\"]").contains("path.B.dealy: unknown key")
    );
    assert!(
        error_of("[sweep]\n\"path.B.delay\" = [\"1ms\", \"x\"]")
            .contains("path.B.delay: expected a time")
    );
    assert!(error_of("[sweep]\n\"path.X.delay\" = [\"1ms\"]").contains("there is no \"X\""));
    assert!(error_of("[sweep]\npath.B.delay = [\"1ms\"]").contains("quote dotted keys"));
    assert!(
        error_of("[[case]]\nname = \"a\"\nset = { \"engine.x\" = 1 }")
            .contains("engine.x: the engine")
    );
    assert!(error_of("[[case]]\nname = \"a\"\n[[case]]\nname = \"a\"").contains("two cases"));
}

#[test]
fn a_profile_is_the_base_of_the_other_options() {
    let text = TWO_PATHS.replace("[engine]", "[engine]\nhystart = true\nprofile = \"paper\"");
    let config = plan(&text).runs[0].scenario.config.clone();
    assert!(config.hystart && config.experiment.delayed_ack_cmt);
    assert_eq!(config.rto_initial.as_secs(), 3);
    let wrong = error_with("buffer = \"128KiB\"", "profile = \"papper\"");
    assert!(
        wrong.contains("engine.profile: expected one of production, dynamic, paper"),
        "{wrong}"
    );
}

#[test]
fn a_plan_has_cases_times_sweep_times_seeds() {
    let text = format!(
        "seeds = 3\n{TWO_PATHS}
[sweep]
\"path.B.delay\" = [\"20ms\", \"70ms\"]
\"engine.buffer\" = [\"64KiB\", \"1MiB\"]
[[case]]
name = \"one\"
set = {{ \"engine.multipath\" = false }}
[[case]]
name = \"all\"
"
    );
    let plan = plan(&text);
    assert_eq!(plan.runs.len(), 2 * 2 * 2 * 3);
    assert_eq!(plan.swept, ["path.B.delay", "engine.buffer"]);
    let last = &plan.runs[23];
    assert_eq!(
        (last.case.as_str(), last.seed, last.point.join(" ")),
        ("all", 3, "70ms 1MiB".into())
    );
    let parameters = last.scenario.parameters();
    let value = |name: &str| parameters.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    assert_eq!(value("path.B.delay"), Some("0.07"));
    assert_eq!(value("engine.buffer"), Some("1048576"));
    assert_eq!(value("engine.multipath"), Some("true"));
    assert!(!plan.runs[0].scenario.config.multipath);
}

#[test]
fn the_command_line_replaces_keys() {
    let set = [("path.B.rate".to_owned(), "\"7mbit\"".to_owned()), ("measure".into(), "9s".into())];
    let plan = Plan::parse(TWO_PATHS, "test.toml", &set).unwrap();
    let scenario = &plan.runs[0].scenario;
    assert_eq!(scenario.paths[1].forth.rate_bps, Some(7_000_000));
    assert_eq!(scenario.measure.as_secs(), 9);
    let wrong = [("path.B.rate".to_owned(), "fast".to_owned())];
    let error = Plan::parse(TWO_PATHS, "test.toml", &wrong).unwrap_err().to_string();
    assert!(error.contains("path.B.rate: expected a rate"), "{error}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let text =
        TWO_PATHS.replace("udp = false", "udp = false\nstart = { min = \"0s\", max = \"1s\" }");
    let plan = plan(&format!("seeds = 2\n{text}"));
    let go = |number: usize| {
        let run_of = &plan.runs[number];
        run(&run_of.scenario, run_of.seed, RunOptions::default()).trace_hash
    };
    assert_eq!(go(0), go(0));
    assert_ne!(go(0), go(1));
}

#[test]
fn a_saturated_sender_fills_the_paths_and_serves_its_streams_equally() {
    let outcome = first(
        &TWO_PATHS.replace("128KiB", "1MiB").replace("measure = \"3s\"", "measure = \"10s\""),
    );
    let total = outcome.figure("throughput_mbps").unwrap();
    // 1452 of 1500 bytes are payload; a little that was sent before is delivered meanwhile.
    assert!((0.95 * 14.52..=14.6).contains(&total), "{total}");
    let [a, b] =
        ["s0_throughput_mbps", "s1_throughput_mbps"].map(|name| outcome.figure(name).unwrap());
    assert!((a / b - 1.0).abs() < 0.02, "{a} and {b}");
    // Little: what is in the send buffer leaves at the rate of the paths.
    let delay = outcome.figure("delay_ms").unwrap();
    assert!((delay / (8.0 * 1048.576 / total) - 1.0).abs() < 0.15, "{delay}");
}

#[test]
fn queue_information_gives_the_fast_path_s_stream_more() {
    let paper = "[engine]\nprofile = \"paper\"\nstream_mapping = \"0,1\"";
    let mapped = TWO_PATHS.replace("[engine]", paper).replace("\"3s\"", "\"10s\"");
    let informed = mapped.replace("streams = 2", "streams = 2\nqueue_info = true");
    let ratio = |text: &str| {
        let outcome = first(text);
        outcome.figure("s0_throughput_mbps").unwrap()
            / outcome.figure("s1_throughput_mbps").unwrap()
    };
    assert!((ratio(&mapped) - 1.0).abs() < 0.1, "{}", ratio(&mapped));
    assert!((ratio(&informed) - 2.0).abs() < 0.2, "{}", ratio(&informed));
}

#[test]
fn a_file_ends_the_run_when_it_has_arrived() {
    let text = TWO_PATHS.replace("kind = \"saturated\"", "kind = \"file\"\nbytes = \"1MB\"");
    let outcome = first(&text.replace("warmup = \"1s\"", "").replace("\"3s\"", "\"60s\""));
    let seconds = outcome.figure("duration_s").unwrap();
    assert!((0.6..2.0).contains(&seconds), "{seconds}");
    let bits = outcome.figure("throughput_mbps").unwrap() * seconds * 1e6;
    assert!((bits / 8e6 - 1.0).abs() < 1e-6, "{bits}");
}

#[test]
fn requests_are_answered_and_a_constant_rate_is_kept() {
    let apps = "kind = \"request-response\"\nmessage = 100\nresponse = 1000\nthink = \"50ms\"\n
[[app]]\nkind = \"on-off\"\nrate = \"1mbit\"\nmessage = 1250\n";
    let outcome = first(&TWO_PATHS.replace("kind = \"saturated\"\nstreams = 2\n", apps));
    let rate = outcome.figure("on-off_throughput_mbps").unwrap();
    assert!((rate - 1.0).abs() < 0.02, "{rate}");
    let delay = outcome.figure("request-response_delay_ms").unwrap();
    assert!((10.0..13.0).contains(&delay), "{delay}");
    let answers = outcome.figure("request-response_answer_delay_ms").unwrap();
    assert!((10.0..14.0).contains(&answers), "{answers}");
}

#[test]
fn background_traffic_takes_its_share() {
    let background = "\n[[background]]\npath = \"A\"\nrate = \"5mbit\"\n";
    let one = |text: &str| first(text).figure("throughput_mbps").unwrap();
    let text = TWO_PATHS.replace("128KiB", "1MiB");
    let (free, shared) = (one(&text), one(&format!("{text}{background}")));
    assert!(free - shared > 3.0 && free - shared < 7.0, "{free} and {shared}");
}

#[test]
fn all_paths_may_lead_to_one_address_of_the_server() {
    let rate = |text: &str| first(text).figure("throughput_mbps").unwrap();
    let text = TWO_PATHS.replace("128KiB", "1MiB");
    let one = text.replace("udp = false", "udp = false\nsingle_homed_server = true");
    let (each, one) = (rate(&text), rate(&one));
    assert!((one / each - 1.0).abs() < 0.02, "{one} and {each}");
    let wrong = error_with("udp = false", "single_homed_server = 1");
    assert!(
        wrong.contains("test.toml:4:1: single_homed_server: expected true or false"),
        "{wrong}"
    );
    let narrow =
        format!("single_homed_server = true\n{TWO_PATHS}").replace("\"B\"", "\"B\"\nmtu = 1400");
    assert!(error(&narrow).contains("an address has one MTU"), "{}", error(&narrow));
}
