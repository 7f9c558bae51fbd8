//! `report.html`: a headline, one chart of what happens when a path is cut, the table, and a plot of
//! every run's throughput per path. The chart is also a file of its own, `cut.svg`.

use super::Skipped;
use super::measure::{Run, Series};
use super::transfer::Outcome;
use std::fmt::Write;
use std::time::Duration;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 48.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 28.0;
/// Curves are means over this many buckets.
const SMOOTH: usize = 4;
const COLOURS: [&str; 3] = ["#1f6fb4", "#d1622b", "#3a8f4d"];

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .7em;border-bottom:1px solid #ddd;text-align:right}td{white-space:nowrap}\
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto}h2{font-size:1.1em;margin:1.6em 0 .2em}\
.bad{color:#b00;font-weight:bold}.headline{font-size:1.15em;margin:.3em 0}";

/// The whole page.
pub(crate) fn html(
    title: &str,
    outcomes: &[Outcome],
    skipped: &[Skipped],
    sum_mbps: f64,
) -> String {
    let mut page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>manypath demo</title>\
         <style>{STYLE}</style><h1>manypath demo</h1><p>{}</p>",
        escape(title)
    );
    for line in headline(outcomes) {
        // Writing to a string cannot fail, here and below.
        let _ = write!(page, "<p class=headline>{}</p>", escape(&line));
    }
    page.push_str(&cut_chart(outcomes, sum_mbps).unwrap_or_default());
    page.push_str(&summary(outcomes, sum_mbps));
    if !skipped.is_empty() {
        page.push_str("<p>Left out:</p><ul>");
        for Skipped { name, reason } in skipped {
            let _ = write!(page, "<li>{}: {}</li>", escape(name), escape(reason));
        }
        page.push_str("</ul>");
    }
    page.push_str("<p>Curves: IP bytes that each path delivered in the busier direction, mean over 200 ms.</p>");
    let longest = outcomes.iter().map(|o| o.run.seconds).fold(1.0, f64::max);
    for outcome in outcomes {
        let _ = write!(
            page,
            "<h2>{}</h2>{}",
            escape(&outcome.run.name),
            plot(outcome, longest, sum_mbps * 1.15)
        );
    }
    page.push_str("</html>\n");
    page
}

/// What the demo has shown, in a sentence for each program.
pub(crate) fn headline(outcomes: &[Outcome]) -> Vec<String> {
    let find = |program: &str, transport: &str| {
        let mut runs = outcomes.iter().map(|outcome| &outcome.run);
        runs.find(|run| run.program == program && run.transport == transport)
    };
    let sentence = |program: &str| {
        let ours = find(program, "manypath")?;
        let mut text = format!("{program}: {:.1} Mbit/s through manypath", ours.goodput_mbps);
        for (transport, name) in [("tcp", "plain TCP"), ("mptcp", "kernel MPTCP")] {
            if let Some(run) = find(program, transport) {
                let _ = write!(text, ", {:.1} over {name}", run.goodput_mbps);
            }
        }
        if let Some(run) = find(program, "manypath-cut") {
            let _ = write!(text, "; path A cut: longest stall {:.2} s", run.longest_stall_s);
            if let Some(rival) = find(program, "mptcp-cut") {
                let _ = write!(text, ", with MPTCP {:.2} s", rival.longest_stall_s);
            }
        }
        Some(text + ".")
    };
    ["curl", "scp"].into_iter().filter_map(sentence).collect()
}

/// Throughput over both paths while path A is cut, manypath beside MPTCP: the first program that has such runs.
pub(crate) fn cut_chart(outcomes: &[Outcome], sum_mbps: f64) -> Option<String> {
    let ours = outcomes.iter().find(|o| o.run.transport == "manypath-cut" && o.cut.is_some())?;
    let same = |o: &&Outcome| o.run.program == ours.run.program && o.run.transport == "mptcp-cut";
    let rival = outcomes.iter().find(same);
    let both: Vec<&Outcome> = [Some(ours), rival].into_iter().flatten().collect();
    let seconds = both.iter().map(|o| o.run.seconds).fold(1.0, f64::max);
    let scale = Scale { seconds, mbps: sum_mbps * 1.15 };
    let mut svg = scale.begin();
    // Both are cut when as much of the file has arrived, within a moment of each other.
    ours.cut.into_iter().for_each(|cut| scale.shade(&mut svg, cut));
    for (index, outcome) in both.iter().enumerate() {
        let (_, sum) = curves(&outcome.series).pop()?;
        let name = format!("{} {}", outcome.run.program, ["manypath", "MPTCP"][index]);
        scale.curve(&mut svg, index, &name, &sum, outcome.series.bucket);
    }
    Some(svg + "</svg>\n")
}

fn summary(outcomes: &[Outcome], sum_mbps: f64) -> String {
    let mut out = format!(
        "<table><tr><th>run<th>time<th>goodput<th>x TCP on A<th>share of A+B ({sum_mbps:.2} Mbit/s)\
         <th>longest stall<th>SHA-256</tr>"
    );
    for Run {
        name,
        seconds,
        goodput_mbps,
        ratio_to_best_path,
        share_of_sum,
        longest_stall_s,
        sha256_equal,
        ..
    } in outcomes.iter().map(|o| &o.run)
    {
        let ratio = ratio_to_best_path.map_or("-".to_owned(), |r| format!("{r:.2}"));
        let hash = if *sha256_equal { "equal" } else { "<span class=bad>different</span>" };
        let _ = write!(
            out,
            "<tr><td>{}<td>{seconds:.2} s<td>{goodput_mbps:.2} Mbit/s<td>{ratio}<td>{:.1} %<td>{:.0} ms<td>{hash}</tr>",
            escape(name),
            share_of_sum * 100.0,
            longest_stall_s * 1e3,
        );
    }
    out + "</table>"
}

