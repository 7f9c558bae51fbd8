//! Charts: lines with error bars over a common x axis, or groups of bars, as SVG.
//!
//! ```text
//! Chart (panels, curves) ─▶ layout ─▶ shapes (lines, areas, texts) ─▶ svg
//! ```

mod axis;
mod bars;
mod layout;
mod shape;
mod svg;

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
#[derive(Clone, PartialEq, Debug)]
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
