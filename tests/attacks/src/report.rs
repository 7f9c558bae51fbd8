//! What was measured, against what is promised.

use serde_json::{Value, json};

/// What a figure must keep.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn keeps(self, figure: f64) -> bool {
        match self {
            Self::AtMost(bound) => figure <= bound,
            Self::AtLeast(bound) => figure >= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(bound) => format!("<= {}", short(bound)),
            Self::AtLeast(bound) => format!(">= {}", short(bound)),
        }
    }
}

/// One line of the table.
pub(crate) struct Row {
    attack: String,
    what: String,
    figure: Result<f64, String>,
    bound: Bound,
}

impl Row {
    pub(crate) fn new(attack: &str, what: &str, figure: f64, bound: Bound) -> Self {
        Self { attack: attack.to_owned(), what: what.to_owned(), figure: Ok(figure), bound }
    }

    /// An attack that could not be made counts as a promise that is not kept.
    pub(crate) fn failed(attack: &str, error: String) -> Self {
        let (attack, what) = (attack.to_owned(), "could not be run".to_owned());
        Self { attack, what, figure: Err(error), bound: Bound::AtMost(0.0) }
    }

    pub(crate) fn held(&self) -> bool {
        self.figure.as_ref().is_ok_and(|figure| self.bound.keeps(*figure))
    }

    fn verdict(&self) -> &'static str {
        if self.held() { "held" } else { "MISSED" }
    }

    /// The line of the table.
    pub(crate) fn text(&self) -> String {
        let (figure, bound) = match &self.figure {
            Ok(figure) => (short(*figure), self.bound.text()),
            Err(error) => (error.clone(), "-".to_owned()),
        };
        format!("| {} | {} | {figure} | {bound} | {} |", self.attack, self.what, self.verdict())
    }

    pub(crate) fn json(&self) -> Value {
        let (kind, bound) = match self.bound {
            Bound::AtMost(bound) => ("at_most", bound),
            Bound::AtLeast(bound) => ("at_least", bound),
        };
        json!({
            "attack": self.attack, "figure_of": self.what, "figure": self.figure.as_ref().ok(),
            "error": self.figure.as_ref().err(), kind: bound, "held": self.held(),
        })
    }
}

/// Above the lines.
pub(crate) const HEAD: &str =
    "| attack | figure | measured | bound | verdict |\n|---|---|---|---|---|";

/// Below the lines.
pub(crate) fn sum(rows: &[Row]) -> String {
    let missed = rows.iter().filter(|row| !row.held()).count();
    format!("{} figures, {missed} missed", rows.len())
}

fn short(number: f64) -> String {
    match number.abs() {
        _ if number.fract() == 0.0 => format!("{number:.0}"),
        small if small < 0.1 => format!("{number:.4}"),
        _ => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_held_against_its_bound() {
        for (figure, bound, held) in [
            (3.0, Bound::AtMost(3.0), true),
            (3.01, Bound::AtMost(3.0), false),
            (0.8, Bound::AtLeast(0.8), true),
            (0.79, Bound::AtLeast(0.8), false),
            (f64::NAN, Bound::AtMost(1.0), false),
        ] {
            let row = Row::new("a", "b", figure, bound);
            assert_eq!(row.held(), held, "{}", row.text());
        }
    }

    #[test]
    fn an_attack_that_cannot_be_run_is_missed() {
        let row = Row::failed("a", "no root".into());
        assert!(!row.held());
        assert_eq!(
            sum(&[row, Row::new("b", "c", 1.0, Bound::AtLeast(1.0))]),
            "2 figures, 1 missed"
        );
        let row = Row::failed("a", "no root".into());
        assert_eq!(row.text(), "| a | could not be run | no root | - | MISSED |");
        assert_eq!(row.json()["error"], "no root");
    }
}
