//! Shapes to a PNG file (RFC 2083): lines become polygons, letters the outlines of a font.
//!
//! The font is a subset of DejaVu Sans (ASCII, a few Greek letters and signs); its licence is beside
//! it in `dejavu-sans-copyright.txt`.

use super::Chart;
use super::layout;
use super::raster::Canvas;
use super::shape::{Anchor, Colour, Place, Shape};
use ttf_parser::{Face, OutlineBuilder};

static FONT: &[u8] = include_bytes!("dejavu-sans-subset.ttf");
/// Pixels per unit of the layout.
const SCALE: f64 = 2.0;
const INK: Colour = [30, 30, 30];
/// Straight pieces of a curve of a letter.
const PIECES: usize = 4;

/// The chart as PNG, twice the size of the SVG in pixels.
pub fn to_png(chart: &Chart) -> Vec<u8> {
    let drawing = layout::draw(chart);
    let size = |length: f64| (length * SCALE).ceil() as usize;
    let mut canvas = Canvas::new(size(drawing.width), size(drawing.height));
    let face = Face::parse(FONT, 0).ok();
    for shape in &drawing.shapes {
        draw(&mut canvas, shape, face.as_ref());
    }
    encode(&canvas)
}

fn draw(canvas: &mut Canvas, shape: &Shape, face: Option<&Face<'_>>) {
    match shape {
        Shape::Line { places, colour, width, dash } => {
            for pair in places.windows(2) {
                for (from, to) in dashes(pair[0], pair[1], dash) {
                    canvas.fill(&[bar(scaled(from), scaled(to), width * SCALE)], *colour);
                }
            }
        }
        Shape::Area { places, colour } => {
            canvas.fill(&[places.iter().copied().map(scaled).collect()], *colour);
        }
        Shape::Text { at, text, size, anchor, upright, bold } => {
            let Some(face) = face else { return };
            let contours = letters(face, text, size * SCALE, *anchor);
            let at = scaled(*at);
            // Bold is drawn twice, a little apart: the font has one weight.
            for shift in if *bold { &[0.0, 0.8][..] } else { &[0.0][..] } {
                let place = |(x, y): &Place| match upright {
                    true => (at.0 + y, at.1 - x - shift),
                    false => (at.0 + x + shift, at.1 + y),
                };
                let placed: Vec<Vec<Place>> =
                    contours.iter().map(|contour| contour.iter().map(place).collect()).collect();
                canvas.fill(&placed, INK);
            }
        }
    }
}

fn scaled((x, y): Place) -> Place {
    (x * SCALE, y * SCALE)
}

/// The pieces of a line that its dashes leave.
fn dashes(from: Place, to: Place, dash: &[f64]) -> Vec<(Place, Place)> {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.mul_add(dx, dy * dy).sqrt();
    if dash.is_empty() || length == 0.0 {
        return vec![(from, to)];
    }
    let place = |at: f64| (from.0 + dx * at / length, from.1 + dy * at / length);
    let (mut out, mut at) = (Vec::new(), 0.0);
    for (number, step) in dash.iter().cycle().enumerate() {
        if at >= length {
            break;
        }
        let end = (at + step).min(length);
        if number % 2 == 0 {
            out.push((place(at), place(end)));
        }
        at = end;
    }
    out
}

/// A line as a polygon, half a width longer at both ends so that corners are closed.
fn bar(from: Place, to: Place, width: f64) -> Vec<Place> {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.mul_add(dx, dy * dy).sqrt().max(1e-9);
    let (ux, uy) = (dx / length * width / 2.0, dy / length * width / 2.0);
    vec![
        (from.0 - ux - uy, from.1 - uy + ux),
        (to.0 + ux - uy, to.1 + uy + ux),
        (to.0 + ux + uy, to.1 + uy - ux),
        (from.0 - ux + uy, from.1 - uy - ux),
    ]
}

/// Outlines of a text around its anchor.
fn letters(face: &Face<'_>, text: &str, size: f64, anchor: Anchor) -> Vec<Vec<Place>> {
    let scale = size / f64::from(face.units_per_em());
    let mut pen = Pen { scale, left: 0.0, last: (0.0, 0.0), contours: Vec::new() };
    for letter in text.chars() {
        let glyph = face.glyph_index(letter).unwrap_or_default();
        face.outline_glyph(glyph, &mut pen);
        pen.left += f64::from(face.glyph_hor_advance(glyph).unwrap_or(0)) * scale;
    }
    let shift = match anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => pen.left / 2.0,
        Anchor::End => pen.left,
    };
    pen.contours.iter_mut().flatten().for_each(|place| place.0 -= shift);
    pen.contours
}

/// Collects outlines; the font's y axis points upwards.
struct Pen {
    scale: f64,
    left: f64,
    last: Place,
    contours: Vec<Vec<Place>>,
}

impl Pen {
    fn place(&self, x: f32, y: f32) -> Place {
        (self.left + f64::from(x) * self.scale, -f64::from(y) * self.scale)
    }

    fn add(&mut self, place: Place) {
        self.last = place;
        if let Some(contour) = self.contours.last_mut() {
            contour.push(place);
        }
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.contours.push(Vec::new());
        self.add(self.place(x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.add(self.place(x, y));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let (a, b, c) = (self.last, self.place(x1, y1), self.place(x, y));
        for piece in 1..=PIECES {
            let t = piece as f64 / PIECES as f64;
            let mix = |a: f64, b: f64, c: f64| {
                (1.0 - t) * (1.0 - t) * a + 2.0 * t * (1.0 - t) * b + t * t * c
            };
            self.add((mix(a.0, b.0, c.0), mix(a.1, b.1, c.1)));
        }
    }

    /// The font has quadratic curves only.
    fn curve_to(&mut self, _: f32, _: f32, _: f32, _: f32, x: f32, y: f32) {
        self.add(self.place(x, y));
    }

    fn close(&mut self) {}
}

fn encode(canvas: &Canvas) -> Vec<u8> {
    let mut rows = Vec::with_capacity(canvas.pixels.len() + canvas.height);
    for row in canvas.pixels.chunks(3 * canvas.width) {
        rows.push(0); // no filter
        rows.extend_from_slice(row);
    }
    let mut header = Vec::new();
    header.extend((canvas.width as u32).to_be_bytes());
    header.extend((canvas.height as u32).to_be_bytes());
    header.extend([8, 2, 0, 0, 0]); // 8 bits, RGB, deflate, no filter method, not interlaced
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut out, *b"IHDR", &header);
    chunk(&mut out, *b"IDAT", &miniz_oxide::deflate::compress_to_vec_zlib(&rows, 8));
    chunk(&mut out, *b"IEND", &[]);
    out
}

fn chunk(out: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    out.extend((data.len() as u32).to_be_bytes());
    let begin = out.len();
    out.extend(kind);
    out.extend(data);
    let crc = crc32(&out[begin..]);
    out.extend(crc.to_be_bytes());
}

/// CRC-32 of ISO 3309, bit by bit: a picture is small.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 }
        })
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_format() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn the_font_has_every_letter_that_figures_use() {
        let face = Face::parse(FONT, 0).unwrap();
        for letter in "AZaz09 .,:;()=/+-%σδρΣν±×".chars() {
            assert!(face.glyph_index(letter).is_some(), "{letter}");
        }
    }
}
