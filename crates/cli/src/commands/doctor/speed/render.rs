//! A measurement as a table, and as a picture.

use super::{Row, SpeedReport, Way, rows};
use std::fmt::Write;

/// Of the picture, in its units.
const WIDTH: f64 = 720.0;
const NAMES: f64 = 110.0;
const VALUES: f64 = 250.0;
const BAR: f64 = 16.0;
const ROW: f64 = 54.0;
const HEAD: f64 = 70.0;
/// Of downloads and uploads.
const COLOURS: [&str; 2] = ["#2a6fbb", "#d98324"];

/// A rate with its unit.
pub(super) fn rate(bits_per_s: u64) -> String {
    let bits = bits_per_s as f64;
    match bits_per_s {
        1_000_000_000.. => format!("{:.2} Gbit/s", bits / 1e9),
        1_000_000.. => format!("{:.1} Mbit/s", bits / 1e6),
        _ => format!("{:.0} kbit/s", bits / 1e3),
    }
}

/// The table.
pub(super) fn text(report: &SpeedReport) -> String {
    let mut out = format!("{}\n\n", title(report));
    let width = rows(report).map(|row| row.name.len()).max().unwrap_or(0).max(8);
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "  {:<width$}  {:>13}  {:<16}  {:>13}  {:<16}  {:>10}",
        "", "download", "limited by", "upload", "limited by", "round trip"
    );
    for row in rows(report) {
        let _ = match &row.error {
            Some(why) => writeln!(out, "  {:<width$}  not measured: {why}", row.name),
            None => line(&mut out, row, width),
        };
    }
    let shares = shares(report);
    if !shares.is_empty() {
        out.push('\n');
    }
    for (name, part) in shares {
        let _ = writeln!(out, "Together the {name} is {part} % of the sum of the uplinks.");
    }
    out
}

fn title(report: &SpeedReport) -> String {
    let SpeedReport { host, address, seconds, encrypted, .. } = report;
    let place =
        if *host == address.to_string() { host.clone() } else { format!("{host} ({address})") };
    let how = if *encrypted { "encrypted" } else { "not encrypted" };
    format!("speed to {place}, {seconds} s in each direction, {how}")
}

fn line(out: &mut String, row: &Row, width: usize) -> std::fmt::Result {
    let way = |way: &Option<Way>| match way {
        Some(way) => (rate(way.bits_per_s), limit(way)),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let ((down, why_down), (up, why_up)) = (way(&row.download), way(&row.upload));
    let rtt = row.round_trip_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms"));
    writeln!(
        out,
        "  {:<width$}  {down:>13}  {why_down:<16}  {up:>13}  {why_up:<16}  {rtt:>10}",
        row.name
    )
}

fn limit(way: &Way) -> String {
    match (way.limit, way.lost_percent) {
        (super::Limit::Loss, Some(lost)) => format!("loss of {lost:.1} %"),
        (limit, _) => limit.text().to_owned(),
    }
}

/// What all uplinks carry together, in percent of what they carry one after the other.
fn shares(report: &SpeedReport) -> Vec<(&'static str, u64)> {
    let Some(together) = &report.together else { return Vec::new() };
    let of = |pick: fn(&Row) -> &Option<Way>| {
        // Rates of uploads are the peer's word.
        let sum = report
            .uplinks
            .iter()
            .try_fold(0_u64, |sum, row| Some(sum.saturating_add(pick(row).as_ref()?.bits_per_s)));
        let all = pick(together).as_ref()?.bits_per_s;
        sum.filter(|sum| *sum > 0).map(|sum| (all as f64 * 100.0 / sum as f64).round() as u64)
    };
    let shares = [("download", of(|row| &row.download)), ("upload", of(|row| &row.upload))];
    shares.into_iter().filter_map(|(name, part)| Some((name, part?))).collect()
}

/// The picture: two bars for each row.
pub(super) fn svg(report: &SpeedReport) -> String {
    let ways = rows(report).flat_map(|row| [&row.download, &row.upload]).flatten();
    let most = ways.map(|way| way.bits_per_s).max().unwrap_or(0).max(1) as f64;
    let height = HEAD + ROW * rows(report).count() as f64 + 10.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"24\" font-size=\"15\">{}</text>\n",
        escaped(&title(report))
    );
    for (at, (name, colour)) in [10.0, 110.0].iter().zip(["download", "upload"].iter().zip(COLOURS))
    {
        let _ = writeln!(
            out,
            "<rect x=\"{at}\" y=\"38\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"49\">{name}</text>",
            at + 18.0
        );
    }
    for (number, row) in rows(report).enumerate() {
        let top = HEAD + ROW * number as f64;
        let _ =
            writeln!(out, "<text x=\"10\" y=\"{}\">{}</text>", top + BAR + 4.0, escaped(&row.name));
        if let Some(why) = &row.error {
            let (at, why) = (top + BAR + 4.0, escaped(why));
            let _ = writeln!(out, "<text x=\"{NAMES}\" y=\"{at}\" fill=\"#a00\">{why}</text>");
        }
        for (way, (colour, below)) in
            [&row.download, &row.upload].into_iter().zip(COLOURS.iter().zip([0.0, BAR + 2.0]))
        {
            let Some(way) = way else { continue };
            bar(&mut out, way, colour, top + below, most);
        }
    }
    out.push_str("</svg>\n");
    out
}

