//! `manypath-lab sim live`: one scenario on real sockets, beside its simulation.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the test")]

use std::path::PathBuf;
use std::process::{Command, Output};

/// Enough buffer for the whole rate, slow enough for a busy machine.
const SCENARIO: &str = r#"name = "live"
seeds = 1
warmup = "2s"
measure = "3s"
[engine]
profile = "paper"
buffer = "64KiB"
stream_mapping = "0,1"
[[path]]
rate = "3mbit"
delay = "10ms"
framing = 7
[[path]]
rate = "1mbit"
delay = "30ms"
framing = 7
[[app]]
kind = "saturated"
streams = 2
message = 1444
queue_info = true
"#;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, scenario: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("manypath-live-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("live.toml"), scenario).unwrap();
        Self(dir)
    }

    fn live(&self, args: &[&str]) -> Output {
        self.live_of("live.toml", args)
    }

    fn live_of(&self, scenario: &str, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_manypath-lab"));
        command.current_dir(&self.0).args(["sim", "live", scenario, "--output", "out"]);
        command.args(args).output().unwrap()
    }

    /// A column of the only row of a result.
    fn figure(&self, results: &str, name: &str) -> f64 {
        self.figure_of(1, results, name)
    }

    fn figure_of(&self, row: usize, results: &str, name: &str) -> f64 {
        let text = std::fs::read_to_string(self.0.join("out").join(results)).unwrap();
        let mut lines = text.lines().map(|line| line.split(','));
        let at = lines.next().unwrap().position(|column| column == name).unwrap();
        // Only the stream mapping is quoted; it stands before the figures.
        let row: Vec<_> = text.lines().nth(row).unwrap().rsplit(',').collect();
        let columns = text.lines().next().unwrap().split(',').count();
        row[columns - 1 - at].parse().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Both paths full, each stream on its own: 0.97 of 3 and of 1 Mbit/s, less the headers.
#[test]
fn the_live_stack_does_what_the_simulation_says() {
    let folder = Folder::new("runs", SCENARIO);
    let output = folder.live(&["--tolerance", "0.15"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 run in out"), "{stdout}{stderr}");
    for (stream, full) in [("s0_throughput_mbps", 2.87), ("s1_throughput_mbps", 0.958)] {
        let simulated = folder.figure("simulated/results.csv", stream);
        let live = folder.figure("live/results.csv", stream);
        assert!((simulated / full - 1.0).abs() < 0.02, "{stream}: simulated {simulated}");
        assert!((live / full - 1.0).abs() < 0.25, "{stream}: live {live}");
    }
    let delay = folder.figure("live/results.csv", "delay_ms");
    assert!(delay > 40.0 && delay < 400.0, "{delay} ms, half of it in the send buffer");
}

/// Both live ends load the file that the simulation loads, and it decides there: its instructions are counted.
#[test]
fn schedulers_and_a_congestion_control_from_files_decide_on_real_sockets() {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasm/live.toml");
    let folder = Folder::new("modules", SCENARIO);
    let shorter = ["--set", "warmup=1s", "--set", "measure=2s", "--tolerance", "0.25"];
    let output = folder.live_of(scenario, &shorter);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("3 runs in out"), "{stdout}{stderr}");
    for (row, module) in [(1, "path_scheduler"), (2, "path_scheduler"), (3, "congestion_control")] {
        let name = format!("{module}_instructions");
        let [live, simulated] = ["live", "simulated"]
            .map(|from| folder.figure_of(row, &format!("{from}/results.csv"), &name));
        let ratio = live / simulated;
        assert!(
            live > 10.0 && ratio > 0.3 && ratio < 3.0,
            "{row}: {live} live, {simulated} simulated"
        );
    }
}

#[test]
fn what_cannot_be_run_live_is_refused_with_the_reason() {
    let cases = [
        ("name", "udp = false\nname", "set udp = true"),
        ("saturated\"", "file\"\nbytes = 5", "only saturated and on-off run live"),
        ("framing = 7", "mtu = 9000", "up to 1500 bytes"),
    ];
    for (number, (key, replacement, message)) in cases.into_iter().enumerate() {
        let scenario = SCENARIO.replacen(key, replacement, 1).replace("queue_info = true\n", "");
        let output = Folder::new(&format!("wrong{number}"), &scenario).live(&[]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && stderr.contains(message), "{stderr}");
    }
}
