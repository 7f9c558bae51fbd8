//! Where lines go: standard error, a file, or the journal.

use super::writer::{Queue, WriteLine, Writer};
use super::{Level, Levels, Subsystem};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

/// Where a process logs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogTo {
    /// Standard error, without times: who reads there knows when it is.
    Stderr,
    /// The end of this file, with times and subsystems. When the file is moved away, a new one is
    /// begun.
    File(PathBuf),
    /// The journal of systemd, with levels and fields.
    Journal,
}

impl LogTo {
    /// Whether lines can go there.
    ///
    /// # Errors
    /// The file cannot be written, or there is no journal.
    pub fn check(&self) -> io::Result<()> {
        match self {
            Self::Stderr => Ok(()),
            Self::File(path) => LogFile::open(path).map(drop),
            Self::Journal => tracing_journald::layer().map(drop),
        }
    }
}

/// How long the end of a process waits for its last lines.
const MAX_FLUSH: Duration = Duration::from_secs(1);

type Sink = Box<dyn Layer<Registry> + Send + Sync>;

static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Lines that wait to be written.
#[must_use = "nothing is written before it begins"]
pub struct WaitingLog(Option<Writer>);

impl WaitingLog {
    /// Writes lines from now on, in a thread of its own: call [`flush_log`] before the process ends.
    ///
    /// # Errors
    /// No thread is left.
    pub fn begin(self) -> io::Result<()> {
        self.0.map_or(Ok(()), Writer::start)
    }
}

/// Takes the lines of all stacks of this process from now on; once per process.
///
/// # Errors
/// The file cannot be written, there is no journal, or it was called before.
pub fn log_to(to: &LogTo, levels: Levels) -> io::Result<WaitingLog> {
    let (sink, queue) = sink(to)?;
    let (queue, writer) = queue.unzip();
    let (filter, handle) = reload::Layer::new(targets(&levels));
    let subscriber = tracing_subscriber::registry().with(sink.with_filter(filter));
    subscriber.try_init().map_err(|_| io::Error::other("lines go somewhere already"))?;
    let _ = FILTER.set(handle);
    if let Some(queue) = queue {
        let _ = QUEUE.set(queue);
    }
    Ok(WaitingLog(writer))
}

/// Waits a moment until all lines are written.
pub fn flush_log() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(MAX_FLUSH);
    }
}

/// Lines of this process that could not be written.
pub(crate) fn lost_lines() -> u64 {
    QUEUE.get().map_or(0, Queue::lost)
}

/// Changes the levels of this process, if it logs.
pub(crate) fn set_levels(levels: &Levels) {
    if let Some(handle) = FILTER.get() {
        // It fails only when nothing is logged any more.
        let _ = handle.reload(targets(levels));
    }
}

/// Whether systemd reads what is written to standard error.
#[must_use]
pub fn stderr_is_the_journal() -> bool {
    let Ok(said) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(own) = io::stderr().as_fd().try_clone_to_owned() else { return false };
    File::from(own).metadata().is_ok_and(|own| said == format!("{}:{}", own.dev(), own.ino()))
}

/// The layer, and the queue of its lines if it has one: the journal has a socket of its own.
fn sink(to: &LogTo) -> io::Result<(Sink, Option<(Queue, Writer)>)> {
    let (dated, write): (_, WriteLine) = match to {
        LogTo::Stderr => (false, Box::new(|line: &[u8]| io::stderr().write_all(line))),
        LogTo::File(path) => {
            let mut file = LogFile::open(path)?;
            (true, Box::new(move |line: &[u8]| file.write_line(line)))
        }
        LogTo::Journal => {
            let journal = tracing_journald::layer()?.with_field_prefix(None);
            let journal = journal.with_priority_mappings(priorities());
            return Ok((journal.with_syslog_identifier("manypath".to_owned()).boxed(), None));
        }
    };
    let (queue, writer) = Queue::new(write, complain);
    let layer = tracing_subscriber::fmt::layer().event_format(Lines { dated });
    Ok((layer.with_writer(queue.clone()).boxed(), Some((queue, writer))))
}

/// Said where nobody may read it: there is no better place.
fn complain(error: &io::Error) {
    let text = "lines are lost until the log can be written again";
    let _ = writeln!(io::stderr(), "manypath: log: {error}; {text}");
}

/// Levels as journald names them: nothing of ours is a notice.
fn priorities() -> PriorityMappings {
    PriorityMappings {
        info: Priority::Informational,
        debug: Priority::Debug,
        ..PriorityMappings::new()
    }
}

fn targets(levels: &Levels) -> Targets {
    let own = Subsystem::ALL.map(|one| (one.name(), filter(levels.of(one))));
    Targets::new().with_targets(own)
}

const fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Silent => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Verbose => LevelFilter::DEBUG,
    }
}

