//! The scripts of this project, and what the runner says about scripts that are none.

use std::path::PathBuf;
use std::process::{Command, Output};

fn pkt(args: &[&str]) -> Output {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    Command::new(env!("CARGO_BIN_EXE_pkt")).args(args).current_dir(dir).output().expect("pkt runs")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn the_stack_does_what_the_scripts_of_this_project_say() {
    let output = pkt(&["--quiet", "scripts"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains(" 0 failed, 0 skipped"), "{}", text(&output));
}

#[test]
fn what_is_wrong_with_a_script_is_told_with_its_line() {
    let expected = [
        ("bracket.pkt", 4, "malformed script: expected ']', found '+'"),
        ("chunk.pkt", 3, "malformed script: 'tsn' of DATA must be given in an inbound packet"),
        ("descriptor.pkt", 2, "malformed script: 7 is no open socket"),
        ("ifdef.pkt", 2, "malformed script: #ifdef without #endif"),
        ("late.pkt", 5, "INIT was sent at 0.000 s and not at 1.000 s (+- 4 ms)"),
        ("result.pkt", 3, "connect returned -1 EINPROGRESS and not 0"),
        ("silence.pkt", 3, "INIT was expected, but nothing was sent"),
        ("text.pkt", 2, "malformed script: \" is not closed"),
        ("unknown_chunk.pkt", 3, "malformed script: chunk 'INITIATE' is not known"),
    ];
    let output = pkt(&["malformed"]);
    assert_eq!(output.status.code(), Some(1));
    let text = text(&output);
    let mut lines = text.lines();
    for (name, line, why) in expected {
        let expected = format!("FAIL malformed/{name}:{line}: {why}");
        assert!(lines.next().unwrap().starts_with(&expected), "{expected} in\n{text}");
    }
    assert_eq!(lines.next(), Some("9 scripts: 0 passed, 9 failed, 0 skipped"));
}

#[test]
fn verdicts_come_as_json_too() {
    let output = pkt(&["--json", "malformed/bracket.pkt"]);
    let lines: Vec<serde_json::Value> =
        text(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["verdict"], "FAIL");
    assert_eq!(lines[0]["line"], 4);
    assert_eq!(lines[1]["failed"], 1);
}

#[test]
fn a_waiver_turns_a_failure_into_a_skip_and_a_pass_into_a_failure() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = dir.join("waivers.toml");
    let waiver = |script: &str| {
        format!(
            "[[waiver]]\nscripts = [\"{script}\"]\ndate = \"2026-01-01\"\nreason = \"because\"\n"
        )
    };
    std::fs::write(&file, waiver("late.pkt") + &waiver("init_is_alone.pkt")).unwrap();
    let waivers = format!("--waivers={}", file.display());
    let output = pkt(&[&waivers, "malformed/late.pkt", "scripts/init_is_alone.pkt"]);
    assert_eq!(output.status.code(), Some(1));
    let text = text(&output);
    assert!(text.starts_with("SKIP malformed/late.pkt:5: waived on 2026-01-01: because"), "{text}");
    assert!(text.contains("FAIL scripts/init_is_alone.pkt: passes, but is waived"), "{text}");
}

#[test]
fn without_scripts_there_is_an_error() {
    let output = pkt(&["no-such-directory"]);
    assert_eq!(output.status.code(), Some(2));
}
