//! Live and simulated figures beside each other.

use super::super::table::{align, mean, points};
use manypath_sim::campaign::Record;

/// Figures that are shown; results.csv has all.
const SHOWN: [&str; 3] = ["throughput_mbps", "delay_ms", "stream_delay_ms"];

/// Means of each point, simulated, live and live over simulated.
pub(super) fn table(
    swept: &[String],
    simulated: &[Record],
    lived: &[Record],
    json: bool,
) -> String {
    let points = pairs(swept, simulated, lived);
    if json {
        let rows = points.iter().map(|pair| {
            let figure = |(name, [simulated, live]): (_, [f64; 2])| {
                let ratio = live / simulated;
                let value =
                    serde_json::json!({"simulated": simulated, "live": live, "ratio": ratio});
                (name, value)
            };
            let figures: std::collections::BTreeMap<_, _> = pair.figures().map(figure).collect();
            serde_json::json!({"point": pair.point, "figures": figures})
        });
        return format!("{:#}\n", serde_json::Value::from_iter(rows));
    }
    let head =
        ["setup", "case"].into_iter().chain(swept.iter().map(String::as_str)).map(str::to_owned);
    let columns = |name: &str| [format!("{name}: sim"), "live".to_owned(), "ratio".to_owned()];
    let head = head.chain(SHOWN.iter().flat_map(|name| columns(name))).collect();
    let row = |pair: &Pair<'_>| {
        let cells = pair.figures().flat_map(|(_, [simulated, live])| {
            [format!("{simulated:.2}"), format!("{live:.2}"), format!("{:.3}", live / simulated)]
        });
        pair.point.iter().cloned().chain(cells).collect()
    };
    align(std::iter::once(head).chain(points.iter().map(row)).collect())
}

/// The largest part by which a mean goodput differs from the simulated one.
pub(super) fn worst(swept: &[String], simulated: &[Record], lived: &[Record]) -> f64 {
    let part = |pair: &Pair<'_>| {
        let [simulated, live] = pair.means("throughput_mbps");
        let part = (live / simulated - 1.0).abs();
        if part.is_finite() { part } else { f64::INFINITY }
    };
    pairs(swept, simulated, lived).iter().map(part).fold(0.0, f64::max)
}

/// The runs of one point.
struct Pair<'a> {
    point: Vec<String>,
    runs: [Vec<&'a Record>; 2],
}

impl Pair<'_> {
    fn means(&self, figure: &str) -> [f64; 2] {
        let mean = |runs: &Vec<&Record>| mean(runs, figure).map_or(f64::NAN, |s| s.mean);
        self.runs.each_ref().map(mean)
    }

    fn figures(&self) -> impl Iterator<Item = (&'static str, [f64; 2])> {
        SHOWN.into_iter().map(|name| (name, self.means(name)))
    }
}

/// Both are runs of one plan, so that their points are the same.
fn pairs<'a>(swept: &[String], simulated: &'a [Record], lived: &'a [Record]) -> Vec<Pair<'a>> {
    let pair = |((point, simulated), (_, lived))| Pair { point, runs: [simulated, lived] };
    points(simulated, swept).into_iter().zip(points(lived, swept)).map(pair).collect()
}
