//! The thread that writes lines (see [`jobs`](crate::jobs)): those that cannot be written in time are lost, and counted.

use crate::jobs::{self, Jobs, Offered};
use manypath_net::Signals;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait.
const MAX_LINES: usize = 1024;

/// Writes one line.
pub(super) type WriteLine = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

/// Lines on their way.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    lines: jobs::Queue<Vec<u8>>,
    lost: Arc<AtomicU64>,
}

/// The writer of a queue that has not begun.
pub(super) struct Writer {
    worker: Worker,
    todo: Jobs<Vec<u8>>,
}

impl Writer {
    /// Begins to write.
    ///
    /// # Errors
    /// When there are no threads left.
    pub(super) fn start(self) -> io::Result<()> {
        let Self { mut worker, todo } = self;
        // The thread is to inherit that it takes none: they are for the loop, which may not watch them yet.
        let signals = Signals::watch()?;
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            todo.for_each(|line| worker.write_line(&line));
        })?;
        drop(signals);
        Ok(())
    }
}

impl Queue {
    /// A queue and its writer: lines wait until that begins. `complain` is called once when lines begin to be
    /// lost because of an error.
    pub(super) fn new(write: WriteLine, complain: fn(&io::Error)) -> (Self, Writer) {
        let (lines, todo) = jobs::queue(MAX_LINES);
        let lost = Arc::new(AtomicU64::new(0));
        let worker = Worker { write, complain, lost: Arc::clone(&lost), told: 0, failing: false };
        (Self { lines, lost }, Writer { worker, todo })
    }

    /// The same with a writer that has begun.
    #[cfg(test)]
    fn start(write: WriteLine, complain: fn(&io::Error)) -> io::Result<Self> {
        let (queue, writer) = Self::new(write, complain);
        writer.start().map(|()| queue)
    }

    /// Lines that were lost.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until everything is written, at most so long.
    pub(super) fn flush(&self, most: Duration) {
        self.lines.flush(most);
    }
}

struct Worker {
    write: WriteLine,
    complain: fn(&io::Error),
    lost: Arc<AtomicU64>,
    /// Lost lines that readers know of.
    told: u64,
    failing: bool,
}

impl Worker {
    fn write_line(&mut self, line: &[u8]) {
        if let Err(error) = self.tell_of_loss().and_then(|()| (self.write)(line)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            if !std::mem::replace(&mut self.failing, true) {
                (self.complain)(&error);
            }
        }
    }

    /// Says how many lines are missing, before the first one that is written again.
    fn tell_of_loss(&mut self) -> io::Result<()> {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > self.told {
            let text = format!("manypath: {} lines of the log were lost\n", lost - self.told);
            (self.write)(text.as_bytes())?;
            self.told = lost;
            self.failing = false;
        }
        Ok(())
    }
}

/// Takes one line, as the formatting layer writes it in one piece.
pub(super) struct QueuedLine<'a>(&'a Queue);

impl Write for QueuedLine<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.lines.offer(line.to_vec()) != Offered::Taken {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = QueuedLine<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        QueuedLine(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(20);

    fn say(queue: &Queue, line: &str) {
        queue.make_writer().write_all(line.as_bytes()).unwrap();
    }

    #[test]
    fn a_reader_that_has_stopped_stops_nobody_and_what_is_lost_is_counted() {
        let (reading, read) = channel::<()>();
        let (written, seen) = channel();
        let write: WriteLine = Box::new(move |line: &[u8]| {
            let _ = read.recv();
            written.send(String::from_utf8_lossy(line).into_owned()).map_err(io::Error::other)
        });
        let queue = Queue::start(write, |_| ()).unwrap();
        let begun = Instant::now();
        let count = MAX_LINES as u64 + 100;
        (0..count).for_each(|number| say(&queue, &format!("{number}\n")));
        assert!(begun.elapsed() < LONG / 2);
        // One or none is with the writer.
        assert!((99..=100).contains(&queue.lost()), "{}", queue.lost());
        drop(reading);
        queue.flush(LONG);
        let lines: Vec<String> = seen.try_iter().collect();
        let told = format!("manypath: {} lines of the log were lost\n", queue.lost());
        assert!(lines.contains(&told), "{:?}", &lines[..3]);
        assert_eq!(lines.len() as u64, count - queue.lost() + 1);
    }

    #[test]
    fn signals_are_left_to_the_loop() {
        let (tell, told) = std::sync::mpsc::channel();
        let write = move |_: &[u8]| {
            tell.send(std::fs::read_to_string("/proc/thread-self/status")?)
                .map_err(io::Error::other)
        };
        let queue = Queue::start(Box::new(write), |_| ()).unwrap();
        say(&queue, "line\n");
        let status = told.recv_timeout(LONG).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
        // SIGHUP, SIGINT and SIGTERM.
        assert_eq!(mask & 0x4003, 0x4003, "{mask:x}");
    }

    #[test]
    fn a_full_disk_is_counted_and_complained_about_once() {
        static COMPLAINTS: AtomicUsize = AtomicUsize::new(0);
        let mut file = std::fs::OpenOptions::new().append(true).open("/dev/full").unwrap();
        let complain = |error: &io::Error| {
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            COMPLAINTS.fetch_add(1, Ordering::Relaxed);
        };
        let queue =
            Queue::start(Box::new(move |line: &[u8]| file.write_all(line)), complain).unwrap();
        (0..10).for_each(|_| say(&queue, "line\n"));
        queue.flush(LONG);
        assert_eq!((queue.lost(), COMPLAINTS.load(Ordering::Relaxed)), (10, 1));
    }
}