fn bar(out: &mut String, way: &Way, colour: &str, top: f64, most: f64) {
    let long = (way.bits_per_s as f64 / most * (WIDTH - NAMES - VALUES)).max(1.0);
    let (end, middle) = (NAMES + long + 6.0, top + BAR - 4.0);
    let _ = writeln!(
        out,
        "<rect x=\"{NAMES}\" y=\"{top}\" width=\"{long:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\
         <text x=\"{end:.1}\" y=\"{middle}\">{} ({})</text>",
        rate(way.bits_per_s),
        escaped(&limit(way))
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::Limit;
    use super::*;

    fn way(bits_per_s: u64, limit: Limit) -> Option<Way> {
        let (lost_percent, busy_percent, peer_busy_percent) = (Some(3.2), 10.0, Some(20.0));
        Some(Way { bits_per_s, bytes: 1, lost_percent, busy_percent, peer_busy_percent, limit })
    }

    fn report() -> SpeedReport {
        let row = |name: &str, rates: [u64; 2]| Row {
            name: name.to_owned(),
            round_trip_ms: Some(21.04),
            download: way(rates[0], Limit::PathRate),
            upload: way(rates[1], Limit::Loss),
            error: None,
        };
        let dead = Row {
            name: "wwan0".into(),
            error: Some("no answer <in> time".into()),
            ..Row::default()
        };
        SpeedReport {
            host: "relay.example".into(),
            address: [192, 0, 2, 1].into(),
            seconds: 5,
            encrypted: true,
            uplinks: vec![row("eth0", [48_000_000, 9_500_000]), row("dsl0", [12_000_000, 500_000])],
            together: Some(row("together", [57_000_000, 9_900_000])),
        }
        .with(dead)
    }

    impl SpeedReport {
        fn with(mut self, row: Row) -> Self {
            self.uplinks.push(row);
            self
        }
    }

    #[test]
    fn a_table_has_a_row_for_each_uplink_and_one_for_all() {
        let mut report = report();
        let table = text(&report);
        for words in [
            "speed to relay.example (192.0.2.1), 5 s in each direction, encrypted\n",
            "  eth0        48.0 Mbit/s  path rate            9.5 Mbit/s  loss of 3.2 %        21.0 ms\n",
            "  wwan0     not measured: no answer <in> time\n",
        ] {
            assert!(table.contains(words), "{words}: {table}");
        }
        assert!(!table.contains("of the sum"), "one is missing: {table}");
        report.uplinks.pop();
        let table = text(&report);
        assert!(table.contains("Together the download is 95 % of the sum of the uplinks.\n"));
        assert!(table.contains("Together the upload is 99 % of the sum of the uplinks.\n"));
    }

    #[test]
    fn a_picture_has_two_bars_for_each_row_within_its_width() {
        let picture = svg(&report());
        assert_eq!(picture.matches("<rect x=\"110\" y=\"").count(), 7, "{picture}");
        assert!(
            picture.contains("width=\"360.0\"") && picture.contains("no answer &lt;in&gt; time")
        );
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    }
}
