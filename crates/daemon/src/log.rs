//! Lines on standard error, by level.
//!
//! Nothing is logged per packet. A state change is information, what an operator should look at is
//! a warning, and every connection that goes on as plain TCP is one line with its reason at
//! [`Level::Verbose`].

use std::fmt;
use std::io::Write;

/// How much is logged. Each level includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Nothing.
    Silent,
    /// What stops the stack.
    Error,
    /// What somebody should look at.
    Warn,
    /// Changes of state: associations, paths.
    Info,
    /// Every flow, and every fallback with its reason (`-v`).
    Verbose,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Silent => "",
            Self::Error => "error: ",
            Self::Warn => "warning: ",
            Self::Info | Self::Verbose => "",
        }
    }
}

/// Writes the lines that its level lets through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    level: Level,
}

impl Log {
    pub(crate) const fn new(level: Level) -> Self {
        Self { level }
    }

    pub(crate) fn set_level(&mut self, level: Level) {
        self.level = level;
    }

    pub(crate) fn warn(&self, line: fmt::Arguments<'_>) {
        self.write(Level::Warn, line);
    }

    pub(crate) fn info(&self, line: fmt::Arguments<'_>) {
        self.write(Level::Info, line);
    }

    pub(crate) fn verbose(&self, line: fmt::Arguments<'_>) {
        self.write(Level::Verbose, line);
    }

    fn write(&self, level: Level, line: fmt::Arguments<'_>) {
        if level > self.level {
            return;
        }
        // A closed standard error must not end the connections that this stack carries.
        let _ = writeln!(std::io::stderr(), "manypath: {}{line}", level.name());
    }
}