/// One event, one line: its message. Fields are for the journal; the message tells them in words.
struct Lines {
    dated: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: format::Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let about = event.metadata();
        if self.dated {
            SystemTime.format_time(&mut writer)?;
            write!(writer, " manypath[{}] {}: ", std::process::id(), about.target())?;
        } else {
            write!(writer, "manypath: ")?;
        }
        write!(writer, "{}", severity(*about.level()))?;
        let mut message = Message { writer: &mut writer, result: Ok(()) };
        event.record(&mut message);
        message.result?;
        writeln!(writer)
    }
}

const fn severity(level: tracing::Level) -> &'static str {
    match level {
        tracing::Level::ERROR => "error: ",
        tracing::Level::WARN => "warning: ",
        _ => "",
    }
}

struct Message<'a, 'b> {
    writer: &'a mut format::Writer<'b>,
    result: fmt::Result,
}

impl Visit for Message<'_, '_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" && self.result.is_ok() {
            self.result = write!(self.writer, "{value:?}");
        }
    }
}

/// A file that lines are added to; opened again when another one has taken its name, or none, as
/// rotation does it.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = append_to(path)?;
        Ok(Self { path: path.to_owned(), file })
    }

    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        if !is_at(&self.file, &self.path) {
            self.file = reopen(&self.path)?;
        }
        self.file.write_all(line)
    }
}

/// Who opens the log anew for a process that may not.
static REOPEN: OnceLock<fn() -> Option<io::Result<File>>> = OnceLock::new();

/// From now on the log is opened anew by `open`, if that does it.
pub(crate) fn reopen_by(open: fn() -> Option<io::Result<File>>) {
    // There is one keeper at most.
    let _ = REOPEN.set(open);
}

fn reopen(path: &Path) -> io::Result<File> {
    REOPEN.get().and_then(|open| open()).unwrap_or_else(|| append_to(path))
}

/// Opens a log, which is made if it is not there. It names every connection, so other users may not read it,
/// members of the caller's group among them.
pub(crate) fn append_to(path: &Path) -> io::Result<File> {
    manypath_rules::open_to_append(path, 0o600)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (file.metadata(), path.metadata()) else { return false };
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an own subscriber writes to a file while `say` runs in this thread.
    fn written(levels: &Levels, path: &Path, say: impl FnOnce()) {
        let (layer, queue) = sink(&LogTo::File(path.to_owned())).expect("a file");
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(targets(levels)));
        tracing::subscriber::with_default(subscriber, say);
        let (queue, writer) = queue.expect("a queue");
        writer.start().expect("a thread");
        queue.flush(Duration::from_secs(20));
    }

    fn directory(name: &str) -> PathBuf {
        let directory =
            std::env::temp_dir().join(format!("manypath-log-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        directory
    }

    #[test]
    fn a_line_has_time_process_subsystem_and_severity_and_levels_decide_per_subsystem() {
        let directory = directory("lines");
        let path = directory.join("log");
        let mut levels = Levels::new(Level::Warn);
        levels.set_own(Subsystem::Connection, Some(Level::Info));
        written(&levels, &path, || {
            tracing::info!(target: super::super::CONNECTION, bytes = 7, "seven bytes");
            tracing::info!(target: super::super::PATH, "left out");
            tracing::warn!(target: super::super::PATH, "look here");
            tracing::debug!(target: super::super::CONNECTION, "left out");
        });
        let text = std::fs::read_to_string(&path).expect("the file");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        let id = std::process::id();
        assert!(lines[0].ends_with(&format!("Z manypath[{id}] connection: seven bytes")), "{text}");
        assert!(
            lines[1].ends_with(&format!("Z manypath[{id}] path: warning: look here")),
            "{text}"
        );
        std::fs::remove_dir_all(directory).expect("to clean up");
    }

    #[test]
    fn a_file_that_was_moved_away_is_begun_again() {
        let directory = directory("moved");
        let (path, moved) = (directory.join("log"), directory.join("log.1"));
        let mut file = LogFile::open(&path).expect("a file");
        file.write_line(b"before\n").expect("room");
        std::fs::rename(&path, &moved).expect("to move it");
        file.write_line(b"after\n").expect("room");
        let read = |path: &Path| std::fs::read_to_string(path).expect("a file");
        assert!(read(&moved).ends_with("before\n") && read(&path).ends_with("after\n"));
        std::fs::remove_dir_all(directory).expect("to clean up");
    }

    /// On many systems all users share a group.
    #[test]
    fn nobody_but_its_owner_reads_a_log_also_when_it_is_begun_again() {
        use std::os::unix::fs::PermissionsExt;
        let directory = directory("mode");
        let path = directory.join("log");
        let mode = || std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
        let mut file = LogFile::open(&path).expect("a file");
        assert_eq!(mode(), 0o600);
        std::fs::remove_file(&path).expect("to remove it");
        file.write_line(b"again\n").expect("room");
        assert_eq!(mode(), 0o600);
        std::fs::remove_dir_all(directory).expect("to clean up");
    }

    #[test]
    fn a_directory_that_does_not_exist_is_told_by_name() {
        let error = sink(&LogTo::File("/nonexistent/log".into())).err().map(|e| e.to_string());
        assert!(error.is_some_and(|error| error.contains("/nonexistent/log")));
    }
}
