//! What is kept of a run: a hash always, a capture on request.

use crate::link::DropReason;
use crate::pcapng::{InterfaceId, LinkType, Writer};
use manypath_engine::Instant;

/// FNV-1a, 64 bits (Fowler, Noll, Vo): it need not resist anybody.
const FNV_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01B3;

#[derive(Debug)]
pub(super) struct Trace {
    hash: u64,
    capture: Option<Capture>,
}

#[derive(Debug)]
struct Capture {
    writer: Writer<Vec<u8>>,
    interfaces: Vec<InterfaceId>,
}

impl Default for Trace {
    fn default() -> Self {
        Self { hash: FNV_OFFSET, capture: None }
    }
}

impl Trace {
    /// A packet has been sent into a path, or was dropped there.
    pub(super) fn record(
        &mut self,
        now: Instant,
        path: usize,
        bytes: &[u8],
        dropped: Option<DropReason>,
    ) {
        self.mix(&now.as_nanos().to_le_bytes());
        self.mix(&[path as u8, u8::from(dropped.is_some())]);
        self.mix(bytes);
        if let Some(capture) = &mut self.capture {
            capture.write(now, path, bytes, dropped);
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn start_capture(&mut self, paths: usize) {
        self.capture = Capture::new(paths).ok();
    }

    pub(super) fn finish_capture(&mut self) -> Vec<u8> {
        let capture = self.capture.take();
        capture.and_then(|capture| capture.writer.finish().ok()).unwrap_or_default()
    }

    fn mix(&mut self, bytes: &[u8]) {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        self.hash = bytes.iter().fold(self.hash, step);
    }
}

impl Capture {
    fn new(paths: usize) -> std::io::Result<Self> {
        let mut writer = Writer::new(Vec::new(), "manypath sim")?;
        let interfaces =
            (0..paths).map(|path| writer.interface(&format!("path{path}"), LinkType::Raw));
        let interfaces = interfaces.collect::<std::io::Result<_>>()?;
        Ok(Self { writer, interfaces })
    }

    fn write(&mut self, now: Instant, path: usize, bytes: &[u8], dropped: Option<DropReason>) {
        let comment = dropped.map(|reason| format!("dropped: {reason}"));
        if let Some(interface) = self.interfaces.get(path) {
            let nanos = now.as_nanos();
            // Memory takes everything.
            let _ = self.writer.packet(*interface, nanos, bytes, bytes.len(), comment.as_deref());
        }
    }
}
