//! Groups of bars beside each other, one of each curve.

use super::layout::{Frame, INK, filled};
use super::shape::Shape;
use super::{Panel, Point};

/// Part of a group's room that bars take.
const USED: f64 = 0.8;

pub(super) fn draw(frame: &Frame, panel: &Panel, out: &mut Vec<Shape>) {
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
    filled(frame.place(left, point.y), frame.place(right, 0.0), number)
}