/// Throughput over time: a curve per path and their sum.
fn plot(outcome: &Outcome, seconds: f64, mbps: f64) -> String {
    let scale = Scale { seconds, mbps };
    let mut svg = scale.begin();
    if let Some(cut) = outcome.cut {
        scale.shade(&mut svg, cut);
    }
    for (index, (name, rates)) in curves(&outcome.series).into_iter().enumerate() {
        scale.curve(&mut svg, index, &name, &rates, outcome.series.bucket);
    }
    svg + "</svg>"
}

/// The axes of a chart: time and throughput.
#[derive(Clone, Copy)]
struct Scale {
    seconds: f64,
    mbps: f64,
}

impl Scale {
    fn x(self, seconds: f64) -> f64 {
        LEFT + seconds / self.seconds * (WIDTH - LEFT - 10.0)
    }

    fn y(self, mbps: f64) -> f64 {
        HEIGHT - BOTTOM - (mbps / self.mbps).min(1.0) * (HEIGHT - BOTTOM - TOP)
    }

    /// An empty chart with its axes.
    fn begin(self) -> String {
        let mut svg = format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' role='img' \
             font-family='system-ui,sans-serif' font-size='12' fill='#444'>"
        );
        let step = if self.seconds > 12.0 { 2.0 } else { 1.0 };
        let mut at = 0.0;
        while at <= self.seconds {
            let (x, y) = (self.x(at), HEIGHT - 10.0);
            let _ = write!(svg, "<text x='{x:.1}' y='{y}' text-anchor='middle'>{at} s</text>");
            at += step;
        }
        self.lines(&mut svg);
        let _ = write!(svg, "<text x='4' y='{}'>Mbit/s</text>", TOP - 12.0);
        svg
    }

    /// A line for every 10 Mbit/s.
    fn lines(self, svg: &mut String) {
        let mut at = 0.0;
        while at <= self.mbps {
            let line = self.y(at);
            let _ = write!(
                svg,
                "<line x1='{LEFT}' x2='{}' y1='{line:.1}' y2='{line:.1}' stroke='#ddd'/>\
                 <text x='{}' y='{:.1}' text-anchor='end'>{at}</text>",
                WIDTH - 10.0,
                LEFT - 6.0,
                line + 4.0
            );
            at += 10.0;
        }
    }

    /// Shades the time for which path A was cut.
    fn shade(self, svg: &mut String, (down, up): (Duration, Duration)) {
        let (from, to) = (self.x(down.as_secs_f64()), self.x(up.as_secs_f64()));
        let (width, height) = (to - from, HEIGHT - BOTTOM - TOP);
        let _ = write!(
            svg,
            "<rect x='{from:.1}' y='{TOP}' width='{width:.1}' height='{height}' fill='#d1622b' fill-opacity='.15'/>\
             <text x='{:.1}' y='{}'>path A cut</text>",
            from + 4.0,
            TOP + 14.0
        );
    }

    /// One curve with its name at the top.
    fn curve(self, svg: &mut String, index: usize, name: &str, rates: &[f64], bucket: Duration) {
        let colour = COLOURS[index.min(COLOURS.len() - 1)];
        let time = |i: usize| (i as f64 + 0.5) * bucket.as_secs_f64();
        let points = rates.iter().enumerate();
        let line: Vec<String> = points
            .map(|(i, rate)| format!("{:.1},{:.1}", self.x(time(i)), self.y(*rate)))
            .collect();
        let _ = write!(
            svg,
            "<polyline points='{}' fill='none' stroke='{colour}' stroke-width='1.6'/>\
             <text x='{}' y='{}' fill='{colour}'>{}</text>",
            line.join(" "),
            WIDTH - 330.0 + 110.0 * index as f64,
            TOP - 12.0,
            escape(name)
        );
    }
}

/// Mbit/s per bucket of every path and of all together.
fn curves(series: &Series) -> Vec<(String, Vec<f64>)> {
    let mut curves: Vec<(String, Vec<f64>)> = series
        .paths
        .iter()
        .map(|(name, b)| (format!("path {name}"), smooth(b, series.bucket)))
        .collect();
    let longest = curves.iter().map(|(_, c)| c.len()).max().unwrap_or(0);
    let at = |i: usize| curves.iter().filter_map(|(_, c)| c.get(i)).sum();
    let sum = (0..longest).map(at).collect();
    curves.push(("sum".to_owned(), sum));
    curves
}

fn smooth(buckets: &[u64], bucket: Duration) -> Vec<f64> {
    let mean = |i: usize| {
        let window = &buckets[i.saturating_sub(SMOOTH - 1)..=i];
        window.iter().sum::<u64>() as f64 * 8.0 / (window.len() as f64 * bucket.as_secs_f64()) / 1e6
    };
    (0..buckets.len()).map(mean).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_means_over_the_last_buckets() {
        let rates = smooth(&[125_000, 125_000, 0, 0, 0, 0], Duration::from_millis(50));
        let rounded: Vec<i64> = rates.iter().map(|r| r.round() as i64).collect();
        assert_eq!(rounded, [20, 20, 13, 10, 5, 0]);
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("<b>&"), "&lt;b&gt;&amp;");
    }
}
