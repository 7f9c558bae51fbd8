//! Figures that a scenario file wants drawn from its runs.

use super::document::{Node, Value};
use super::error::{ScenarioError, list};
use super::section::Section;
use super::variants::{Case, Setup};

/// A figure that a scenario file describes.
#[derive(Clone, PartialEq, Debug)]
pub struct FigureSpec {
    /// The name of its files.
    pub name: String,
    /// Above the picture.
    pub title: String,
    /// Whose delays are shown as a distribution, in place of `x` and `y`: the beginning of their columns, such as
    /// `delay`.
    pub cdf: Option<String>,
    /// What the x axis shows: a swept key, `case` or `setup`.
    pub x: String,
    /// Below the x axis.
    pub x_label: String,
    /// What values of the key, in s, bit/s, bytes or parts of one, are multiplied with.
    pub x_scale: f64,
    /// A panel for each: a figure of the runs, and what stands beside its axis.
    pub y: Vec<(String, String)>,
    /// The curves; none: one for each setup, case, and values of the other swept keys.
    pub curves: Vec<CurveSpec>,
    /// What was published.
    pub published: Vec<PublishedSpec>,
}

/// Which runs make a curve. What is not given does not matter.
#[derive(Clone, PartialEq, Debug)]
pub struct CurveSpec {
    /// In the legend.
    pub name: String,
    /// Runs of this setup.
    pub setup: Option<String>,
    /// Runs of this case.
    pub case: Option<String>,
    /// Swept keys and their values as the file has them.
    pub with: Vec<(String, String)>,
}

/// A published value or limit.
#[derive(Clone, PartialEq, Debug)]
pub struct PublishedSpec {
    /// The panel with this figure.
    pub y_of: String,
    /// The curve that it is about; none: all.
    pub curve: Option<String>,
    /// Where on the x axis, in its unit; none: everywhere.
    pub x: Option<f64>,
    /// Where on the y axis; none: everywhere.
    pub y: Option<f64>,
    /// What was said.
    pub text: String,
}

/// Units of the x axis, and what of them the unit of results is.
const UNITS: [(&str, f64); 9] = [
    ("s", 1.0),
    ("ms", 1e3),
    ("bit/s", 1.0),
    ("Mbit/s", 1e-6),
    ("bytes", 1.0),
    ("KiB", 1.0 / 1024.0),
    ("MiB", 1.0 / 1_048_576.0),
    ("%", 100.0),
    ("1", 1.0),
];

/// What figures may name.
pub(super) struct Known<'a> {
    pub(super) setups: &'a [Setup],
    pub(super) cases: &'a [Case],
    /// Swept keys and their values.
    pub(super) swept: &'a [(String, Vec<String>)],
}

pub(super) fn read(document: &Node, known: &Known<'_>) -> Result<Vec<FigureSpec>, ScenarioError> {
    let mut figures: Vec<FigureSpec> = Vec::new();
    for section in Section::root(document).tables("figure")? {
        let figure = FigureSpec::read(section, known)?;
        if figures.iter().any(|other| other.name == figure.name) {
            let message = format!("there are two figures \"{}\"", figure.name);
            return Err(Section::root(document).error("figure", message));
        }
        figures.push(figure);
    }
    Ok(figures)
}

impl FigureSpec {
    fn read(mut section: Section<'_>, known: &Known<'_>) -> Result<Self, ScenarioError> {
        let name: String = section.required("name")?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if name.is_empty() || !name.chars().all(is_plain) || name == "results" {
            let message =
                "becomes the name of files: letters, digits, - and _, and not \"results\"";
            return Err(section.error("name", message));
        }
        let title = section.value("title", name.clone())?;
        let cdf: Option<String> = section.optional("cdf")?;
        let Axes { x, x_label, x_scale, y } = match &cdf {
            Some(delays) => Axes::of_delays(&mut section, delays)?,
            None => Axes::read(&mut section, known)?,
        };
        let curves: Result<Vec<_>, _> = section
            .tables("curve")?
            .into_iter()
            .map(|curve| CurveSpec::read(curve, known))
            .collect();
        let curves = curves?;
        let published = section.tables("published")?.into_iter();
        let published: Result<_, _> =
            published.map(|mark| PublishedSpec::read(mark, &y, &curves)).collect();
        let published = published?;
        section.finish()?;
        Ok(Self { name, title, cdf, x, x_label, x_scale, y, curves, published })
    }
}

/// What a figure's axes show.
struct Axes {
    x: String,
    x_label: String,
    x_scale: f64,
    y: Vec<(String, String)>,
}

impl Axes {
    fn of_delays(section: &mut Section<'_>, delays: &str) -> Result<Self, ScenarioError> {
        let x_label = section.value("x_label", "Delay [ms]".to_owned())?;
        let y = vec![(delays.to_owned(), "Messages [%]".to_owned())];
        Ok(Self { x: String::new(), x_label, x_scale: 1.0, y })
    }

