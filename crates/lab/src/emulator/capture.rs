//! Recording the packets of all paths, off the paths' threads.

use super::Clock;
use crate::error::LabError;
use manypath_sim::DropReason;
use manypath_sim::Instant;
use manypath_sim::pcapng::{InterfaceId, LinkType, Writer};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// One packet as it entered its path, and its fate if it was not let in.
struct Record {
    path: usize,
    wall_nanos: u64,
    bytes: Vec<u8>,
    dropped: Option<DropReason>,
}

/// A path's way to the capture.
#[derive(Clone)]
pub(crate) struct Recorder {
    path: usize,
    clock: Clock,
    sender: SyncSender<Record>,
    missed: Arc<AtomicU64>,
}

impl Recorder {
    /// Records without waiting; what the writer cannot take any more is counted as missed.
    pub(crate) fn record(&self, now: Instant, bytes: &[u8], dropped: Option<DropReason>) {
        let wall_nanos = self.clock.wall_nanos(now);
        let record = Record { path: self.path, wall_nanos, bytes: bytes.to_vec(), dropped };
        match self.sender.try_send(record) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Packets and bytes in a capture's file.
#[derive(Clone, Copy, Default)]
pub(crate) struct Written {
    pub packets: u64,
    pub bytes: u64,
}

/// A capture in progress.
pub(crate) struct Capture {
    missed: Arc<AtomicU64>,
    thread: JoinHandle<std::io::Result<Written>>,
}

impl Capture {
    const BACKLOG: usize = 16_384;

    /// Starts to write `file`; returns the recorders of the paths, in their order.
    pub(crate) fn start(
        file: &Path,
        paths: &[String],
        clock: Clock,
    ) -> Result<(Self, Vec<Recorder>), LabError> {
        let what = || format!("cannot write the capture {}", file.display());
        let sink = BufWriter::new(File::create(file).map_err(LabError::io(what()))?);
        let mut writer = Writer::new(sink, "manypath lab").map_err(LabError::io(what()))?;
        let interfaces: Vec<InterfaceId> = paths
            .iter()
            .map(|name| writer.interface(&format!("path{name}"), LinkType::Raw))
            .collect::<Result<_, _>>()
            .map_err(LabError::io(what()))?;
        let (sender, receiver) = sync_channel(Self::BACKLOG);
        let thread = std::thread::Builder::new()
            .name("lab-capture".into())
            .spawn(move || write_all(writer, &interfaces, &receiver))
            .map_err(LabError::io("starting a thread"))?;
        let missed = Arc::new(AtomicU64::new(0));
        let recorder =
            |path| Recorder { path, clock, sender: sender.clone(), missed: missed.clone() };
        let recorders = (0..paths.len()).map(recorder).collect();
        Ok((Self { missed, thread }, recorders))
    }

    /// Finishes the file. All recorders must be gone. Returns what was written and how many packets
    /// were missed.
    pub(crate) fn finish(self) -> Result<(Written, u64), LabError> {
        let written = self.thread.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()));
        let written = written.map_err(LabError::io("writing the capture"))?;
        Ok((written, self.missed.load(Ordering::Relaxed)))
    }
}

fn write_all(
    mut writer: Writer<BufWriter<File>>,
    interfaces: &[InterfaceId],
    records: &Receiver<Record>,
) -> std::io::Result<Written> {
    let mut written = Written::default();
    for Record { path, wall_nanos, bytes, dropped } in records {
        let comment = dropped.map(|reason| format!("dropped by the lab: {reason}"));
        let Some(interface) = interfaces.get(path) else { continue };
        writer.packet(*interface, wall_nanos, &bytes, bytes.len(), comment.as_deref())?;
        written.packets += 1;
        written.bytes += bytes.len() as u64;
    }
    writer.finish()?;
    Ok(written)
}
