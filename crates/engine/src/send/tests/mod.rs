//! The sender against hand-made SACKs (`golden`, `congestion`, `timers`, `window`, `nr_sack`,
//! `buffer_split`, `cmt`, `copies`, `partial`, `rack`, `tail`), and together with the receiver over a network with
//! random faults (`model`).

mod buffer_split;
mod cmt;
mod congestion;
mod copies;
mod golden;
mod model;
mod nr_sack;
mod partial;
mod rack;
mod tail;
mod timers;
mod wanted;
mod window;

use super::abandonment::Abandonment;
use super::buffer::SendBuffer;
use super::forward::Forward;
use super::outstanding::{Outstanding, SentChunk};
use super::queue::SendQueue;
use super::window::PeerWindow;
use super::{SackOutcome, SackView, Sender};
use crate::config::{Config, CongestionControl, Experiment, LossRecovery, PathMtu};
use crate::path::{ChunkState, Path, PathAddr, PathId, PathState, Paths};
use crate::send::{Outgoing, SendError};
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use manypath_wire::chunk::{GapBlock, GapBlocks};
use manypath_wire::{
    Chunk, CommonHeader, Packet, PacketWriter, Ppid, StreamId, Tsn, VerificationTag,
};

const HEADER: CommonHeader =
    CommonHeader { source_port: 1, destination_port: 2, tag: VerificationTag(3) };

/// User data of a chunk that fills a packet of 1500 bytes over UDP and IPv4.
const FULL: usize = 1444;

/// What these tests count packets and windows by: slow start and cuts of CUBIC from the window of RFC 9260, and every gap told
/// at once.
fn classic() -> Config {
    Config {
        congestion: CongestionControl::Cubic,
        experiment: Experiment { delayed_ack_cmt: false, ..Experiment::default() },
        ..Config::default()
    }
}

/// The same, with other parameters of papers.
fn experiment(change: impl FnOnce(&mut Experiment)) -> Config {
    let mut config = classic();
    change(&mut config.experiment);
    config
}

/// A sender with paths, a clock and nobody at the other end. Its first TSN is 1.
struct Bench {
    sender: Sender,
    paths: Paths,
    now: Instant,
    a_rwnd: u32,
}

impl Bench {
    /// `count` active paths whose windows are wide open.
    fn new(count: u16, config: &Config) -> Self {
        let mut paths = Paths::new();
        let wide = Config { path_mtu: PathMtu::Interface, ..config.clone() };
        for port in 1..=count {
            let remote = SocketAddr::from(([10, 0, 0, 1], port));
            let addr = PathAddr { local: remote, remote };
            paths.add(addr, 1500, PathState::Active, &wide).unwrap();
        }
        let sender = Sender::new(config, Tsn(1), 1 << 20, 10);
        Self { sender, paths, now: Instant::ZERO, a_rwnd: 1 << 20 }
    }

    /// As [`Self::new`], with windows opened far by acknowledged data and round trips of 100 ms.
    fn opened(count: u16) -> Self {
        Self::opened_with(count, &classic())
    }

    /// As [`Self::opened`], with losses found by missing reports.
    fn reported(count: u16) -> Self {
        let loss_recovery = LossRecovery::Repeat;
        Self::opened_with(count, &Config { loss_recovery, ..classic() })
    }

