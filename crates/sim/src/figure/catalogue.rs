use super::coupled;
use super::curves::Runs;
use super::dreibholz2010;
use super::loss_recovery;
use super::lsfr;
use super::manypath_dynamic;
use super::plot::Chart;
use super::rapier_windows;
use super::verdict::Criterion;
use std::sync::LazyLock;

/// A published figure.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name, as `manypath-lab sim figure` takes it.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The scenario's text; figures with the same text share their runs.
    pub scenario: &'static str,
    /// Where that text is, for messages.
    pub file: &'static str,
    /// What to know about it (Markdown).
    pub notes: &'static str,
    /// Makes the curves.
    pub draw: fn(&Runs<'_>) -> Chart,
    /// What the runs say beyond that (Markdown); may be empty.
    pub details: fn(&Runs<'_>) -> String,
    /// Compares with what was published.
    pub judge: fn(&Runs<'_>) -> Vec<Criterion>,
}

/// For figures whose picture and verdict say everything.
pub(super) fn no_details(_: &Runs<'_>) -> String {
    String::new()
}

/// All figures.
pub fn figures() -> &'static [Figure] {
    static ALL: LazyLock<Vec<Figure>> = LazyLock::new(|| {
        let all = [
            dreibholz2010::FIGURES,
            lsfr::FIGURES,
            manypath_dynamic::FIGURES,
            loss_recovery::FIGURES,
            coupled::FIGURES,
            rapier_windows::FIGURES,
        ];
        all.concat()
    });
    &ALL
}
