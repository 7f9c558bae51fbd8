//! Where everything of a chart goes.

use super::axis::Axis;
use super::bars;
use super::shape::{Anchor, Colour, Drawing, Place, Shape};
use super::{Chart, Curve, Panel, Point};

/// Most panels side by side.
const COLUMNS: usize = 3;
pub(super) const PANEL: (f64, f64) = (560.0, 380.0);
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
const DASHES: [&[f64]; 4] = [&[], &[8.0, 4.0], &[2.0, 3.0], &[10.0, 3.0, 2.0, 3.0]];

pub(super) fn draw(chart: &Chart) -> Drawing {
    let legend = chart.panels.iter().map(|panel| panel.curves.len()).max().unwrap_or(0) as f64;
    let width = MARGIN_LEFT + PANEL.0 + MARGIN_RIGHT;
    let height = MARGIN_TOP + PANEL.1 + MARGIN_BOTTOM + legend * LEGEND_LINE + 12.0;
    let columns = chart.panels.len().clamp(1, COLUMNS);
    let total = width * columns as f64;
    let mut shapes = vec![text((total / 2.0, 24.0), &chart.title, 17.0, Anchor::Middle, true)];
    for (number, panel) in chart.panels.iter().enumerate() {
        let (row, column) = ((number / columns) as f64, (number % columns) as f64);
        let origin = (column * width + MARGIN_LEFT, row * height + MARGIN_TOP);
        // What has the same unit has the same axis, so that panels can be compared.
        let alike = chart.panels.iter().filter(|other| other.y_label == panel.y_label);
        Frame::new(panel, alike.map(highest).fold(0.0, f64::max), origin).draw(panel, &mut shapes);
    }
    let rows = chart.panels.len().div_ceil(columns).max(1) as f64;
    Drawing { width: total, height: height * rows, shapes }
}

/// A panel's axes and where they are.
pub(super) struct Frame {
    x: Axis,
    y: Axis,
    /// Left upper corner.
    origin: Place,
}

impl Frame {
    fn new(panel: &Panel, highest: f64, origin: Place) -> Self {
        let points = || panel.curves.iter().flat_map(|curve| &curve.points);
        let least = points().map(|point| point.x).fold(f64::INFINITY, f64::min);
        let most = points().map(|point| point.x).fold(0.0, f64::max);
        let x = match panel.groups.len() {
            0 if panel.x_label.contains("KiB") => Axis::of_kib(least, most),
            0 => Axis::up_to(most, 8),
            groups => Axis::of_groups(groups),
        };
        Self { x, y: Axis::up_to(highest, 7), origin }
    }

    fn draw(&self, panel: &Panel, out: &mut Vec<Shape>) {
        self.grid(out);
        let (left, top) = self.origin;
        let middle = left + PANEL.0 / 2.0;
        out.push(text((middle, top - 12.0), &panel.title, 14.0, Anchor::Middle, false));
        out.push(text((middle, top + PANEL.1 + 42.0), &panel.x_label, 14.0, Anchor::Middle, false));
        out.push(Shape::Text {
            at: (left - 50.0, top + PANEL.1 / 2.0),
            text: panel.y_label.clone(),
            size: 14.0,
            anchor: Anchor::Middle,
            upright: true,
            bold: false,
        });
        if !panel.groups.is_empty() {
            bars::draw(self, panel, out);
        }
        for (place, curve) in panel.curves.iter().enumerate() {
            if panel.groups.is_empty() {
                self.curve(curve, out);
            }
            self.legend(place, curve, out);
        }
    }

    fn grid(&self, out: &mut Vec<Shape>) {
        let (left, top) = self.origin;
        let (right, bottom) = (left + PANEL.0, top + PANEL.1);
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

    fn curve(&self, curve: &Curve, out: &mut Vec<Shape>) {
        let colour = colour(curve.number);
        let places: Vec<_> = curve.points.iter().map(|p| self.place(p.x, p.y)).collect();
        for point in &curve.points {
            self.interval(point.x, point, colour, out);
        }
        out.push(stroke(curve.number, places.clone()));
        out.extend(places.into_iter().map(|place| marker(curve.number, place)));
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

    fn legend(&self, row: usize, curve: &Curve, out: &mut Vec<Shape>) {
        let (left, top) = self.origin;
        let y = top + PANEL.1 + MARGIN_BOTTOM + row as f64 * LEGEND_LINE + 4.0;
        out.push(stroke(curve.number, vec![(left, y), (left + 40.0, y)]));
        out.push(marker(curve.number, (left + 20.0, y)));
        let name = format!("{}: {}", curve.number, curve.name);
        out.push(text((left + 50.0, y + 4.5), &name, 13.0, Anchor::Start, false));
    }

    pub(super) fn place(&self, x: f64, y: f64) -> Place {
        let (left, top) = self.origin;
        (left + self.x.place(x) * PANEL.0, top + (1.0 - self.y.place(y)) * PANEL.1)
    }
}

/// The highest value of a panel.
fn highest(panel: &Panel) -> f64 {
    let points = panel.curves.iter().flat_map(|curve| &curve.points);
    points.map(|point| point.y + point.error).fold(0.0, f64::max)
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

fn line(places: Vec<Place>, colour: Colour, width: f64) -> Shape {
    Shape::Line { places, colour, width, dash: &[] }
}

pub(super) fn text(at: Place, text: &str, size: f64, anchor: Anchor, bold: bool) -> Shape {
    Shape::Text { at, text: text.to_owned(), size, anchor, upright: false, bold }
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
