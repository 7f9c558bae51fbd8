//! Campaigns: shards make the whole, a stop loses nothing, results do not depend on threads.

use manypath_sim::campaign::{Options, Record, Shard, compare, execute, merge, to_csv};
use manypath_sim::figure::{plot, series_chart};
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::RunOptions;
use std::path::{Path, PathBuf};

const SCENARIO: &str = r#"name = "small"
seeds = 2
measure = "1s"
[engine]
buffer = "64KiB"
[[path]]
rate = "5mbit"
delay = "5ms"
[[app]]
kind = "saturated"
[sweep]
"path.A.loss" = [0, 0.02, 0.05]
"#;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("manypath-campaign-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn plan() -> Plan {
    Plan::parse(SCENARIO, "small.toml", &[]).unwrap()
}

fn options(out: &Path) -> Options {
    Options {
        out: out.to_owned(),
        jobs: 1,
        shard: Shard::default(),
        resume: false,
        keep: RunOptions::default(),
        version: "test".into(),
        commit: None,
    }
}

/// How many runs were done, and all that there are.
fn go(options: &Options) -> (usize, Vec<Record>) {
    let mut done = 0;
    let records = execute(&plan(), options, &mut |_| done += 1).unwrap();
    (done, records)
}

#[test]
fn shards_merged_are_the_whole_whatever_the_threads() {
    let (whole, parts) = (Folder::new("whole"), Folder::new("parts"));
    let (done, records) = go(&options(&whole.0));
    assert_eq!((done, records.len()), (6, 6));
    for index in 0..4 {
        let shard = Shard { index, count: 4 };
        go(&Options { jobs: 3, shard, ..options(&parts.0) });
    }
    let merged = merge(std::slice::from_ref(&parts.0)).unwrap();
    assert_eq!(to_csv(&merged), to_csv(&records));
    let csv = std::fs::read_to_string(whole.0.join("results.csv")).unwrap();
    assert_eq!(csv, to_csv(&records));
    assert_eq!(csv.lines().count(), 7);
    let manifest = std::fs::read_to_string(whole.0.join("manifest.json")).unwrap();
    assert!(manifest.contains("\"runs\": 6"), "{manifest}");
}

#[test]
fn what_shards_have_done_into_the_same_folder_is_taken_up() {
    let folder = Folder::new("taken");
    let shard = Shard { index: 1, count: 3 };
    assert_eq!(go(&Options { shard, ..options(&folder.0) }).0, 2);
    let commit = Some("0123abcd".to_owned());
    let (done, records) = go(&Options { resume: true, commit, ..options(&folder.0) });
    assert_eq!((done, records.len()), (4, 6));
    let manifest = std::fs::read_to_string(folder.0.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!((&manifest["program"], &manifest["commit"]), (&"test".into(), &"0123abcd".into()));
}

#[test]
fn a_stopped_campaign_goes_on_where_it_was() {
    let folder = Folder::new("resume");
    let (_, whole) = go(&options(&folder.0));
    // As if it had been killed while it wrote the fourth line.
    let journal = folder.0.join("runs.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let third = text.match_indices('\n').nth(2).unwrap().0;
    std::fs::write(&journal, &text[..third + 40]).unwrap();
    let resume = Options { resume: true, ..options(&folder.0) };
    let (done, records) = go(&resume);
    assert_eq!(done, 3);
    assert_eq!(to_csv(&records), to_csv(&whole));
    assert_eq!(go(&resume).0, 0);
    // Another version of the program does not take over what it has not done.
    assert_eq!(go(&Options { version: "other".into(), ..resume }).0, 6);
}

#[test]
fn time_series_and_captures_are_kept_on_request() {
    let folder = Folder::new("extras");
    let series = Some(std::time::Duration::from_millis(100));
    let (_, records) =
        go(&Options { keep: RunOptions { series, capture: true }, ..options(&folder.0) });
    let series =
        std::fs::read_to_string(folder.0.join(format!("{}.series.csv", records[0].id))).unwrap();
    assert!((9..=12).contains(&series.lines().count()), "{series}");
    let head = "time_s,unsent,outstanding,peer_rwnd,A_cwnd,A_ssthresh,A_in_flight,A_srtt_s,A_sent_mbps,A_queue,s0_mbps";
    assert_eq!(series.lines().next(), Some(head));
    let last: Vec<&str> = series.lines().last().unwrap().split(',').collect();
    assert!(last[8].parse::<f64>().unwrap() > 0.1, "{last:?}");
    assert!(!series.contains("4294967295"), "a threshold that was never set is empty: {series}");
    let chart = series_chart("a run", &series);
    let labels = chart.panels.iter().map(|panel| (panel.y_label.as_str(), panel.curves.len()));
    assert_eq!(labels.clone().count(), 4);
    assert!(labels.into_iter().all(|(_, curves)| curves == 1), "{chart:?}");
    let cwnd = &chart.panels[0].curves[0];
    assert_eq!((cwnd.name.as_str(), cwnd.points.len()), ("A", series.lines().count() - 1));
    assert!(!plot::to_svg(&chart).contains("polygon"), "lines without markers");
    let capture = std::fs::read(folder.0.join(format!("{}.pcapng", records[0].id))).unwrap();
    assert!(capture.len() > 100_000 && capture.starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]));
}

#[test]
fn a_comparison_finds_what_differs() {
    let folder = Folder::new("compare");
    let (_, records) = go(&options(&folder.0));
    let mut worse = records.clone();
    for record in &mut worse {
        for (name, value) in &mut record.figures {
            if name == "throughput_mbps" {
                *value = value.map(|value| value * 0.5);
            }
        }
    }
    let comparisons = compare(&records, &worse, &["throughput_mbps".into(), "s0_gap_s".into()]);
    assert_eq!(comparisons.len(), 6);
    let first = &comparisons[0];
    assert_eq!(first.point, "path.A.loss=0");
    assert!((first.change() + 0.5).abs() < 1e-9 && first.is_different());
    assert!(!comparisons[1].is_different());
}
