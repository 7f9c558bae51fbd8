//! PDF of one page, as wide as a column of a paper. Texts are Helvetica and Symbol, which every reader of PDF
//! has, so that nothing is embedded and the file is plain ASCII.

use super::Chart;
use super::layout;
use super::shape::{Anchor, Colour, Place, Shape};
use std::fmt::Write;

/// Width of a column in points: 3.5 inches.
const WIDTH: f64 = 252.0;

/// Advance widths of Helvetica from space to tilde, in thousandths of its size.
const HELVETICA: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];
/// What is set in Symbol: its code there and its width.
const SYMBOL: [(char, u8, u16); 8] = [
    ('Σ', b'S', 592),
    ('σ', b's', 603),
    ('ρ', b'r', 549),
    ('δ', b'd', 494),
    ('ν', b'n', 521),
    ('≤', 0xA3, 549),
    ('≥', 0xB3, 549),
    ('−', 0x2D, 549),
];
/// Width of letters that are in neither table, all of them of Latin-1.
const OTHER: u16 = 556;

/// Fonts of the page, in the order of their numbers.
const FONTS: [&str; 3] = ["Helvetica", "Helvetica-Bold", "Symbol"];

/// The chart as PDF, panels one below the other.
pub fn to_pdf(chart: &Chart) -> String {
    let drawing = layout::draw(chart, &layout::COLUMN);
    let page = Page { scale: WIDTH / drawing.width, height: drawing.height };
    let content: String = drawing.shapes.iter().map(|shape| page.shape(shape)).collect();
    let fonts = (5..).zip(FONTS).map(|(number, _)| format!("/F{} {number} 0 R", number - 4));
    let fonts: String = fonts.collect();
    let mut objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 {WIDTH} {:.2}]/Contents 4 0 R/Resources<</Font<<{fonts}>>>>>>",
            page.height * page.scale
        ),
        format!("<</Length {}>>\nstream\n{content}endstream", content.len()),
    ];
    objects.extend(FONTS.map(|name| {
        let encoding = if name == "Symbol" { "" } else { "/Encoding/WinAnsiEncoding" };
        format!("<</Type/Font/Subtype/Type1/BaseFont/{name}{encoding}>>")
    }));
    file(&objects)
}

/// The file that these objects, numbered from 1, make.
fn file(objects: &[String]) -> String {
    let (mut out, mut table) = (String::from("%PDF-1.4\n"), String::new());
    // Memory takes everything.
    for (number, object) in (1..).zip(objects) {
        let _ = writeln!(table, "{:010} 00000 n ", out.len());
        let _ = write!(out, "{number} 0 obj\n{object}\nendobj\n");
    }
    let (at, count) = (out.len(), objects.len() + 1);
    let _ = write!(out, "xref\n0 {count}\n0000000000 65535 f \n{table}");
    let _ = write!(out, "trailer\n<</Size {count}/Root 1 0 R>>\nstartxref\n{at}\n%%EOF\n");
    out
}

/// The page, on which y grows upwards.
struct Page {
    /// Points in a unit of the drawing.
    scale: f64,
    /// Of the drawing.
    height: f64,
}

impl Page {
    fn shape(&self, shape: &Shape) -> String {
        match shape {
            Shape::Line { places, colour, width, dash } => {
                let dash: Vec<String> = dash.iter().map(|len| self.length(*len)).collect();
                let (width, dash) = (self.length(*width), dash.join(" "));
                format!("{} RG {width} w [{dash}] 0 d {}S\n", rgb(*colour), self.outline(places))
            }
            Shape::Area { places, colour } => {
                format!("{} rg {}f\n", rgb(*colour), self.outline(places))
            }
            Shape::Text { at, text, size, anchor, upright, bold } => {
                let (size, before) = (size * self.scale, share_before(*anchor));
                let (x, y) = self.place(*at);
                let back = before * width(text) * size;
                let (matrix, (x, y)) = match upright {
                    true => ("0 1 -1 0", (x, y - back)),
                    false => ("1 0 0 1", (x - back, y)),
                };
                let runs = runs(text, *bold, size);
                format!("BT 0.12 g {matrix} {x:.2} {y:.2} Tm {runs}ET\n")
            }
        }
    }

    fn outline(&self, places: &[Place]) -> String {
        let step = |(number, place): (usize, &Place)| {
            let (x, y) = self.place(*place);
            format!("{x:.2} {y:.2} {} ", if number == 0 { "m" } else { "l" })
        };
        places.iter().enumerate().map(step).collect()
    }

    fn place(&self, (x, y): Place) -> Place {
        (x * self.scale, (self.height - y) * self.scale)
    }

    fn length(&self, length: f64) -> String {
        format!("{:.2}", length * self.scale)
    }
}

/// The part of a text that lies before its place.
fn share_before(anchor: Anchor) -> f64 {
    match anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => 0.5,
        Anchor::End => 1.0,
    }
}

/// Width of a text, in its size.
fn width(text: &str) -> f64 {
    text.chars().map(|letter| f64::from(glyph(letter).2)).sum::<f64>() / 1000.0
}

/// Whether a letter is of Symbol, its code and its width.
fn glyph(letter: char) -> (bool, u8, u16) {
    if let Some((_, code, width)) = SYMBOL.iter().find(|(other, _, _)| *other == letter) {
        return (true, *code, *width);
    }
    let code = u8::try_from(letter).unwrap_or(b'?');
    let width = HELVETICA.get(usize::from(code).wrapping_sub(32)).copied().unwrap_or(OTHER);
    (false, code, width)
}

/// The operators that show a text: a part for each change of the font.
fn runs(text: &str, bold: bool, size: f64) -> String {
    let glyphs: Vec<_> = text.chars().map(glyph).collect();
    let mut out = String::new();
    for run in glyphs.chunk_by(|a, b| a.0 == b.0) {
        let font = if run[0].0 { 3 } else { 1 + usize::from(bold) };
        let codes: String = run.iter().map(|(_, code, _)| format!("{code:02X}")).collect();
        // Memory takes everything.
        let _ = write!(out, "/F{font} {size:.2} Tf <{codes}> Tj ");
    }
    out
}

fn rgb(colour: Colour) -> String {
    colour.map(|part| format!("{:.3}", f64::from(part) / 255.0)).join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_greek_are_set_in_symbol() {
        assert_eq!(
            runs("σ [KiB]", false, 8.0),
            "/F3 8.00 Tf <73> Tj /F1 8.00 Tf <205B4B69425D> Tj "
        );
        assert!((width("σ [") - 1.159).abs() < 1e-9);
    }

    /// Each entry of the table of objects is the place at which that object begins.
    #[test]
    fn the_table_of_objects_leads_to_them() {
        let text = to_pdf(&Chart { title: String::new(), panels: Vec::new() });
        let at = text.find("xref\n").unwrap();
        assert!(text.is_ascii() && text.ends_with(&format!("startxref\n{at}\n%%EOF\n")));
        let places = text[at..].lines().skip(3).take_while(|line| line.ends_with(" n "));
        for (number, line) in (1..).zip(places) {
            let place: usize = line[..10].parse().unwrap();
            assert!(text[place..].starts_with(&format!("{number} 0 obj\n")), "{line}");
        }
    }
}
