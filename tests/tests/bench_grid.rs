//! What `bench/grid` measures is reproducible, and what it says of that is right: without root and a lab.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn grid(arguments: &[&str]) -> String {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("workspace").join("bench/grid");
    let output = Command::new(script).args(arguments).output().expect("python3");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn set_ups(seed: &str, count: &str) -> Vec<String> {
    grid(&["--list", "--seed", seed, "--count", count]).lines().map(str::to_owned).collect()
}

#[test]
fn a_seed_draws_the_same_set_ups_whatever_their_number() {
    let (some, more, others) = (set_ups("1", "36"), set_ups("1", "50"), set_ups("2", "36"));
    // Six with traces come after those that are counted.
    assert_eq!((some.len(), more.len()), (42, 56));
    assert_eq!(some[..36], more[..36]);
    assert_eq!(some[36..], more[50..]);
    assert_eq!(some[..11], others[..11], "the fixed ones");
    assert!(some[11..].iter().zip(&others[11..]).all(|(one, other)| one != other));
    let lossy = some[11..36].iter().filter(|line| line.contains('%')).count();
    assert!((12..=13).contains(&lossy), "{lossy} of 25 have losses");
}

/// A line of the journal.
fn run(rival: &str, run: u32, outcome: &str) -> String {
    let path = "rate=20mbit,delay=10ms,queue=100,loss=3%";
    format!(
        r#"{{"setup":"20-loss-3","paths":["{path}"],"measure":"bulk","direction":"down","rival":"{rival}","run":{run},
        "bytes":1,{outcome},"load":0.5,"build":"c","key":["{rival}",{run}]}}"#
    )
    .replace('\n', "")
}

fn folder(name: &str, journal: &[String]) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("manypath-grid-test-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("folder");
    fs::write(folder.join("results.jsonl"), journal.join("\n") + "\n").expect("journal");
    folder
}

#[test]
fn points_that_are_lost_come_first_with_the_medians_of_their_last_runs() {
    let mbps = |value: f64| format!(r#""mbps":{value},"cut":false"#);
    let mut journal = vec![
        run("tcp-bbr-A", 0, &mbps(18.0)),
        run("tcp-cubic-A", 0, &mbps(2.5)),
        run("manypath", 0, r#""error":"fell back""#),
        run("manypath", 1, &mbps(9.0)),
        run("manypath", 2, &mbps(1.0)),
        run("agg-bbr", 0, r#""mbps":4.5,"cut":true"#),
        run("mptcp-bbr", 0, r#""error":"only one path was used""#),
    ];
    // Made again.
    journal.push(run("manypath", 0, &mbps(10.0)));
    let folder = folder("lost", &journal);
    let page = grid(&["--report", "--out", folder.to_str().expect("UTF-8")]);
    fs::remove_dir_all(folder).expect("removed");
    let lost = page.find("1 of 1 points").expect("how many");
    assert!(lost < page.find("## Download").expect("the table"), "{page}");
    assert!(
        page.contains("| 20-loss-3 | down | 9.00 | TCP on one path 18.0 bbr A (0.50) |"),
        "{page}"
    );
    assert!(
        page.contains("| 4.50 bbr† | 9.00 | – | – | 19.3 | **0.50** | – | 2.00 | 0.47 | – | – |"),
        "{page}"
    );
    assert!(page.contains("* 20-loss-3 down mptcp-bbr: only one path was used"), "{page}");
    assert!(!page.contains("fell back"), "{page}");
}
