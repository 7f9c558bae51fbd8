//! Where everything of a chart goes.

use super::axis::Axis;
use super::bars;
use super::shape::{Anchor, Colour, Drawing, Place, Shape};
use super::{Chart, Curve, Mark, Panel, Point};

/// Where a chart is to be shown.
pub(super) struct Style {
    /// Width and height of a panel.
    panel: (f64, f64),
    /// Most panels side by side.
    columns: usize,
    /// Whether the chart has its title above it. Papers have it in the caption.
    title: bool,
}

/// A page on a screen.
pub(super) const PAGE: Style = Style { panel: (560.0, 380.0), columns: 3, title: true };
/// A column of a paper: less room for texts of the same size.
pub(super) const COLUMN: Style = Style { panel: (350.0, 240.0), columns: 1, title: false };

const MARGIN_LEFT: f64 = 70.0;
const MARGIN_RIGHT: f64 = 20.0;
const MARGIN_TOP: f64 = 64.0;
const MARGIN_BOTTOM: f64 = 58.0;
const LEGEND_LINE: f64 = 18.0;
pub(super) const INK: Colour = [30, 30, 30];
const GRID: Colour = [222, 222, 222];

/// Colours that people with colour vision deficiencies can tell apart (Okabe and Ito).
const COLOURS: [Colour; 8] = [
    [0, 114, 178],
    [213, 94, 0],
    [0, 158, 115],
    [86, 180, 233],
    [230, 159, 0],
    [204, 121, 167],
    [90, 90, 90],
    [150, 120, 0],
];
const DOTS: [f64; 2] = [1.5, 3.0];
const DASHES: [&[f64]; 4] = [&[], &[8.0, 4.0], &[2.0, 3.0], &[10.0, 3.0, 2.0, 3.0]];

pub(super) fn draw(chart: &Chart, style: &Style) -> Drawing {
    let lines = |panel: &Panel| legend_lines(panel) as f64 * LEGEND_LINE + 12.0;
    let longest = chart.panels.iter().map(lines).fold(0.0, f64::max);
    // Panels with the same curves share a legend.
    let alike = |panels: &[Panel]| legend(&panels[0]).eq(legend(&panels[1]));
    let shared = chart.panels.windows(2).all(alike);
    let (below_each, below_all) = if shared { (0.0, longest) } else { (longest, 0.0) };
    let width = MARGIN_LEFT + style.panel.0 + MARGIN_RIGHT;
    let height = MARGIN_TOP + style.panel.1 + MARGIN_BOTTOM + below_each;
    let columns = chart.panels.len().clamp(1, style.columns);
    let total = width * columns as f64;
    let mut shapes = Vec::new();
    if style.title {
        shapes.push(text((total / 2.0, 24.0), &chart.title, 17.0, Anchor::Middle, true));
    }
    for (number, panel) in chart.panels.iter().enumerate() {
        let (row, column) = ((number / columns) as f64, (number % columns) as f64);
        let origin = (column * width + MARGIN_LEFT, row * height + MARGIN_TOP);
        // What has the same unit has the same axis, so that panels can be compared.
        let alike = chart.panels.iter().filter(|other| other.y_label == panel.y_label);
        let highest = alike.map(highest).fold(0.0, f64::max);
        Frame::new(panel, highest, origin, style.panel).draw(panel, &mut shapes);
        if !shared {
            let below = origin.1 + style.panel.1 + MARGIN_BOTTOM;
            draw_legend(panel, (origin.0, below), &mut shapes);
        }
    }
    let bottom = height * chart.panels.len().div_ceil(columns).max(1) as f64;
    if let Some(panel) = chart.panels.first().filter(|_| shared) {
        draw_legend(panel, (MARGIN_LEFT, bottom), &mut shapes);
    }
    Drawing { width: total, height: bottom + below_all, shapes }
}

/// Number and name of each curve.
fn legend(panel: &Panel) -> impl Iterator<Item = (usize, &str)> {
    panel.curves.iter().map(|curve| (curve.number, curve.name.as_str()))
}

fn legend_lines(panel: &Panel) -> usize {
    panel.curves.len() + usize::from(!panel.published.is_empty())
}

