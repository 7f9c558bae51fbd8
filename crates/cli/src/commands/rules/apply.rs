//! Letting the stacks that run go by a changed table.

use manypath_control::{ControlClient, ControlError, Role, runtime};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// How long a stack may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// What came of it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Applied {
    /// Stacks that have read their rules again.
    reloaded: usize,
    /// Stacks that have not, with the reason.
    failed: Vec<String>,
}

impl Applied {
    /// Whether there was no stack to ask.
    pub(crate) fn found_nobody(&self) -> bool {
        self.reloaded == 0 && self.failed.is_empty()
    }

    /// Whether every stack goes by it.
    pub(crate) fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }
}

/// Asks every stack that the caller can reach to read its rules again.
pub(crate) fn to_running_stacks() -> Applied {
    let mut applied = Applied::default();
    for stack in runtime::stacks() {
        match reload(&stack.path) {
            Ok(_) => applied.reloaded += 1,
            // It has ended meanwhile.
            Err(ControlError::Closed) => {}
            Err(error) => applied.failed.push(format!("stack {}: {error}", stack.name())),
        }
    }
    applied
}

fn reload(path: &std::path::Path) -> Result<usize, ControlError> {
    ControlClient::connect(path, Role::Cli, ANSWER_LIMIT)?.reload()
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reloaded {
            0 if self.found_nobody() => write!(f, "no stack is running; the next one will use it")?,
            0 => write!(f, "no running stack uses it")?,
            1 => write!(f, "1 running stack uses it now")?,
            n => write!(f, "{n} running stacks use it now")?,
        }
        self.failed.iter().try_for_each(|failed| write!(f, "\nnot changed: {failed}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Applied;

    #[test]
    fn nobody_is_said_to_run_only_where_nobody_runs() {
        let text = |reloaded, failed: &[&str]| {
            let failed = failed.iter().map(|&one| one.to_owned()).collect();
            Applied { reloaded, failed }.to_string()
        };
        assert_eq!(text(0, &[]), "no stack is running; the next one will use it");
        assert_eq!(text(1, &[]), "1 running stack uses it now");
        let refused = text(0, &["stack 7: line 1: unknown chain"]);
        assert_eq!(
            refused,
            "no running stack uses it\nnot changed: stack 7: line 1: unknown chain"
        );
    }
}
