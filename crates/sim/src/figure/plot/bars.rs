//! Groups of bars beside each other, one of each curve.

use super::layout::{Frame, INK, colour, text};
use super::shape::{Anchor, Shape};
use super::{Panel, Point};

/// Part of a group's room that bars take.
const USED: f64 = 0.8;

pub(super) fn draw(frame: &Frame, panel: &Panel, out: &mut Vec<Shape>) {
    for (group, name) in panel.groups.iter().enumerate() {
        let (x, bottom) = frame.place(group as f64 + 0.5, 0.0);
        out.push(text((x, bottom + 20.0), name, 13.0, Anchor::Middle, false));
    }
    let width = USED / panel.curves.len().max(1) as f64;
    for (place, curve) in panel.curves.iter().enumerate() {
        let from = (1.0 - USED) / 2.0 + place as f64 * width;
        for point in &curve.points {
            let left = point.x + from;
            out.push(bar(frame, (left, left + width * 0.9), point, curve.number));
            frame.interval(left + width * 0.45, point, INK, out);
        }
    }
}

fn bar(frame: &Frame, (left, right): (f64, f64), point: &Point, number: usize) -> Shape {
    let corners = [(left, 0.0), (left, point.y), (right, point.y), (right, 0.0)];
    let places = corners.map(|(x, y)| frame.place(x, y)).to_vec();
    Shape::Area { places, colour: colour(number) }
}
