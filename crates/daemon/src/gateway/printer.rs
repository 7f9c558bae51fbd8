//! Lines on standard output, written by a thread of its own: a reader that has stopped does not stop the gateway.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Lines that wait for the reader. More of them are dropped.
const MOST_WAITING: usize = 4;
/// How long the end waits for the last lines to be read.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Writes lines.
#[derive(Debug)]
pub(crate) struct Printer {
    lines: SyncSender<String>,
    /// Ends when the thread does.
    written: Receiver<()>,
}

impl Printer {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        // Not by the lock of the standard output, which others would wait for at the end.
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let (lines, to_write) = sync_channel(MOST_WAITING);
        let (ends, written) = sync_channel(0);
        let thread = std::thread::Builder::new().name("status-lines".into());
        thread.spawn(move || {
            write_all(out, &to_write);
            drop(ends);
        })?;
        Ok(Self { lines, written })
    }

    /// Hands over a line. False if too many wait, or nobody reads them any more.
    pub(super) fn print(&self, line: String) -> bool {
        self.lines.try_send(line).is_ok()
    }

    /// Waits until all lines are written, but not long.
    pub(super) fn finish(self) -> bool {
        drop(self.lines);
        self.written.recv_timeout(LAST_LINES) == Err(RecvTimeoutError::Disconnected)
    }
}

fn write_all(mut out: File, lines: &Receiver<String>) {
    while let Ok(line) = lines.recv() {
        if out.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}
