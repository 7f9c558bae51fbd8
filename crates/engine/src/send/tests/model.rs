//! Sender and receiver over a network that loses, repeats and reorders, with paths that fail and a
//! reader that stops: every byte arrives once and in order, and all counts stay true.

use super::{HEADER, check, classic};
use crate::config::{Config, NrSack};
use crate::path::{PathAddr, PathId, PathState, Paths};
use crate::recv::{DataOutcome, Receiver};
use crate::send::Outgoing;
use crate::send::{SackView, Sender};
use crate::time::{Duration, Instant};
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use manypath_wire::{Chunk, Packet, PacketWriter, Ppid, StreamId, Tsn};
use proptest::prelude::*;

/// One step of the random history.
#[derive(Clone, Debug)]
enum Step {
    Queue {
        stream: u16,
        len: usize,
        unordered: bool,
    },
    Send {
        path: u8,
    },
    /// Packet `at` (modulo their number) of those under way arrives.
    Arrive {
        at: usize,
    },
    Lose {
        at: usize,
    },
    Repeat {
        at: usize,
    },
    Acknowledge {
        path: u8,
    },
    SackArrives {
        at: usize,
    },
    SackLost {
        at: usize,
    },
    Pass {
        millis: u64,
    },
    Read,
    Fail {
        path: u8,
    },
    Restore {
        path: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..64usize;
    let path = 0..3u8;
    prop_oneof![
        6 => (0..3u16, 1..4000usize, prop::bool::weighted(0.2)).prop_map(
            |(stream, len, unordered)| Step::Queue { stream, len, unordered }
        ),
        12 => path.clone().prop_map(|path| Step::Send { path }),
        10 => at.clone().prop_map(|at| Step::Arrive { at }),
        2 => at.clone().prop_map(|at| Step::Lose { at }),
        1 => at.clone().prop_map(|at| Step::Repeat { at }),
        6 => path.clone().prop_map(|path| Step::Acknowledge { path }),
        6 => at.clone().prop_map(|at| Step::SackArrives { at }),
        1 => at.prop_map(|at| Step::SackLost { at }),
        4 => (1..150u64).prop_map(|millis| Step::Pass { millis }),
        3 => Just(Step::Read),
        1 => path.clone().prop_map(|path| Step::Fail { path }),
        2 => path.prop_map(|path| Step::Restore { path }),
    ]
}

struct Model {
    sender: Sender,
    receiver: Receiver,
    paths: Paths,
    now: Instant,
    data: Vec<(PathId, Vec<u8>)>,
    sacks: Vec<(PathId, Vec<u8>)>,
    queued: Vec<(u16, bool, usize)>,
    read: Vec<usize>,
}

impl Model {
    fn new(initial: u32, receive_buffer: u32, nr_sack: NrSack) -> Self {
        let config = Config { receive_buffer, send_buffer: 200_000, ..classic() };
        let mut paths = Paths::new();
        for port in 1..=3 {
            let remote = SocketAddr::from(([10, 0, 0, 1], port));
            let addr = PathAddr { local: remote, remote };
            paths.add(addr, 1500, PathState::Active, &config).unwrap();
        }
        Self {
            sender: Sender::new(&config, Tsn(initial), receive_buffer, 3),
            receiver: Receiver::new(&config, Tsn(initial), 3, nr_sack),
            paths,
            now: Instant::ZERO,
            data: Vec::new(),
            sacks: Vec::new(),
            queued: Vec::new(),
            read: Vec::new(),
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Queue { stream, len, unordered } => self.queue(stream, len, unordered),
            Step::Send { path } => self.send(PathId(path)),
            Step::Arrive { at } => {
                if let Some((via, packet)) = take(&mut self.data, at) {
                    self.arrive(via, &packet);
                }
            }
            Step::Lose { at } => drop(take(&mut self.data, at)),
            Step::Repeat { at } => {
                let count = self.data.len().max(1);
                let again = self.data.get(at % count).cloned();
                self.data.extend(again);
            }
            Step::Acknowledge { path } => self.acknowledge(PathId(path)),
            Step::SackArrives { at } => {
                if let Some((via, packet)) = take(&mut self.sacks, at) {
                    self.sack_arrives(via, &packet);
                }
            }
            Step::SackLost { at } => drop(take(&mut self.sacks, at)),
            Step::Pass { millis } => self.pass(Duration::from_millis(millis)),
            Step::Read => self.read(2),
            Step::Fail { path } => self.fail(PathId(path)),
            Step::Restore { path } => {
                self.paths.get_mut(PathId(path)).unwrap().set_state(PathState::Active);
            }
        }
        check(&self.sender, &self.paths);
    }

    fn queue(&mut self, stream: u16, len: usize, unordered: bool) {
        let mut bytes: Vec<u8> = (0..len).map(|i| (i * 7 + self.queued.len()) as u8).collect();
        bytes.splice(0..0, (self.queued.len() as u32).to_be_bytes());
        let payload = Bytes::from(bytes);
        let message = Outgoing { stream: StreamId(stream), ppid: Ppid(1), unordered, payload };
        if self.sender.enqueue(self.now, message, None, &mut self.paths).is_ok() {
            self.queued.push((stream, unordered, len));
        }
    }

