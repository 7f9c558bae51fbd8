//! Rates as lines for a terminal.

use super::super::bytes;
use super::rates::{FlowRate, PathRate, Rates};
use manypath_control::counted;

/// The lines, at most `limit` of them: connections give way first, the idle ones before others. What a narrow
/// terminal cuts off stands last: 80 columns show rates, round trips and windows.
pub(super) fn lines(rates: &Rates, limit: Option<usize>) -> Vec<String> {
    let mut lines = vec![summary(rates)];
    if rates.stacks == 0 {
        lines.push("no manypath stack is running here".to_owned());
        return lines;
    }
    lines.push(format!(
        "{:<10} {:<18} {:>7} {:>7} {:<16} {:>8} {:>8}  {:>6}  {:<28} {:<21} {}",
        "INTERFACE",
        "STATE",
        "SEND",
        "RECEIVE",
        "HISTORY",
        "RTT",
        "CWND",
        "LOSS/s",
        "IDLE",
        "LOCAL",
        "REMOTE"
    ));
    let all = rates.paths.iter().flat_map(|path| &path.history);
    let highest = all.copied().fold(0.0, f64::max);
    lines.extend(rates.paths.iter().map(|it| path(it, highest)));
    lines.push(format!(
        "{:<26} {:<18} {:>7} {:>7} {:>8} {:>8}  {:<11} {}",
        "TO", "STATE", "SEND", "RECEIVE", "QUEUED", "UNREAD", "CLASS", "FROM"
    ));
    lines.extend(rates.connections.iter().map(connection));
    lines.truncate(limit.unwrap_or(usize::MAX));
    lines
}

fn summary(rates: &Rates) -> String {
    let (send, receive) = rates
        .paths
        .iter()
        .fold((0.0, 0.0), |(s, r), path| (s + path.send_mbps, r + path.receive_mbps));
    format!(
        "{}, {}, {}; Mbit/s: send {}, receive {}",
        counted(rates.stacks, "stack", "stacks"),
        counted(rates.associations, "association", "associations"),
        counted(rates.connections.len(), "connection", "connections"),
        mbps(send),
        mbps(receive)
    )
}

/// Rates as bars, all paths on one scale, so that their lengths compare.
fn sparkline(history: &[f64], highest: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |rate: &f64| {
        let share = if highest > 0.0 { rate / highest } else { 0.0 };
        BARS[((share * 7.0).round() as usize).min(7)]
    };
    history.iter().map(bar).collect()
}

fn path(path: &PathRate, highest: f64) -> String {
    format!(
        "{:<10} {:<18} {:>7} {:>7} {:<16} {:>8} {:>8}  {:>6.1}  {:<28} {:<21} {}",
        path.interface,
        path.state,
        mbps(path.send_mbps),
        mbps(path.receive_mbps),
        sparkline(&path.history, highest),
        path.srtt_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms")),
        bytes(path.cwnd_bytes),
        path.losses_per_second,
        path.idle.as_deref().unwrap_or_default(),
        path.local.to_string(),
        path.remote
    )
}

fn connection(flow: &FlowRate) -> String {
    // A program whose socket is not bound has no address yet when the stack hears of it.
    let is_known = !flow.source.ip().is_unspecified();
    let source = if is_known { flow.source.to_string() } else { "-".to_owned() };
    format!(
        "{:<26} {:<18} {:>7} {:>7} {:>8} {:>8}  {:<11} {}",
        flow.destination.to_string(),
        flow.state,
        mbps(flow.send_mbps),
        mbps(flow.receive_mbps),
        bytes(flow.waiting_out_bytes),
        bytes(flow.waiting_in_bytes),
        flow.class,
        source
    )
}

/// Mbit/s with as many digits as matter.
fn mbps(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.2}") } else { format!("{rate:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(rate: f64) -> FlowRate {
        let addr = "10.0.0.1:22".parse().unwrap();
        FlowRate {
            stack: 1,
            association: 1,
            source: addr,
            destination: addr,
            state: "open".into(),
            class: "bulk".into(),
            send_mbps: rate,
            receive_mbps: 0.0,
            waiting_out_bytes: 0,
            waiting_in_bytes: 0,
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_from_the_end() {
        let connections = vec![flow(250.0), flow(1.5)];
        let rates = Rates { seconds: 1.0, stacks: 1, associations: 1, paths: vec![], connections };
        assert_eq!(lines(&rates, None).len(), 5);
        let few = lines(&rates, Some(4));
        assert_eq!(few.len(), 4);
        assert!(few[3].contains("250"), "{few:?}");
    }

    #[test]
    fn eighty_columns_show_the_rates() {
        let rates = Rates {
            seconds: 1.0,
            stacks: 1,
            associations: 1,
            paths: vec![],
            connections: vec![flow(1.5)],
        };
        let lines = lines(&rates, None);
        let end_of = |line: &str, word: &str| line.find(word).expect("a column") + word.len();
        assert_eq!([end_of(&lines[1], "CWND"), end_of(&lines[2], "UNREAD")], [80, 79]);
        assert!(lines[0].len() < 80, "{lines:?}");
    }

    #[test]
    fn bars_of_all_paths_have_one_scale() {
        assert_eq!(sparkline(&[0.0, 10.0, 20.0], 20.0), "▁▅█");
        assert_eq!(sparkline(&[10.0], 20.0), "▅");
        assert_eq!(sparkline(&[0.0], 0.0), "▁");
    }

    #[test]
    fn rates_are_short() {
        assert_eq!([0.0, 9.876, 123.4].map(mbps), ["0.00", "9.88", "123"]);
    }
}
