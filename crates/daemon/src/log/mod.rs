//! What a stack says, by level and by subsystem.
//!
//! Nothing is logged per packet. A state change is information, what an operator should look at is
//! a warning, and every connection has one line at its end that says what has carried it. Lines are
//! `tracing` events whose targets are the names of [`Subsystem`]; [`log_to`] decides where they go.

mod sink;
mod writer;

pub use sink::{LogTo, WaitingLog, flush_log, log_to, stderr_is_the_journal};

pub(crate) use sink::{append_to, lost_lines, reopen_by, set_levels};

/// Targets of events, for the macros of `tracing`.
pub(crate) const STACK: &str = Subsystem::Stack.name();
pub(crate) const CONTROL: &str = Subsystem::Control.name();
pub(crate) const ASSOCIATION: &str = Subsystem::Association.name();
pub(crate) const PATH: &str = Subsystem::Path.name();
pub(crate) const CONNECTION: &str = Subsystem::Connection.name();
pub(crate) const PEERS: &str = Subsystem::Peers.name();

/// How much is logged. Each level includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Nothing.
    Silent,
    /// What stops the stack.
    Error,
    /// What somebody should look at.
    Warn,
    /// Changes of state: associations, paths, the end of every connection.
    Info,
    /// Every step of a connection (`-v`).
    Verbose,
}

impl Level {
    /// All, from the quietest on.
    pub const ALL: [Self; 5] = [Self::Silent, Self::Error, Self::Warn, Self::Info, Self::Verbose];
}

/// Who says something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subsystem {
    /// The stack as a whole: its begin and end, the interfaces.
    Stack,
    /// Launchers and tools at the control socket, rules and settings.
    Control,
    /// Associations with peers.
    Association,
    /// Their paths.
    Path,
    /// Connections of programs.
    Connection,
    /// What is remembered about peers.
    Peers,
}

impl Subsystem {
    /// All.
    pub const ALL: [Self; 6] =
        [Self::Stack, Self::Control, Self::Association, Self::Path, Self::Connection, Self::Peers];

    /// Its name in settings and in lines of files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::Control => "control",
            Self::Association => "association",
            Self::Path => "path",
            Self::Connection => "connection",
            Self::Peers => "peers",
        }
    }
}

/// The levels of all subsystems.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels {
    /// Of those that have none of their own.
    pub all: Level,
    own: [Option<Level>; Subsystem::ALL.len()],
}

impl Levels {
    /// The same for all.
    #[must_use]
    pub const fn new(all: Level) -> Self {
        Self { all, own: [None; Subsystem::ALL.len()] }
    }

    /// The level of a subsystem's own, if it has one.
    #[must_use]
    pub const fn own(&self, subsystem: Subsystem) -> Option<Level> {
        self.own[subsystem as usize]
    }

    /// Gives a subsystem a level of its own, or takes it away.
    pub const fn set_own(&mut self, subsystem: Subsystem, level: Option<Level>) {
        self.own[subsystem as usize] = level;
    }

    /// What holds for a subsystem.
    #[must_use]
    pub fn of(&self, subsystem: Subsystem) -> Level {
        self.own(subsystem).unwrap_or(self.all)
    }
}

impl From<Level> for Levels {
    fn from(all: Level) -> Self {
        Self::new(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subsystem_without_a_level_of_its_own_has_that_of_all() {
        let mut levels = Levels::new(Level::Warn);
        levels.set_own(Subsystem::Path, Some(Level::Silent));
        for subsystem in Subsystem::ALL {
            let silent = subsystem == Subsystem::Path;
            let level = if silent { Level::Silent } else { Level::Warn };
            assert_eq!(levels.of(subsystem), level, "{subsystem:?}");
        }
        levels.set_own(Subsystem::Path, None);
        assert_eq!(levels, Levels::from(Level::Warn));
    }
}
