use std::fmt;

/// What is wrong with a trace: file, line and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    file: String,
    /// Counted from 1; 0 if it is about the file as a whole.
    line: usize,
    problem: Problem,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Problem {
    Unreadable(String),
    Empty,
    NotANumber(String),
    Decreasing { time: u32, before: u32 },
    ZeroLength,
}

impl TraceError {
    pub(super) fn new(file: &str, line: usize, problem: Problem) -> Self {
        Self { file: file.to_owned(), line, problem }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => {
                write!(f, "cannot read the trace: {why}; `manypath-lab trace` can make one")
            }
            Self::Empty => f.write_str(
                "the trace is empty: write one line per packet of 1500 bytes, \
                 its time in milliseconds",
            ),
            Self::NotANumber(text) => write!(
                f,
                "\"{}\" is not a time: write whole milliseconds from the start of the trace, \
                 at most {}",
                text.escape_debug().take(40).collect::<String>(),
                u32::MAX
            ),
            Self::Decreasing { time, before } => write!(
                f,
                "{time} comes after {before}: sort the file by time (`sort -n`), or end it before \
                 this line"
            ),
            Self::ZeroLength => f.write_str(
                "the trace ends at 0 ms, so it cannot repeat: its last line must be at least 1",
            ),
        }
    }
}

impl std::error::Error for TraceError {}
