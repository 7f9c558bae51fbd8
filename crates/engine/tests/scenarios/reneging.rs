//! A receiver that reports chunks beyond a gap and takes the report back, over and over (RFC 9260 section 6.2.1
//! D iii lets it), gains nothing by that.

use crate::craft::packet;
use crate::pair::{Pair, Side, address, config, millis};
use manypath_engine::{
    Config, CongestionControl, Duration, Instant, Pacing, PacketBatch, PathAddr,
};
use manypath_wire::Tsn;
use manypath_wire::chunk::{Chunk, GapBlock, GapBlocks, Sack, Tsns};
use manypath_wire::packet::Packet;

/// A round trip, and how many times A may send in it.
const ROUND: Duration = Duration::from_millis(20);
const STEPS: u32 = 20;

/// The receiver of A's data, which acknowledges once in a round trip.
struct Receiver {
    pair: Pair,
    tag: u32,
    cum: u32,
    /// The highest TSN that has come, and the bytes of all packets.
    highest: u32,
    bytes: usize,
    batch: PacketBatch,
}

fn way() -> PathAddr {
    PathAddr { local: address(Side::A, 1), remote: address(Side::Z, 1) }
}

impl Receiver {
    fn new(congestion: CongestionControl, pacing: Pacing) -> Self {
        let a = Config { congestion, pacing, ..config(Side::A) };
        let (mut pair, a, _) = Pair::established_with(1, a, config(Side::Z));
        pair.drive(millis(50));
        let (tag, next) = (pair.tag_of(Side::A), crate::defences::next_tsn_of(&mut pair, Side::A));
        pair.quiet = true;
        pair.send(Side::A, a, 0, &[7; 4_000_000]);
        let cum = next.wrapping_sub(1);
        Self { pair, tag, cum, highest: cum, bytes: 0, batch: PacketBatch::new(16) }
    }

    /// A sends for a round trip.
    fn listen(&mut self) {
        for _ in 0..STEPS {
            self.pair.now = self.pair.now + ROUND / STEPS;
            let (now, endpoint) = (self.pair.now, &mut self.pair.a.endpoint);
            if endpoint.poll_timeout().is_some_and(|due: Instant| due <= now) {
                endpoint.handle_timeout(now);
            }
            while let Some(run) = endpoint.poll_transmit(now, &mut self.batch) {
                for bytes in self.batch.bytes().chunks(run.segment_size) {
                    self.bytes += bytes.len();
                    for chunk in Packet::parse(bytes).unwrap().chunks().map_while(Result::ok) {
                        if let Chunk::Data(data) = chunk {
                            let ahead = data.tsn.0.wrapping_sub(self.highest);
                            self.highest = if ahead < 1 << 31 { data.tsn.0 } else { self.highest };
                        }
                    }
                }
            }
        }
    }

    fn sack(&mut self, cum: u32, gap_from: Option<u16>) {
        let end = u16::try_from(self.highest.wrapping_sub(cum)).unwrap();
        let gaps = gap_from.filter(|start| *start <= end).map(|start| [GapBlock { start, end }]);
        let gaps = gaps.as_ref().map_or(GapBlocks::EMPTY, |gaps| GapBlocks::from_slice(gaps));
        let (a_rwnd, duplicates) = (8 << 20, Tsns::EMPTY);
        let sack = Chunk::Sack(Sack { flags: 0, cum_tsn: Tsn(cum), a_rwnd, gaps, duplicates });
        let bytes = packet(Side::Z, self.tag, &[sack]);
        self.pair.a.endpoint.handle_packet(self.pair.now, way(), &bytes);
    }

    /// What A sends in so many round trips to a receiver that takes its reports back so many times in each.
    fn bytes_in(mut self, rounds: u32, times: u32) -> usize {
        for _ in 0..rounds {
            self.listen();
            for _ in 0..times {
                self.sack(self.cum, Some(2));
                self.sack(self.cum, None);
            }
            self.cum = self.highest;
            self.sack(self.cum, None);
        }
        assert_eq!(self.pair.a.endpoint.counters().protocol_violations, 0);
        assert_eq!(self.pair.a.endpoint.associations().len(), 1);
        self.bytes
    }
}

#[test]
fn who_reneges_on_what_it_has_reported_is_sent_no_more_than_an_honest_receiver() {
    use CongestionControl as Control;
    for congestion in [Control::Bbr, Control::Cubic, Control::Rfc9260] {
        for pacing in [Pacing::Off, Pacing::On] {
            let receiver = || Receiver::new(congestion, pacing);
            for rounds in [4, 8, 12] {
                let honest = receiver().bytes_in(rounds, 0);
                assert!(honest > 30_000, "{honest}");
                for times in [1, 3, 10] {
                    let percent = receiver().bytes_in(rounds, times) * 100 / honest;
                    let what =
                        format!("{congestion:?}, {pacing:?}, {times} times in {rounds} rounds");
                    assert!(percent <= 105, "{percent} % for {what}");
                }
            }
        }
    }
}