    fn send(&mut self, id: PathId) {
        let mut buffer = alloc::vec![0; 1472];
        let mut writer = PacketWriter::new(&mut buffer, HEADER);
        let promised = self.sender.has_data_for(self.now, id, &self.paths);
        let count = self.sender.fill(self.now, id, &mut self.paths, &mut writer).chunks;
        assert_eq!(promised, count > 0, "has_data_for and fill disagree");
        let len = writer.finish();
        if count > 0 {
            buffer.truncate(len);
            self.data.push((id, buffer));
        }
    }

    fn arrive(&mut self, via: PathId, packet: &[u8]) {
        for chunk in Packet::parse(packet).unwrap().chunks() {
            let Chunk::Data(data) = chunk.unwrap() else { panic!("not DATA") };
            let outcome = self.receiver.handle_data(&data).unwrap();
            let fine = [DataOutcome::Accepted, DataOutcome::Duplicate, DataOutcome::BufferFull];
            assert!(fine.contains(&outcome), "{outcome:?}");
        }
        self.receiver.packet_end(self.now, via, false, (3, Duration::default));
        assert!(self.receiver.queued() <= 2 * 100_000);
    }

    fn acknowledge(&mut self, via: PathId) {
        let mut buffer = alloc::vec![0; 1472];
        let mut writer = PacketWriter::new(&mut buffer, HEADER);
        assert!(self.receiver.write_sack(&mut writer));
        let len = writer.finish();
        buffer.truncate(len);
        self.sacks.push((via, buffer));
    }

    fn sack_arrives(&mut self, via: PathId, packet: &[u8]) {
        let view = match Packet::parse(packet).unwrap().chunks().next() {
            Some(Ok(Chunk::Sack(sack))) => SackView::of_sack(&sack),
            Some(Ok(Chunk::NrSack(sack))) => SackView::of_nr_sack(&sack),
            other => panic!("not a SACK: {other:?}"),
        };
        let outcome = self.sender.handle_sack(self.now, &view, via, &mut self.paths).unwrap();
        for id in outcome.acked_paths.iter() {
            self.paths.get_mut(id).unwrap().set_state(PathState::Active);
        }
    }

    fn pass(&mut self, by: Duration) {
        self.now = self.now + by;
        for id in (0..3).map(PathId) {
            let path = self.paths.get(id).unwrap();
            if path.flight().t3().is_some_and(|at| at <= self.now)
                && !self.sender.handle_t3(id, &mut self.paths)
            {
                self.fail(id);
            }
        }
    }

    fn fail(&mut self, id: PathId) {
        self.paths.get_mut(id).unwrap().set_state(PathState::PotentiallyFailed);
        self.sender.path_lost(id, &mut self.paths);
    }

    fn read(&mut self, count: usize) {
        for _ in 0..count {
            let Some(message) = self.receiver.read() else { return };
            let (number, bytes) = message.payload.split_first_chunk::<4>().unwrap();
            let number = u32::from_be_bytes(*number) as usize;
            let (stream, unordered, len) = self.queued[number];
            assert_eq!((message.stream.0, message.unordered), (stream, unordered));
            assert_eq!(bytes.len(), len);
            assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == (i * 7 + number) as u8));
            self.read.push(number);
        }
    }

    /// Now the network behaves: everything must arrive, within a bounded time.
    fn finish(&mut self) {
        for path in self.paths.iter_mut() {
            path.set_state(PathState::Active);
        }
        for _ in 0..4000 {
            if self.sender.is_drained() {
                break;
            }
            self.sender.relieve_slow_paths(self.now, &mut self.paths);
            let order: Vec<PathId> = self.sender.path_order(self.now, &self.paths).collect();
            order.into_iter().for_each(|id| {
                while self.sender.has_data_for(self.now, id, &self.paths) {
                    self.send(id);
                }
            });
            for (via, packet) in core::mem::take(&mut self.data) {
                self.arrive(via, &packet);
            }
            self.read(usize::MAX);
            if let Some(via) = self.receiver.acks().due(self.now) {
                self.acknowledge(via);
            }
            for (via, packet) in core::mem::take(&mut self.sacks) {
                self.sack_arrives(via, &packet);
            }
            self.pass(Duration::from_millis(30));
            check(&self.sender, &self.paths);
        }
        self.read(usize::MAX);
        assert!(self.sender.is_drained(), "stalled");
        assert_eq!(self.sender.queue.streams().map(|(_, it)| it.ordered_under_way).sum::<u32>(), 0);
    }

    fn check_reading(&self) {
        let mut all = self.read.clone();
        all.sort_unstable();
        assert_eq!(all, (0..self.queued.len()).collect::<Vec<_>>());
        for stream in 0..3 {
            let ordered = self.read.iter().filter(|number| {
                let (of, unordered, _) = self.queued[**number];
                of == stream && !unordered
            });
            assert!(ordered.is_sorted());
        }
    }
}

fn take<T>(list: &mut Vec<T>, at: usize) -> Option<T> {
    (!list.is_empty()).then(|| list.remove(at % list.len()))
}

proptest! {
    #[test]
    fn every_byte_once_and_in_order(
        initial in prop_oneof![Just(u32::MAX - 20), any::<u32>()],
        receive_buffer in prop_oneof![Just(8000u32), Just(100_000)],
        nr_sack in prop::sample::select(NrSack::ALL),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut model = Model::new(initial, receive_buffer, nr_sack);
        for step in &steps {
            model.apply(step);
        }
        model.finish();
        model.check_reading();
    }
}