/// What the curves of a panel are, below it.
fn draw_legend(panel: &Panel, (left, top): Place, out: &mut Vec<Shape>) {
    let line = |row: usize| top + row as f64 * LEGEND_LINE + 4.0;
    for (row, (number, name)) in legend(panel).enumerate() {
        let y = line(row);
        match (panel.dots, panel.groups.is_empty()) {
            (true, _) => {}
            (false, true) => out.push(stroke(number, vec![(left, y), (left + 40.0, y)])),
            (false, false) => out.push(filled((left, y - 5.0), (left + 40.0, y + 5.0), number)),
        }
        if panel.dots || (panel.groups.is_empty() && !panel.lines) {
            out.push(marker(number, (left + 20.0, y)));
        }
        let name = if panel.dots { name.to_owned() } else { format!("{number}: {name}") };
        out.push(text((left + 50.0, y + 4.5), &name, 13.0, Anchor::Start, false));
    }
    if !panel.published.is_empty() {
        let y = line(panel.curves.len());
        let dotted = vec![(left, y), (left + 40.0, y)];
        out.push(Shape::Line { places: dotted, colour: INK, width: 1.2, dash: &DOTS });
        if panel.published.iter().any(|mark| mark.x.is_some() && mark.y.is_some()) {
            out.push(ring((left + 20.0, y), INK));
        }
        out.push(text((left + 50.0, y + 4.5), "published", 13.0, Anchor::Start, false));
    }
}

/// A panel's axes and where they are.
pub(super) struct Frame {
    x: Axis,
    y: Axis,
    /// Left upper corner.
    origin: Place,
    /// Width and height.
    size: (f64, f64),
}

impl Frame {
    fn new(panel: &Panel, highest: f64, origin: Place, size: (f64, f64)) -> Self {
        let points = || panel.curves.iter().flat_map(|curve| &curve.points);
        let least = points().map(|point| point.x).fold(f64::INFINITY, f64::min);
        let most = points().map(|point| point.x).fold(0.0, f64::max);
        let x = match panel.groups.len() {
            0 if panel.x_label.contains("KiB") => Axis::of_kib(least, most),
            0 => Axis::up_to(most, 8),
            groups => Axis::of_groups(groups),
        };
        Self { x, y: Axis::up_to(highest, 7), origin, size }
    }

    fn draw(&self, panel: &Panel, out: &mut Vec<Shape>) {
        self.grid(out);
        let ((left, top), (width, height)) = (self.origin, self.size);
        let middle = left + width / 2.0;
        out.push(text((middle, top - 12.0), &panel.title, 14.0, Anchor::Middle, false));
        out.push(text((middle, top + height + 42.0), &panel.x_label, 14.0, Anchor::Middle, false));
        let beside = (left - 50.0, top + height / 2.0);
        out.push(upright(beside, &panel.y_label, 14.0, Anchor::Middle));
        if !panel.groups.is_empty() {
            self.names(&panel.groups, out);
        }
        match (panel.dots, panel.groups.is_empty()) {
            (true, _) => panel.curves.iter().for_each(|curve| self.dots(curve, out)),
            (false, true) => {
                panel.curves.iter().for_each(|curve| self.curve(curve, !panel.lines, out))
            }
            (false, false) => bars::draw(self, panel, out),
        }
        panel.published.iter().for_each(|mark| self.mark(mark, out));
    }

    /// Names of groups, in two lines where they do not fit into one.
    fn names(&self, groups: &[String], out: &mut Vec<Shape>) {
        const LETTER: f64 = 7.5;
        let room = self.size.0 / groups.len() as f64;
        for (group, name) in groups.iter().enumerate() {
            let (x, y) = self.place(group as f64 + 0.5, 0.0);
            let lines: Vec<&str> = match name.split_once(", ") {
                Some((first, rest)) if name.len() as f64 * LETTER > room => vec![first, rest],
                _ => vec![name],
            };
            for (row, line) in lines.into_iter().enumerate() {
                let at = (x, y + 20.0 + 16.0 * row as f64);
                out.push(text(at, line, 13.0, Anchor::Middle, false));
            }
        }
    }

