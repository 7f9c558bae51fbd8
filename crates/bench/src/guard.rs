//! Ends what a measurement has started when that was killed and cannot do it itself.
//!
//! Workers end with their standard input; services, launchers and stacks do not. The guard is a process of its own that
//! waits for the end of its standard input, which comes with the end of the measurement, however that ends.

use crate::folder::Folder;
use crate::side::Outcome;
use crate::usage::Processes;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The process that guards; not needed any more when dropped.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Guards what carries this mark, and the folder of this name.
    pub(crate) fn start(own: &Path, mark: &str) -> Outcome<Self> {
        let mut command = Command::new(own);
        command.args(["bench-guard", mark]).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().map(Self).map_err(|e| format!("cannot start {}: {e}", own.display()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It cannot have ended before its standard input, and is reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for the end of standard input, then ends all programs with this mark and removes their folder.
pub fn guard(mark: &str) {
    // Whatever comes, and also an error, is the end.
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    Processes::end_marked(mark, Duration::ZERO);
    drop(Folder::left_by(mark));
}
