//! Charts: lines with error bars over a common x axis, or groups of bars, as SVG for a page and as PDF for
//! a column of a paper.
//!
//! ```text
//! Chart (panels, curves) ─▶ layout ─▶ shapes (lines, areas, texts) ─▶ svg, pdf
//! ```

mod axis;
mod bars;
mod layout;
mod pdf;
mod shape;
mod svg;

pub use pdf::to_pdf;
pub use svg::to_svg;

/// A figure of one or more panels side by side, more than three in rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// Above everything.
    pub title: String,
    /// From left to right.
    pub panels: Vec<Panel>,
}

/// One system of axes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Panel {
    /// Above it.
    pub title: String,
    /// Below the x axis.
    pub x_label: String,
    /// Beside the y axis.
    pub y_label: String,
    /// What is drawn.
    pub curves: Vec<Curve>,
    /// Empty: curves are lines. Otherwise each curve has a bar in each of these groups; the x of a
    /// point is the number of its group.
    pub groups: Vec<String>,
    /// No bars and no lines: each point is a marker alone.
    pub dots: bool,
    /// Curves have no markers: their points are close to each other.
    pub lines: bool,
    /// What was published.
    pub published: Vec<Mark>,
}

/// Something published: a place where a curve should pass, or a limit.
#[derive(Clone, PartialEq, Debug)]
pub struct Mark {
    /// Number of the curve that it is about; 0 for all of them.
    pub curve: usize,
    /// Where on the x axis; `None`: everywhere.
    pub x: Option<f64>,
    /// Where on the y axis; `None`: everywhere.
    pub y: Option<f64>,
    /// What the publication says there.
    pub text: String,
}

/// One line.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Its number in the paper: decides colour, dashes and marker.
    pub number: usize,
    /// In the legend.
    pub name: String,
    /// In the order of x.
    pub points: Vec<Point>,
}

/// A mean with its confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// Mean.
    pub y: f64,
    /// Half the width of the interval.
    pub error: f64,
    /// Number of values.
    pub count: usize,
}