    fn opened_with(count: u16, config: &Config) -> Self {
        let large = Config { send_buffer: 1 << 30, ..config.clone() };
        let mut bench = Self::new(count, &large);
        for id in 0..count {
            // Slow start with every packet acknowledged, until 64 kB are allowed.
            while bench.cwnd(id as u8) < 64_000 {
                bench.queue(60);
                let sent = bench.send_all(id as u8);
                bench.pass(100);
                let cum = sent.last().copied().unwrap_or(bench.cum());
                bench.sack(cum, &[], id as u8);
            }
        }
        bench.sender.queue = SendQueue::new(config);
        bench.sender.buffer = SendBuffer::new(&large);
        assert!(bench.sender.is_drained());
        // TSNs count from 1 again.
        let window = PeerWindow::new(config.experiment.window_probing, bench.a_rwnd);
        bench.sender.outstanding = Outstanding::new(Tsn(1), window);
        bench.sender.copies =
            super::copies::Copies::new(config.experiment.path_scheduling, config.redundancy);
        let cum = bench.sender.outstanding.cum();
        bench.sender.abandonment = Abandonment::new(config);
        bench.sender.forward = Forward::new(cum);
        for path in bench.paths.iter_mut() {
            path.forget_transmissions(config);
        }
        bench
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    fn path(&self, id: u8) -> &Path {
        self.paths.get(PathId(id)).unwrap()
    }

    fn cwnd(&self, id: u8) -> usize {
        self.path(id).congestion().window()
    }

    fn cum(&self) -> u64 {
        self.sender.outstanding.cum().since(Tsn64::initial(Tsn(0)))
    }

    /// Queues `count` messages that fill a packet each.
    fn queue(&mut self, count: usize) {
        (0..count).for_each(|_| self.queue_bytes(FULL));
    }

    fn queue_bytes(&mut self, len: usize) {
        let payload = Bytes::from(alloc::vec![1; len]);
        let message = Outgoing { stream: StreamId(0), ppid: Ppid(0), unordered: false, payload };
        self.enqueue(message).unwrap();
    }

    fn enqueue(&mut self, message: Outgoing) -> Result<(), SendError> {
        self.sender.enqueue(self.now, message, None, &mut self.paths)
    }

    /// Sends one packet on a path, whatever the path scheduler would say, and returns its TSNs.
    fn send(&mut self, id: u8) -> Vec<u64> {
        let id = PathId(id);
        let mut buffer = alloc::vec![0; self.paths.get(id).unwrap().packet_size()];
        let mut writer = PacketWriter::new(&mut buffer, HEADER);
        let promised = self.sender.has_data_for(self.now, id, &self.paths);
        let count = self.sender.fill(self.now, id, &mut self.paths, &mut writer).chunks;
        assert_eq!(promised, count > 0, "has_data_for and fill disagree");
        let len = writer.finish();
        let tsns: Vec<u64> = data_of(&buffer[..len]).map(|tsn| u64::from(tsn.0)).collect();
        assert_eq!(tsns.len(), count);
        self.check();
        tsns
    }

    /// Sends all that a path lets out.
    fn send_all(&mut self, id: u8) -> Vec<u64> {
        let mut all = Vec::new();
        loop {
            let sent = self.send(id);
            if sent.is_empty() {
                return all;
            }
            all.extend(sent);
        }
    }

    /// Queues and sends `count` full chunks on a path.
    fn push(&mut self, id: u8, count: usize) -> Vec<u64> {
        self.queue(count);
        (0..count).flat_map(|_| self.send(id)).collect()
    }

    /// A SACK with absolute TSNs in its blocks arrives over a path.
    fn sack(&mut self, cum: u64, blocks: &[(u64, u64)], via: u8) -> SackOutcome {
        self.try_sack(cum, blocks, via).unwrap()
    }

    fn try_sack(
        &mut self,
        cum: u64,
        blocks: &[(u64, u64)],
        via: u8,
    ) -> Result<SackOutcome, &'static str> {
        self.flagged_sack(0, cum, blocks, via)
    }

    fn flagged_sack(
        &mut self,
        flags: u8,
        cum: u64,
        blocks: &[(u64, u64)],
        via: u8,
    ) -> Result<SackOutcome, &'static str> {
        let offset = |tsn: u64| u16::try_from(tsn - cum).unwrap();
        let gaps: Vec<GapBlock> = blocks
            .iter()
            .map(|(start, end)| GapBlock { start: offset(*start), end: offset(*end) })
            .collect();
        let view = SackView {
            flags,
            a_rwnd: Some(self.a_rwnd),
            gaps: GapBlocks::from_slice(&gaps),
            ..SackView::of_shutdown(Tsn(cum as u32))
        };
        let outcome = self.sender.handle_sack(self.now, &view, PathId(via), &mut self.paths);
        self.check();
        outcome
    }

    fn missing(&self, tsn: u64) -> u8 {
        self.sender.outstanding.get(Tsn64::initial(Tsn(0)).plus(tsn)).unwrap().record.missing
    }

    fn is_lost(&self, tsn: u64) -> bool {
        let chunk = self.sender.outstanding.get(Tsn64::initial(Tsn(0)).plus(tsn)).unwrap();
        chunk.record.state == ChunkState::Lost
    }

    fn check(&self) {
        check(&self.sender, &self.paths);
    }
}

