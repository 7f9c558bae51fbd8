//! Random losses, copies, delays, damage and path cuts on one to three paths: whatever the network
//! does, every byte arrives once and in order, or the end of the association is told.

use crate::chance::Chance;
use crate::pair::{Chaos, Pair, Side, address, config, millis};
use manypath_engine::{AssociationId, Config, Duration, Endpoint, Event};

/// Cases of a usual test run.
const CASES: u64 = 2000;

struct Case {
    pair: Pair,
    chance: Chance,
    a: AssociationId,
    changes: Changes,
    /// What each side has sent, stream by stream.
    sent: [Vec<Vec<u8>>; 2],
}

const STREAMS: usize = 3;

/// What happens beside transfers and cuts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    None,
    /// Addresses come and go at both ends.
    Addresses,
}

impl Case {
    fn new(seed: u64, changes: Changes) -> Self {
        let mut chance = Chance(seed);
        let paths = 1 + chance.below(3) as u8;
        let buffer = 1 << (15 + chance.below(6));
        let settings = |side| Config {
            receive_buffer: buffer,
            association_max_retransmits: 1000,
            max_init_retransmits: 100,
            rto_max: Duration::from_secs(2),
            address_reconfiguration: changes == Changes::Addresses,
            ..config(side)
        };
        let mut pair = Pair::with(paths, settings(Side::A), settings(Side::Z));
        pair.quiet = true;
        for link in pair.links.values_mut() {
            link.delay = millis(1 + chance.below(100));
            link.rate = 500_000 << chance.below(8);
            link.queue = millis(20 + chance.below(200));
        }
        pair.chaos = Some(Chaos {
            loss: chance.below(100),
            copies: chance.below(50),
            damage: chance.below(20),
            jitter: millis(chance.below(40)),
            chance: Chance(chance.next()),
        });
        let a = pair.connect();
        let sent = [vec![Vec::new(); STREAMS], vec![Vec::new(); STREAMS]];
        Self { pair, chance, a, changes, sent }
    }

    /// Returns the bytes that were moved, and how often addresses have changed.
    fn run(mut self, seed: u64) -> [usize; 2] {
        for _ in 0..1 + self.chance.below(12) {
            self.act();
            let pause = millis(self.chance.below(300));
            self.pair.drive(pause);
        }
        if let Some(chaos) = &mut self.pair.chaos {
            (chaos.loss, chaos.damage) = (chaos.loss / 4, chaos.damage / 4);
        }
        self.pair.restore_all();
        let wanted: [usize; 2] = [0, 1].map(|side| self.sent[side].iter().map(Vec::len).sum());
        let complete = self.pair.drive_until(Duration::from_secs(600), |pair| {
            received(&pair.z.received) >= wanted[0] && received(&pair.a.received) >= wanted[1]
        });
        assert!(
            complete,
            "seed {seed}: {} {} of {wanted:?}",
            received(&self.pair.z.received),
            received(&self.pair.a.received)
        );
        self.pair.drive(Duration::from_secs(3));
        for (side, node) in [&self.pair.z, &self.pair.a].into_iter().enumerate() {
            for stream in 0..STREAMS {
                let texts = node.received.iter().filter(|(at, _)| usize::from(*at) == stream);
                let text: Vec<u8> = texts.flat_map(|(_, text)| text.iter().copied()).collect();
                assert!(text == self.sent[side][stream], "seed {seed} side {side} {stream}");
            }
        }
        let changed = |event: &&Event| matches!(event, Event::PeerAddress { .. });
        let all = [&self.pair.a, &self.pair.z].map(|node| node.heard().into_iter());
        let changes = all.into_iter().flatten().filter(changed).count();
        self.end(seed);
        [wanted.iter().sum(), changes]
    }

    /// The association ends at both ends, however many chunks of the shutdown are lost.
    fn end(mut self, seed: u64) {
        self.pair.a.endpoint.shutdown(self.pair.now, self.a);
        let over = self.pair.drive_until(Duration::from_secs(600), |pair| {
            let left = |endpoint: &Endpoint| endpoint.associations().len();
            left(&pair.a.endpoint) + left(&pair.z.endpoint) == 0
        });
        assert!(over, "seed {seed}: no end");
    }

    fn act(&mut self) {
        let path = 1 + self.chance.below(self.pair.links.len() as u64) as u8;
        if self.changes == Changes::Addresses && self.chance.hits(500) {
            return self.change_address(path);
        }
        match self.chance.below(8) {
            0 => self.pair.cut(path),
            1 => self.pair.restore_all(),
            2 => self.send(Side::Z),
            _ => self.send(Side::A),
        }
    }

    fn change_address(&mut self, path: u8) {
        let side = if self.chance.hits(500) { Side::A } else { Side::Z };
        let what = self.chance.below(5);
        let (now, address) = (self.pair.now, address(side, path).ip());
        let endpoint = &mut self.pair.node(side).endpoint;
        let Some(id) = endpoint.associations().first().copied() else { return };
        // What is not possible at the moment is refused.
        let _refused = match what {
            0 | 1 => endpoint.remove_address(now, id, address).is_err(),
            2 | 3 => endpoint.add_address(now, id, address).is_err(),
            _ => endpoint.request_peer_primary(now, id, address).is_err(),
        };
    }

    fn send(&mut self, side: Side) {
        let id = match side {
            Side::A => self.a,
            Side::Z => match self.pair.z.endpoint.associations().first() {
                Some(id) => *id,
                None => return,
            },
        };
        let messages = if self.chance.hits(100) { 40 } else { 1 + self.chance.below(5) };
        let scale = self.chance.below(15);
        for _ in 0..messages {
            let len = 1 + self.chance.below(1 << scale) as usize;
            let (stream, text) =
                (self.chance.below(STREAMS as u64) as usize, self.chance.bytes(len));
            self.pair.send(side, id, stream as u16, &text);
            self.sent[side as usize][stream].extend(text);
        }
    }
}

fn received(messages: &[(u16, bytes::Bytes)]) -> usize {
    messages.iter().map(|(_, text)| text.len()).sum()
}

#[test]
fn every_byte_arrives_once_and_in_order() {
    let case = |seed| Case::new(seed, Changes::None).run(seed);
    let bytes: usize = (0..CASES).map(case).map(|[bytes, _]| bytes).sum();
    assert!(bytes > 50_000_000, "the cases have moved only {bytes} bytes");
}

/// The seed of each failing case can be tried alone with a range of one.
#[test]
fn every_byte_arrives_once_and_in_order_while_addresses_come_and_go() {
    let case = |seed| Case::new(seed, Changes::Addresses).run(seed);
    let [bytes, changes] = (0..CASES / 2).map(case).fold([0; 2], |[a, b], [c, d]| [a + c, b + d]);
    assert!(bytes > 15_000_000, "the cases have moved only {bytes} bytes");
    assert!(changes > 500, "addresses have changed only {changes} times");
}
