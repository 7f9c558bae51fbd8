use serde::{Deserialize, Serialize};

/// Something that was published, and whether we get it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Criterion {
    /// What is compared.
    pub criterion: String,
    /// What the paper says.
    pub published: String,
    /// What the simulation gives.
    pub ours: String,
    /// How far it may be off.
    pub tolerance: String,
    /// Whether it is not further off.
    pub met: bool,
}

impl Criterion {
    pub(super) fn new(
        criterion: impl Into<String>,
        published: &str,
        ours: impl Into<String>,
        tolerance: &str,
        met: bool,
    ) -> Self {
        Self {
            criterion: criterion.into(),
            published: published.to_owned(),
            ours: ours.into(),
            tolerance: tolerance.to_owned(),
            met,
        }
    }
}