    fn read(section: &mut Section<'_>, known: &Known<'_>) -> Result<Self, ScenarioError> {
        let x: String = section.required("x")?;
        let axes: Vec<_> = known.swept.iter().map(|(key, _)| key.as_str()).collect();
        let axes = [&axes[..], &["case", "setup"]].concat();
        if !axes.contains(&x.as_str()) {
            let message = format!("is not swept; allowed are {}", list(&axes));
            return Err(section.error("x", message));
        }
        let unit: Option<String> = section.optional("x_unit")?;
        let found = unit.as_ref().map(|unit| UNITS.iter().find(|(name, _)| name == unit));
        let x_scale = match found {
            Some(None) => {
                let names = UNITS.map(|(name, _)| name);
                return Err(section.error("x_unit", format!("allowed are {}", list(&names))));
            }
            Some(Some((_, scale))) => *scale,
            None => 1.0,
        };
        let label = unit.map_or_else(|| x.clone(), |unit| format!("{x} [{unit}]"));
        let x_label = section.value("x_label", label)?;
        let y = read_y(section)?;
        Ok(Self { x, x_label, x_scale, y })
    }
}

/// Figures of runs, and their labels.
fn read_y(section: &mut Section<'_>) -> Result<Vec<(String, String)>, ScenarioError> {
    let mut texts = |key| {
        let nodes = section.take(key).map_or(&[][..], Node::elements);
        let texts = nodes.iter().map(|node| match &node.value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        });
        texts.collect::<Option<Vec<_>>>()
    };
    let (names, labels) = (texts("y"), texts("y_label"));
    let Some(names) = names.filter(|names| !names.is_empty()) else {
        let message =
            "expected a figure of the runs such as \"throughput_mbps\", or an array of them";
        return Err(section.error("y", message));
    };
    match labels {
        Some(labels) if labels.is_empty() => Ok(names.iter().cloned().zip(names.clone()).collect()),
        Some(labels) if labels.len() == names.len() => Ok(names.into_iter().zip(labels).collect()),
        _ => Err(section.error("y_label", "expected a text for each figure in y")),
    }
}

impl CurveSpec {
    fn read(mut section: Section<'_>, known: &Known<'_>) -> Result<Self, ScenarioError> {
        let name = section.required("name")?;
        let setup: Option<String> = section.optional("setup")?;
        let setups: Vec<_> = known.setups.iter().map(|setup| setup.name.as_str()).collect();
        let unknown = |name: &String, names: &[&str]| !names.contains(&name.as_str());
        if setup.as_ref().is_some_and(|setup| unknown(setup, &setups)) {
            return Err(section.error("setup", format!("allowed are {}", list(&setups))));
        }
        let case: Option<String> = section.optional("case")?;
        let cases: Vec<_> = known.cases.iter().map(|case| case.name.as_str()).collect();
        let is_known = |name: &String| known.cases.iter().any(|case| case.is_named(name));
        if case.as_ref().is_some_and(|case| !is_known(case)) {
            return Err(section.error("case", format!("allowed are {}", list(&cases))));
        }
        let mut with = Vec::new();
        for (key, node) in section.take("with").map_or(&[][..], Node::entries) {
            let value = node.to_string();
            let Some((_, values)) = known.swept.iter().find(|(swept, _)| swept == key) else {
                return Err(section.error("with", format!("{key} is not swept")));
            };
            if !values.contains(&value) {
                let values: Vec<_> = values.iter().map(String::as_str).collect();
                let message = format!("{key} is never {value}; allowed are {}", list(&values));
                return Err(section.error("with", message));
            }
            with.push((key.clone(), value));
        }
        section.finish()?;
        Ok(Self { name, setup, case, with })
    }
}

impl PublishedSpec {
    fn read(
        mut section: Section<'_>,
        panels: &[(String, String)],
        curves: &[CurveSpec],
    ) -> Result<Self, ScenarioError> {
        let first = panels.first().map_or_else(String::new, |(figure, _)| figure.clone());
        let y_of = section.value("y_of", first)?;
        if !panels.iter().any(|(figure, _)| *figure == y_of) {
            return Err(section.error("y_of", "is not in y of the figure"));
        }
        let curve: Option<String> = section.optional("curve")?;
        if curve.as_ref().is_some_and(|name| !curves.iter().any(|curve| curve.name == *name)) {
            return Err(section.error("curve", "is not the name of a [[figure.curve]]"));
        }
        let (x, y) = (number(&mut section, "x")?, number(&mut section, "y")?);
        if x.is_none() && y.is_none() {
            return Err(section.error("y", "is missing: where was it published? x, y or both"));
        }
        let text = section.value("text", String::new())?;
        section.finish()?;
        Ok(Self { y_of, curve, x, y, text })
    }
}

fn number(section: &mut Section<'_>, key: &'static str) -> Result<Option<f64>, ScenarioError> {
    section.read(key, None, |node| match node.value {
        Value::Integer(number) => Ok(Some(number as f64)),
        Value::Float(number) if number.is_finite() => Ok(Some(number)),
        _ => Err("expected a number in the unit of the axis".to_owned()),
    })
}
