//! What is kept of a run: a hash always, a capture on request.

use super::datagram::Datagram;
use crate::link::DropReason;
use crate::pcapng::{InterfaceId, LinkType, Writer};
use manypath_engine::Instant;

/// Mixing by FNV-1a (Fowler, Noll, Vo), a word at a time: it need not resist anybody.
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
    /// A packet is being sent. Its common header stands for its bytes: it ends in their CRC32c.
    pub(super) fn note(&mut self, now: Instant, datagram: &Datagram) {
        self.mix(now.as_nanos());
        self.mix(
            (datagram.path as u64) << 32 | (datagram.end as u64) << 31 | datagram.ip_len as u64,
        );
        for word in datagram.sctp.chunks_exact(4).take(3) {
            self.mix(u32::from_be_bytes([word[0], word[1], word[2], word[3]]).into());
        }
    }

    /// Whether the packet noted last was dropped by the first link.
    pub(super) fn note_fate(&mut self, dropped: bool) {
        self.mix(dropped.into());
    }

    /// Whether packets are wanted for a capture.
    pub(super) fn is_capturing(&self) -> bool {
        self.capture.is_some()
    }

    /// Keeps a packet, from its IP header on.
    pub(super) fn capture(
        &mut self,
        now: Instant,
        path: usize,
        packet: &[u8],
        dropped: Option<DropReason>,
    ) {
        if let Some(capture) = &mut self.capture {
            capture.write(now, path, packet, dropped);
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

    fn mix(&mut self, word: u64) {
        // Rotation brings the high bits, which multiplication fills, back to the low ones.
        self.hash = (self.hash ^ word).wrapping_mul(FNV_PRIME).rotate_left(29);
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
