//! What is computed from a transfer: goodput, shares, stalls. Pure, so that it can be tested.

use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Payload share of a full packet of plain TCP: 1448 of 1500 bytes (IPv4, timestamps).
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;

/// How the received file grew: time since the program's start, bytes.
#[derive(Debug, Default, Clone)]
pub(crate) struct Growth(Vec<(Duration, u64)>);

impl Growth {
    /// Notes the size of the file at `at`; only changes are kept.
    pub(crate) fn note(&mut self, at: Duration, bytes: u64) {
        if self.0.last().map_or(bytes > 0, |(_, last)| *last != bytes) {
            self.0.push((at, bytes));
        }
    }

    /// The longest time between the first and the last byte during which nothing arrived.
    pub(crate) fn longest_stall(&self) -> Duration {
        let gaps = self.0.windows(2).map(|w| w[1].0.saturating_sub(w[0].0));
        gaps.max().unwrap_or_default()
    }

    /// Bytes there are now.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.last().map_or(0, |(_, bytes)| *bytes)
    }
}

/// Delivered bytes per path in buckets of equal length.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// Length of a bucket.
    pub(crate) bucket: Duration,
    /// Name of the path, IP bytes delivered per bucket (the busier direction).
    pub(crate) paths: Vec<(String, Vec<u64>)>,
}

/// The emulated paths, as far as the figures need them.
#[derive(Debug, Clone)]
pub(crate) struct Ceilings {
    /// Name and rate in bit/s of every path.
    pub(crate) rates: Vec<(String, u64)>,
}

impl Ceilings {
    /// Sum of the payload ceilings of all paths, in Mbit/s.
    pub(crate) fn sum_mbps(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| *rate as f64 / 1e6 * PAYLOAD_SHARE).sum()
    }
}

/// One transfer and everything that was measured of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Run {
    /// Name of the run: program and transport.
    pub(crate) name: String,
    /// The program.
    pub(crate) program: String,
    /// What carried its connection.
    pub(crate) transport: String,
    /// Size of the file.
    pub(crate) bytes: u64,
    /// Run time of the whole program.
    pub(crate) seconds: f64,
    /// File size over run time.
    pub(crate) goodput_mbps: f64,
    /// Goodput over that of plain TCP on the better path, same program.
    pub(crate) ratio_to_best_path: Option<f64>,
    /// Goodput over the sum of the payload ceilings of all paths.
    pub(crate) share_of_sum: f64,
    /// Longest time without a new byte in the received file.
    pub(crate) longest_stall_s: f64,
    /// Whether the received file is the sent one.
    pub(crate) sha256_equal: bool,
    /// IP bytes that each path delivered during the run, both directions.
    pub(crate) path_bytes: BTreeMap<String, u64>,
    /// After the cut path returned: time until it carried data again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path_return_s: Option<f64>,
}

impl Run {
    /// Goodput and share from size and time.
    pub(crate) fn rate(bytes: u64, time: Duration, ceilings: &Ceilings) -> (f64, f64) {
        let goodput = bytes as f64 * 8.0 / time.as_secs_f64() / 1e6;
        (goodput, goodput / ceilings.sum_mbps())
    }
}

/// Fills in the ratio to plain TCP on the better path, program by program.
pub(crate) fn relate_to_tcp(runs: &mut [Run]) {
    let baselines: Vec<(String, f64)> = runs
        .iter()
        .filter(|r| r.transport == "tcp")
        .map(|r| (r.program.clone(), r.goodput_mbps))
        .collect();
    for run in runs {
        let base = baselines.iter().find(|(program, _)| *program == run.program);
        run.ratio_to_best_path = base.map(|(_, tcp)| run.goodput_mbps / tcp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_longest_stall_counts_from_the_first_to_the_last_byte() {
        let mut growth = Growth::default();
        for (at, bytes) in [(0, 0), (500, 10), (510, 10), (700, 20), (710, 30), (2000, 30)] {
            growth.note(ms(at), bytes);
        }
        assert_eq!(growth.longest_stall(), ms(200));
        assert_eq!(growth.bytes(), 30);
    }

    #[test]
    fn nothing_received_is_no_stall() {
        assert_eq!(Growth::default().longest_stall(), Duration::ZERO);
    }

    #[test]
    fn shares_relate_to_the_payload_of_all_paths() {
        let rates = vec![("A".to_owned(), 20_000_000), ("B".to_owned(), 10_000_000)];
        let ceilings = Ceilings { rates };
        assert!((ceilings.sum_mbps() - 28.96).abs() < 1e-9);
        let (goodput, share) = Run::rate(3_620_000, Duration::from_secs(1), &ceilings);
        assert!((goodput - 28.96).abs() < 1e-9 && (share - 1.0).abs() < 1e-9);
    }

    #[test]
    fn ratios_are_taken_within_one_program() {
        let run = |program: &str, transport: &str, goodput_mbps| Run {
            name: String::new(),
            program: program.into(),
            transport: transport.into(),
            bytes: 1,
            seconds: 1.0,
            goodput_mbps,
            ratio_to_best_path: None,
            share_of_sum: 0.0,
            longest_stall_s: 0.0,
            sha256_equal: true,
            path_bytes: BTreeMap::new(),
            path_return_s: None,
        };
        let mut runs =
            [run("curl", "tcp", 10.0), run("scp", "tcp", 5.0), run("scp", "manypath", 10.0)];
        relate_to_tcp(&mut runs);
        assert_eq!(runs.map(|r| r.ratio_to_best_path), [Some(1.0), Some(1.0), Some(2.0)]);
    }
}
