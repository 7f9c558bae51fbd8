//! Polygons to pixels, with exact coverage: each edge adds the area to its right, row by row, and a
//! running sum gives what is inside (as in Raph Levien's font-rs). Non-zero winding.

use super::shape::{Colour, Place};

/// A picture, white at first.
#[derive(Debug)]
pub(super) struct Canvas {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Red, green and blue, row by row.
    pub(super) pixels: Vec<u8>,
    /// Scratch: one number per pixel, and one more.
    area: Vec<f32>,
}

impl Canvas {
    pub(super) fn new(width: usize, height: usize) -> Self {
        let size = width * height;
        Self { width, height, pixels: vec![255; 3 * size], area: vec![0.0; size + 1] }
    }

    /// Fills what the closed contours enclose.
    pub(super) fn fill(&mut self, contours: &[Vec<Place>], colour: Colour) {
        let rows = self.rows_of(contours);
        for contour in contours {
            let next = contour.iter().cycle().skip(1);
            for (from, to) in contour.iter().zip(next) {
                self.edge(*from, *to);
            }
        }
        self.paint(rows, colour);
    }

    fn rows_of(&self, contours: &[Vec<Place>]) -> std::ops::Range<usize> {
        let ys = || contours.iter().flatten().map(|(_, y)| *y);
        let top = ys().fold(f64::INFINITY, f64::min).floor().max(0.0) as usize;
        let bottom = ys().fold(0.0, f64::max).ceil() as usize;
        top.min(self.height)..bottom.min(self.height)
    }

    fn edge(&mut self, from: Place, to: Place) {
        let (sign, (x0, y0), (x1, y1)) =
            if from.1 < to.1 { (1.0, from, to) } else { (-1.0, to, from) };
        if y1 - y0 < 1e-9 {
            return;
        }
        let slope = (x1 - x0) / (y1 - y0);
        let first = y0.floor().max(0.0) as usize;
        let last = (y1.ceil() as usize).min(self.height);
        for row in first..last {
            let (top, bottom) = (y0.max(row as f64), y1.min((row + 1) as f64));
            if bottom <= top {
                continue;
            }
            let (a, b) = (x0 + (top - y0) * slope, x0 + (bottom - y0) * slope);
            self.strip(row, sign * (bottom - top), a.min(b), a.max(b));
        }
    }

    /// Part of an edge inside one row: of height `height`, from `left` to `right`.
    fn strip(&mut self, row: usize, height: f64, left: f64, right: f64) {
        let most = self.width as f64;
        let (left, right) = (left.clamp(0.0, most), right.clamp(0.0, most));
        let mut done = 0.0;
        let (first, last) = (left.floor() as usize, right.floor() as usize);
        for column in first..=last.min(self.width - 1) {
            // Covered area up to the right side of this column, as a part of the strip.
            let side = (column + 1) as f64;
            let covered = mean_distance(left, right, side) * height;
            self.area[row * self.width + column] += (covered - done) as f32;
            done = covered;
        }
        let next = row * self.width + last.min(self.width - 1) + 1;
        if next < (row + 1) * self.width {
            self.area[next] += (height - done) as f32;
        }
    }

    fn paint(&mut self, rows: std::ops::Range<usize>, colour: Colour) {
        for row in rows {
            let mut sum = 0.0;
            for at in row * self.width..(row + 1) * self.width {
                sum += std::mem::take(&mut self.area[at]);
                let cover = sum.abs().min(1.0);
                if cover > 0.002 {
                    let pixel = &mut self.pixels[3 * at..3 * at + 3];
                    for (value, ink) in pixel.iter_mut().zip(colour) {
                        *value = (f32::from(*value) * (1.0 - cover) + f32::from(ink) * cover) as u8;
                    }
                }
            }
        }
    }
}

/// The area left of `side` and right of an edge from `left` to `right`, per unit of height, not
/// counting what is further left than the pixel column that ends at `side`.
fn mean_distance(left: f64, right: f64, side: f64) -> f64 {
    if right - left < 1e-9 {
        return (side - left).clamp(0.0, 1.0);
    }
    // Integral over the edge of the part of the column that lies right of it.
    let at = |x: f64| {
        let x = (side - x).clamp(0.0, f64::INFINITY);
        if x <= 1.0 { x * x / 2.0 } else { x - 0.5 }
    };
    (at(left) - at(right)) / (right - left)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sum of ink in pixels.
    fn ink(canvas: &Canvas) -> f64 {
        canvas.pixels.iter().map(|value| f64::from(255 - *value)).sum::<f64>() / 3.0 / 255.0
    }

    #[test]
    fn the_ink_of_a_polygon_is_its_area() {
        let shapes: [(&[Place], f64); 3] = [
            (&[(2.0, 2.0), (12.0, 2.0), (12.0, 7.0), (2.0, 7.0)], 50.0),
            (&[(2.5, 1.25), (17.5, 3.0), (6.0, 18.5)], 126.5),
            (&[(3.2, 3.7), (3.6, 3.7), (3.6, 15.7), (3.2, 15.7)], 4.8),
        ];
        for (shape, area) in shapes {
            let mut canvas = Canvas::new(20, 20);
            canvas.fill(&[shape.to_vec()], [0, 0, 0]);
            let exact = polygon_area(shape);
            assert!((exact - area).abs() < 1.0, "{exact}");
            assert!((ink(&canvas) - exact).abs() < 0.6, "{} of {exact}", ink(&canvas));
        }
    }

    fn polygon_area(places: &[Place]) -> f64 {
        let next = places.iter().cycle().skip(1);
        let cross = places.iter().zip(next).map(|(a, b)| a.0 * b.1 - b.0 * a.1);
        (cross.sum::<f64>() / 2.0).abs()
    }
}