fn data_of(packet: &[u8]) -> impl Iterator<Item = Tsn> {
    let chunks = Packet::parse(packet).unwrap().chunks();
    chunks.map(|chunk| {
        let Ok(Chunk::Data(data)) = chunk else { panic!("not DATA: {chunk:?}") };
        data.tsn
    })
}

/// Conservation: every count equals what the chunks say.
fn check(sender: &Sender, paths: &Paths) {
    let all: Vec<_> = (1..=sender.outstanding.len() as u64)
        .map(|ahead| sender.outstanding.cum().plus(ahead))
        .map(|tsn| (tsn, sender.outstanding.get(tsn).unwrap()))
        .collect();
    let sum = |state: ChunkState| -> usize {
        all.iter().filter(|(_, c)| c.record.state == state).map(|(_, c)| c.data_len()).sum()
    };
    assert_eq!(sender.outstanding.in_flight(), sum(ChunkState::InFlight));
    assert_eq!(sender.outstanding.lost(), sum(ChunkState::Lost));
    let held: usize = all.iter().map(|(_, chunk)| chunk.data_len()).sum();
    assert_eq!(sender.buffer.used(), held + sender.queue.bytes());
    let tsns = |wanted: &dyn Fn(&SentChunk) -> bool| -> BTreeSet<Tsn64> {
        all.iter().filter(|(_, chunk)| wanted(chunk)).map(|(tsn, _)| *tsn).collect()
    };
    let acked: BTreeSet<Tsn64> =
        sender.scoreboard.acked().iter().flat_map(crate::ranges::Range::iter).collect();
    let acked: BTreeSet<Tsn64> = acked
        .into_iter()
        .filter(|tsn| sender.outstanding.get(*tsn).unwrap().record.state != ChunkState::Abandoned)
        .collect();
    assert_eq!(
        acked,
        tsns(&|c| matches!(c.record.state, ChunkState::Acked | ChunkState::Released))
    );
    let released = sender.scoreboard.released().iter().flat_map(crate::ranges::Range::iter);
    let released: BTreeSet<Tsn64> = released.collect();
    assert_eq!(released, tsns(&|chunk| chunk.record.state == ChunkState::Released));
    let abandoned = tsns(&|chunk| chunk.record.state == ChunkState::Abandoned);
    assert_eq!(sender.outstanding.held() + released.len() + abandoned.len(), all.len());
    for path in paths.iter() {
        let flight: usize = all
            .iter()
            .filter(|(_, c)| c.record.state == ChunkState::InFlight && c.record.path == path.id())
            .map(|(_, chunk)| chunk.wire_len())
            .sum();
        let flight = flight + path.copies_flight();
        assert_eq!(path.in_flight(), flight, "flight of {:?}", path.id());
        let booked: usize =
            all.iter().filter(|(_, c)| c.record.path == path.id()).map(|(_, c)| c.data_len()).sum();
        assert_eq!(path.flight().booked(), booked, "booked on {:?}", path.id());
        assert!(flight == 0 || path.flight().t3().is_some(), "data in flight without T3-rtx");
        let waiting: BTreeSet<Tsn64> = path.flight().lost().iter().collect();
        assert_eq!(waiting.len(), path.flight().lost().iter().count(), "lost in two ways");
        let lost = |c: &SentChunk| c.record.state == ChunkState::Lost && c.record.path == path.id();
        assert_eq!(waiting, tsns(&lost));
    }
}
