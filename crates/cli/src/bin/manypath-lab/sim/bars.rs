//! The values of bar charts as tables.

use super::table::align;
use manypath_sim::figure::plot::{Chart, Panel, Point};

/// For a terminal; empty if the chart has no bars.
pub(super) fn to_text(chart: &Chart) -> String {
    let table = |panel: &Panel| format!("\n{}\n{}", panel.title, align(rows(panel)));
    panels(chart).map(table).collect()
}

/// The same as Markdown.
pub(super) fn to_markdown(chart: &Chart) -> String {
    let line = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | "));
    let table = |panel: &Panel| {
        let rows = rows(panel);
        let rule = "|---".repeat(rows[0].len()) + "|\n";
        let body: String = rows[1..].iter().map(line).collect();
        format!("\n**{}**\n\n{}{rule}{body}", panel.title, line(&rows[0]))
    };
    panels(chart).map(table).collect()
}

fn panels(chart: &Chart) -> impl Iterator<Item = &Panel> {
    chart.panels.iter().filter(|panel| !panel.groups.is_empty() && !panel.dots)
}

/// A heading with the names of the curves, and a row for each group.
fn rows(panel: &Panel) -> Vec<Vec<String>> {
    let names = panel.curves.iter().map(|curve| curve.name.clone());
    let mut rows = vec![std::iter::once(String::new()).chain(names).collect()];
    for (number, group) in panel.groups.iter().enumerate() {
        let cells = panel.curves.iter().map(|curve| {
            let point = curve.points.iter().find(|point| point.x as usize == number);
            point.map_or_else(|| "-".to_owned(), value)
        });
        rows.push(std::iter::once(group.clone()).chain(cells).collect());
    }
    rows
}

/// Mean and 95 % confidence interval.
fn value(point: &Point) -> String {
    match point.count {
        1 => format!("{:.3}", point.y),
        _ => format!("{:.3} ±{:.3}", point.y, point.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manypath_sim::figure::plot::Curve;

    #[test]
    fn a_row_for_each_group_and_a_column_for_each_curve() {
        let point = |x, y, error, count| Point { x, y, error, count };
        let curve = |number, name: &str, points| Curve { number, name: name.to_owned(), points };
        let panel = Panel {
            title: "Ratio".into(),
            x_label: String::new(),
            y_label: String::new(),
            curves: vec![
                curve(1, "ours", vec![point(0.0, 1.5, 0.25, 24), point(1.0, 2.0, 0.0, 24)]),
                curve(2, "published", vec![point(1.0, 3.0, 0.0, 1)]),
            ],
            groups: vec!["1 MB".into(), "5 MB".into()],
            ..Panel::default()
        };
        let lines = Panel { groups: Vec::new(), ..panel.clone() };
        let chart = Chart { title: String::new(), panels: vec![lines, panel] };
        let markdown = "\n**Ratio**\n\n|  | ours | published |\n|---|---|---|\n\
                        | 1 MB | 1.500 ±0.250 | - |\n| 5 MB | 2.000 ±0.000 | 3.000 |\n";
        assert_eq!(to_markdown(&chart), markdown);
        assert_eq!(to_text(&chart).lines().count(), 5);
    }
}
