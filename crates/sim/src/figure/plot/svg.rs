use super::Chart;
use super::layout;
use super::shape::{Anchor, Colour, Place, Shape};

/// The chart as SVG.
pub fn to_svg(chart: &Chart) -> String {
    let drawing = layout::draw(chart, &layout::PAGE);
    let (width, height) = (drawing.width, drawing.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"DejaVu Sans, Verdana, sans-serif\" \
         fill=\"#1e1e1e\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for shape in &drawing.shapes {
        out += &element(shape);
        out.push('\n');
    }
    out + "</svg>\n"
}

fn element(shape: &Shape) -> String {
    match shape {
        Shape::Line { places, colour, width, dash } => {
            let dash = match dash.is_empty() {
                true => String::new(),
                false => format!(" stroke-dasharray=\"{}\"", list(dash)),
            };
            format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"{dash}/>",
                points(places),
                hex(*colour)
            )
        }
        Shape::Area { places, colour } => {
            format!("<polygon points=\"{}\" fill=\"{}\"/>", points(places), hex(*colour))
        }
        Shape::Text { at: (x, y), text, size, anchor, upright, bold } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let turn = if *upright {
                format!(" transform=\"rotate(-90 {x} {y})\"")
            } else {
                String::new()
            };
            let weight = if *bold { " font-weight=\"bold\"" } else { "" };
            format!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\"{weight}{turn}>{}</text>",
                escape(text)
            )
        }
    }
}

fn points(places: &[Place]) -> String {
    places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

fn list(numbers: &[f64]) -> String {
    numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")
}

fn hex([r, g, b]: Colour) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
