//! Why a script was stopped.

/// What kept a script from passing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// The text is not a script.
    Syntax(String),
    /// The script is fine but asks for something that this runner cannot do.
    Gap(String),
    /// The stack did something else than the script says.
    Mismatch(String),
}

/// A reason and the line of the script that it belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stop {
    /// Line, counted from 1.
    pub line: usize,
    /// The reason.
    pub why: Why,
}

impl Why {
    /// The stop at `line` for this reason.
    pub(crate) fn at(self, line: usize) -> Stop {
        Stop { line, why: self }
    }

    /// A syntax error.
    pub(crate) fn syntax(text: impl Into<String>) -> Self {
        Self::Syntax(text.into())
    }

    /// Something that the runner cannot do.
    pub(crate) fn gap(text: impl Into<String>) -> Self {
        Self::Gap(text.into())
    }

    /// A wrong behaviour.
    pub(crate) fn mismatch(text: impl Into<String>) -> Self {
        Self::Mismatch(text.into())
    }
}
