//! iperf3 on the same path: an outside measure, which counts its processor time itself.

use crate::case::{Direction, Settings, Workload};
use crate::side::{Launch, Outcome};
use crate::stage::{Interval, Run, Stage};
use crate::usage::{Usage, Used};
use serde_json::Value;
use std::time::Duration;

/// Makes a run with iperf3.
pub(crate) fn run(stage: &mut Stage<'_>, workload: Workload, settings: &Settings) -> Outcome<Run> {
    let Workload::Throughput { flows, direction } = workload else {
        return Err("iperf3 measures throughput only".to_owned());
    };
    let port = settings.data_port();
    stage.server.launch(&Launch::IperfServer { port })?;
    let address = stage.server.address().to_string();
    let mut arguments =
        ["-J", "-c", &address, "-C", &settings.congestion].map(str::to_owned).to_vec();
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    option("-p", port.to_string());
    option("-P", flows.to_string());
    match settings.bytes {
        Some(bytes) => option("-n", bytes.to_string()),
        None => option("-t", whole_seconds(settings.time).to_string()),
    }
    if let Some(length) = settings.length {
        option("-l", length.to_string());
    }
    if settings.bytes.is_none() && stage.rtt > Duration::ZERO {
        option("-O", whole_seconds(stage.rtt * 10).to_string());
    }
    match direction {
        Direction::Up => {}
        Direction::Down => arguments.push("-R".to_owned()),
        Direction::Both => arguments.push("--bidir".to_owned()),
    }
    let number = stage.client.launch(&Launch::IperfClient(arguments))?;
    let output = stage.client.output(number)?;
    let run = parse(&output)?;
    run.intervals.iter().for_each(|interval| (stage.on_interval)(interval));
    Ok(run)
}

/// iperf3 knows whole seconds only.
fn whole_seconds(time: Duration) -> u64 {
    (time.as_secs_f64().round() as u64).max(1)
}

fn parse(output: &str) -> Outcome<Run> {
    let json: Value =
        serde_json::from_str(output).map_err(|e| format!("iperf3 said {output}: {e}"))?;
    if let Some(error) = json["error"].as_str() {
        return Err(format!("iperf3: {error}"));
    }
    let end = &json["end"];
    let sums = [&end["sum_received"], &end["sum_received_bidir_reverse"]];
    let bytes = sums.iter().filter_map(|sum| sum["bytes"].as_u64()).sum();
    let seconds = end["sum_received"]["seconds"].as_f64().unwrap_or(0.0);
    let intervals = json["intervals"].as_array().into_iter().flatten().map(|interval| {
        let sum = &interval["sum"];
        Interval {
            start: sum["start"].as_f64().unwrap_or(0.0),
            end: sum["end"].as_f64().unwrap_or(0.0),
            bytes: sum["bytes"].as_u64().unwrap_or(0),
        }
    });
    let cpu = &end["cpu_utilization_percent"];
    let used = |total: &str, user: &str| {
        let share = |name: &str| cpu[name].as_f64().unwrap_or(0.0) / 100.0 * seconds;
        let used = Used { cpu_s: share(total), user_s: share(user), memory: 0 };
        Usage([("iperf3".to_owned(), used)].into())
    };
    Ok(Run {
        seconds,
        bytes,
        client: used("host_total", "host_user"),
        server: used("remote_total", "remote_user"),
        intervals: intervals.collect(),
        ..Run::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_iperf3_is_understood() {
        let text = r#"{"intervals":[{"sum":{"start":0,"end":1,"bytes":100}}],"end":{
            "sum_received":{"bytes":200,"seconds":2.0},
            "cpu_utilization_percent":{"host_total":50.0,"host_user":10.0,"remote_total":25.0}}}"#;
        let run = parse(text).unwrap();
        assert_eq!((run.bytes, run.seconds, run.intervals.len()), (200, 2.0, 1));
        assert_eq!((run.client.cpu_s(), run.server.cpu_s()), (1.0, 0.5));
        assert!(parse(r#"{"error":"busy"}"#).is_err_and(|why| why.contains("busy")));
    }
}