    fn grid(&self, out: &mut Vec<Shape>) {
        let (left, top) = self.origin;
        let (right, bottom) = (left + self.size.0, top + self.size.1);
        for tick in &self.x.ticks {
            let (x, _) = self.place(*tick, 0.0);
            out.push(line(vec![(x, top), (x, bottom)], GRID, 1.0));
            out.push(text((x, bottom + 20.0), &number(*tick), 13.0, Anchor::Middle, false));
        }
        for tick in &self.y.ticks {
            let (_, y) = self.place(0.0, *tick);
            out.push(line(vec![(left, y), (right, y)], GRID, 1.0));
            out.push(text((left - 8.0, y + 4.5), &number(*tick), 13.0, Anchor::End, false));
        }
        let corners = vec![(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
        out.push(line(corners, INK, 1.2));
    }

    fn curve(&self, curve: &Curve, markers: bool, out: &mut Vec<Shape>) {
        let colour = colour(curve.number);
        let places: Vec<_> = curve.points.iter().map(|p| self.place(p.x, p.y)).collect();
        for point in &curve.points {
            self.interval(point.x, point, colour, out);
        }
        out.push(stroke(curve.number, places.clone()));
        let places = places.into_iter().filter(|_| markers);
        out.extend(places.map(|place| marker(curve.number, place)));
    }

    /// The confidence interval of a point that is drawn at `x`.
    pub(super) fn interval(&self, x: f64, point: &Point, colour: Colour, out: &mut Vec<Shape>) {
        if point.error <= 0.0 {
            return;
        }
        let (x, high) = self.place(x, point.y + point.error);
        let (_, low) = self.place(x, (point.y - point.error).max(0.0));
        out.push(line(vec![(x, high), (x, low)], colour, 1.2));
        out.push(line(vec![(x - 4.0, high), (x + 4.0, high)], colour, 1.2));
        out.push(line(vec![(x - 4.0, low), (x + 4.0, low)], colour, 1.2));
    }

    fn dots(&self, curve: &Curve, out: &mut Vec<Shape>) {
        let places = curve.points.iter().map(|p| self.place(p.x + 0.5, p.y));
        out.extend(places.map(|place| marker(curve.number, place)));
    }

    /// A ring where a curve should pass, a dotted line where a limit is.
    fn mark(&self, mark: &Mark, out: &mut Vec<Shape>) {
        let ((left, top), (width, height)) = (self.origin, self.size);
        let colour = if mark.curve == 0 { INK } else { colour(mark.curve) };
        let dotted = |places| Shape::Line { places, colour, width: 1.2, dash: &DOTS };
        match (mark.x, mark.y) {
            (Some(x), Some(y)) => {
                let (x, y) = self.place(x, y);
                out.push(ring((x, y), colour));
                out.push(text((x - 12.0, y - 8.0), &mark.text, 11.0, Anchor::End, false));
            }
            (Some(x), None) => {
                let (x, _) = self.place(x, 0.0);
                out.push(dotted(vec![(x, top), (x, top + height)]));
                out.push(upright((x - 4.0, top + height - 6.0), &mark.text, 11.0, Anchor::Start));
            }
            (None, Some(y)) => {
                let (_, y) = self.place(0.0, y);
                out.push(dotted(vec![(left, y), (left + width, y)]));
                out.push(text((left + 6.0, y - 4.0), &mark.text, 11.0, Anchor::Start, false));
            }
            (None, None) => {}
        }
    }

    pub(super) fn place(&self, x: f64, y: f64) -> Place {
        let (left, top) = self.origin;
        (left + self.x.place(x) * self.size.0, top + (1.0 - self.y.place(y)) * self.size.1)
    }
}

/// The highest value of a panel.
fn highest(panel: &Panel) -> f64 {
    let points = panel.curves.iter().flat_map(|curve| &curve.points);
    let published = panel.published.iter().filter_map(|mark| mark.y);
    points.map(|point| point.y + point.error).chain(published).fold(0.0, f64::max)
}

pub(super) fn colour(number: usize) -> Colour {
    COLOURS[number.saturating_sub(1) % COLOURS.len()]
}

fn stroke(number: usize, places: Vec<Place>) -> Shape {
    let dash = DASHES[number.saturating_sub(1) % DASHES.len()];
    Shape::Line { places, colour: colour(number), width: 2.0, dash }
}

/// Square, diamond, triangle up, triangle down, hexagon in turn.
fn marker(number: usize, (x, y): Place) -> Shape {
    const R: f64 = 5.0;
    let (corners, turn) = [(4, 0.125), (4, 0.0), (3, 0.75), (3, 0.25), (6, 0.0)][number % 5];
    let corner = |i: usize| {
        let angle = (i as f64 / corners as f64 + turn) * std::f64::consts::TAU;
        (x + R * angle.cos(), y + R * angle.sin())
    };
    Shape::Area { places: (0..corners).map(corner).collect(), colour: colour(number) }
}

/// Larger than a marker, which may lie in it.
fn ring((x, y): Place, colour: Colour) -> Shape {
    const R: f64 = 8.0;
    const CORNERS: usize = 24;
    let corner = |i: usize| {
        let angle = i as f64 / CORNERS as f64 * std::f64::consts::TAU;
        (x + R * angle.cos(), y + R * angle.sin())
    };
    line((0..=CORNERS).map(corner).collect(), colour, 1.5)
}

/// A box in the colour of a curve.
pub(super) fn filled((left, top): Place, (right, bottom): Place, number: usize) -> Shape {
    let places = vec![(left, top), (right, top), (right, bottom), (left, bottom)];
    Shape::Area { places, colour: colour(number) }
}

fn line(places: Vec<Place>, colour: Colour, width: f64) -> Shape {
    Shape::Line { places, colour, width, dash: &[] }
}

pub(super) fn text(at: Place, text: &str, size: f64, anchor: Anchor, bold: bool) -> Shape {
    Shape::Text { at, text: text.to_owned(), size, anchor, upright: false, bold }
}

fn upright(at: Place, text: &str, size: f64, anchor: Anchor) -> Shape {
    Shape::Text { at, text: text.to_owned(), size, anchor, upright: true, bold: false }
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
