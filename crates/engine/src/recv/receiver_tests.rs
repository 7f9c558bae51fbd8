//! The receiver as a whole: when it acknowledges what, and how it treats its buffer.

use super::{DataOutcome, Receiver};
use crate::config::{Config, Experiment, NrSack};
use crate::path::PathId;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use manypath_wire::chunk::{Data, GapBlocks};
use manypath_wire::{
    Chunk, CommonHeader, Packet, PacketWriter, Ppid, Ssn, StreamId, Tsn, VerificationTag,
};

const A: PathId = PathId(0);
const B: PathId = PathId(1);

struct Bench {
    receiver: Receiver,
    now: Instant,
}

/// What a SACK says: cumulative TSN, a_rwnd, blocks, duplicates.
type Said = (u32, u32, Vec<(u16, u16)>, Vec<u32>);

impl Bench {
    fn new(receive_buffer: u32) -> Self {
        let config = Config { receive_buffer, ..Config::default() };
        let mut bench = Self {
            receiver: Receiver::new(&config, Tsn(1), 4, config.nr_sack),
            now: Instant::ZERO,
        };
        bench.receiver.policy.on_sent(0);
        bench
    }

    /// A packet with one whole message of `len` bytes; stream 0, SSN = TSN - 1.
    fn arrive(&mut self, tsn: u32, len: usize, via: PathId) -> DataOutcome {
        let payload = alloc::vec![5; len];
        self.packet(&[chunk(tsn, &payload)], via)[0]
    }

    fn packet(&mut self, chunks: &[Data<'_>], via: PathId) -> Vec<DataOutcome> {
        let outcomes = chunks.iter().map(|data| self.receiver.handle_data(data).unwrap()).collect();
        self.receiver.packet_end(self.now, via, false, (2, Duration::default));
        outcomes
    }

    fn is_due(&self) -> bool {
        self.receiver.acks().due(self.now).is_some()
    }

    fn sack(&mut self) -> Said {
        self.sack_into(1472)
    }

    fn sack_into(&mut self, size: usize) -> Said {
        let mut buffer = alloc::vec![0; size];
        let header = CommonHeader { source_port: 1, destination_port: 2, tag: VerificationTag(3) };
        let mut writer = PacketWriter::new(&mut buffer, header);
        assert!(self.receiver.write_sack(&mut writer));
        let len = writer.finish();
        let packet = Packet::parse(&buffer[..len]).unwrap();
        let Some(Ok(Chunk::Sack(sack))) = packet.chunks().next() else { panic!("not a SACK") };
        let gaps = sack.gaps.iter().map(|gap| (gap.start, gap.end)).collect();
        let duplicates = sack.duplicates.iter().map(|tsn| tsn.0).collect();
        (sack.cum_tsn.0, sack.a_rwnd, gaps, duplicates)
    }
}

fn chunk(tsn: u32, payload: &[u8]) -> Data<'_> {
    Data {
        tsn: Tsn(tsn),
        stream: StreamId(0),
        ssn: Ssn(tsn.wrapping_sub(1) as u16),
        ppid: Ppid(0),
        unordered: false,
        begin: true,
        end: true,
        immediate: false,
        payload,
    }
}

#[test]
fn the_second_packet_is_acknowledged_to_the_path_of_the_last() {
    let mut bench = Bench::new(100_000);
    bench.arrive(1, 10, A);
    assert!(!bench.is_due() && bench.receiver.acks().is_pending());
    bench.arrive(2, 10, B);
    assert_eq!(bench.receiver.acks().due(bench.now), Some(B));
    assert_eq!(bench.sack(), (2, 99_872, [].into(), [].into()));
    assert!(!bench.receiver.acks().is_pending());
}

#[test]
fn a_lone_packet_is_acknowledged_after_the_delay() {
    let mut bench = Bench::new(100_000);
    bench.arrive(1, 10, B);
    let deadline = bench.receiver.acks().deadline().unwrap();
    assert_eq!(deadline, bench.now + Duration::from_millis(50));
    assert_eq!(bench.receiver.acks().due(deadline), Some(B));
}

#[test]
fn a_gap_and_its_filling_are_acknowledged_at_once() {
    let mut bench = Bench::new(100_000);
    bench.arrive(2, 10, A);
    assert!(bench.is_due());
    let (cum, _, gaps, _) = bench.sack();
    assert_eq!((cum, gaps), (0, [(2, 2)].into()));
    bench.arrive(1, 10, A);
    assert!(bench.is_due());
    assert_eq!(bench.sack().0, 2);
    bench.arrive(3, 10, A);
    assert!(!bench.is_due());
}

#[test]
fn duplicates_are_acknowledged_at_once_and_listed() {
    let mut bench = Bench::new(100_000);
    bench.arrive(1, 10, A);
    bench.sack();
    assert_eq!(bench.arrive(1, 10, B), DataOutcome::Duplicate);
    assert!(bench.is_due());
    assert_eq!(bench.sack().3, [1]);
    assert_eq!(bench.sack().3, Vec::<u32>::new());
}

#[test]
fn fragments_that_wait_take_room_and_give_it_back_when_they_are_read() {
    let mut bench = Bench::new(20_000);
    let payload = [5; 4000];
    bench.packet(&[Data { end: false, ..chunk(1, &payload) }], A);
    bench.packet(&[Data { begin: false, end: false, ssn: Ssn(0), ..chunk(2, &payload) }], A);
    assert_eq!(bench.receiver.read(), None);
    assert_eq!((bench.sack().1, bench.sack().1), (12_000, 12_000));
    bench.packet(&[Data { begin: false, ssn: Ssn(0), ..chunk(3, &payload) }], A);
    assert_eq!(bench.sack().1, 8000);
    assert_eq!(bench.receiver.read().unwrap().payload.len(), 12_000);
    assert_eq!(bench.sack().1, 20_000);
}

#[test]
fn the_sequence_number_of_unordered_messages_is_ignored() {
    let mut bench = Bench::new(20_000);
    for (tsn, ssn) in [(1, 999), (2, 0), (3, 999)] {
        bench.packet(&[Data { unordered: true, ssn: Ssn(ssn), ..chunk(tsn, b"x") }], A);
        assert!(bench.receiver.read().is_some());
    }
    bench.packet(&[Data { ssn: Ssn(0), ..chunk(4, b"ordered") }], A);
    assert_eq!(bench.receiver.read().unwrap().payload, "ordered");
}

#[test]
fn the_immediate_bit_is_obeyed() {
    let mut bench = Bench::new(100_000);
    bench.packet(&[Data { immediate: true, ..chunk(1, b"x") }], A);
    assert!(bench.is_due());
}

#[test]
fn chunks_for_other_streams_are_acknowledged_and_dropped() {
    let mut bench = Bench::new(100_000);
    let outcomes = bench.packet(&[Data { stream: StreamId(4), ..chunk(1, b"x") }], A);
    assert_eq!(outcomes, [DataOutcome::InvalidStream(StreamId(4))]);
    assert_eq!(bench.sack().0, 1);
    assert_eq!((bench.receiver.read(), bench.receiver.queued()), (None, 0));
}

#[test]
fn empty_chunks_are_refused_with_their_tsn() {
    let mut bench = Bench::new(100_000);
    assert_eq!(bench.packet(&[chunk(7, b"")], A), [DataOutcome::NoUserData(Tsn(7))]);
    assert_eq!(bench.sack().0, 0);
}

#[test]
fn a_full_buffer_drops_new_data_and_says_so_at_once() {
    let mut bench = Bench::new(20_000);
    for tsn in [1, 2, 4, 5, 6] {
        assert_eq!(bench.arrive(tsn, 4000, A), DataOutcome::Accepted);
    }
    bench.sack();
    assert_eq!(bench.arrive(7, 4000, A), DataOutcome::BufferFull);
    assert!(bench.is_due());
    assert_eq!(bench.sack(), (2, 0, [(2, 4)].into(), [].into()));
    // What fills the hole is taken nevertheless: nothing acknowledged is thrown away for it.
    assert_eq!(bench.arrive(3, 4000, A), DataOutcome::Accepted);
    assert_eq!(bench.sack(), (6, 0, [].into(), [].into()));
    assert_eq!(bench.receiver.queued(), 24_000);
}

#[test]
fn a_chunk_larger_than_the_buffer_is_taken_in_its_turn() {
    let mut bench = Bench::new(1500);
    assert_eq!(bench.arrive(1, 12_288, A), DataOutcome::Accepted);
    assert_eq!(bench.sack(), (1, 0, [].into(), [].into()));
    assert_eq!(bench.arrive(2, 12_288, A), DataOutcome::BufferFull);
    assert_eq!(bench.receiver.read().unwrap().payload.len(), 12_288);
    assert_eq!(bench.sack(), (1, 1500, [].into(), [].into()));
    // Not while another is missing, which would find no room then.
    assert_eq!(bench.arrive(3, 12_288, A), DataOutcome::BufferFull);
    for tsn in [2, 3] {
        assert_eq!(bench.arrive(tsn, 12_288, A), DataOutcome::Accepted);
        assert_eq!(bench.receiver.read().unwrap().payload.len(), 12_288);
    }
    assert_eq!(bench.sack(), (3, 1500, [].into(), [].into()));
}

#[test]
fn a_chunk_larger_than_the_buffer_is_taken_when_others_wait_for_it() {
    let mut bench = Bench::new(1500);
    for tsn in [2, 4] {
        assert_eq!(bench.arrive(tsn, 500, A), DataOutcome::Accepted);
    }
    assert_eq!(bench.arrive(3, 12_288, A), DataOutcome::BufferFull, "the first one is missing");
    assert_eq!(bench.arrive(1, 12_288, A), DataOutcome::Accepted);
    assert_eq!(bench.arrive(3, 12_288, A), DataOutcome::BufferFull, "one at a time");
    assert_eq!(bench.sack(), (2, 0, [(2, 2)].into(), [].into()));
    for len in [12_288, 500] {
        assert_eq!(bench.receiver.read().unwrap().payload.len(), len);
    }
    assert_eq!(bench.arrive(3, 12_288, A), DataOutcome::Accepted);
    for len in [12_288, 500] {
        assert_eq!(bench.receiver.read().unwrap().payload.len(), len);
    }
    assert_eq!(bench.sack(), (4, 1500, [].into(), [].into()));
}

#[test]
fn what_could_not_be_acknowledged_is_not_kept() {
    let mut bench = Bench::new(1 << 20);
    assert_eq!(bench.arrive(65_535, 10, A), DataOutcome::Accepted);
    for tsn in [65_536, 1 << 20, (1 << 31) - 1] {
        assert_eq!(bench.arrive(tsn, 10, A), DataOutcome::BeyondReport);
    }
    let (cum, _, blocks, _) = bench.sack();
    assert_eq!((cum, blocks), (0, Vec::from([(65_535, 65_535)])));
    assert_eq!(bench.arrive(1, 10, A), DataOutcome::Accepted);
    assert_eq!(bench.arrive(65_536, 10, A), DataOutcome::Accepted);
}

#[test]
fn reading_reopens_a_closed_window_with_a_sack() {
    let mut bench = Bench::new(20_000);
    for tsn in 1..=5 {
        bench.arrive(tsn, 4000, A);
    }
    assert_eq!(bench.sack().1, 0);
    assert_eq!(bench.receiver.read().unwrap().payload.len(), 4000);
    assert!(!bench.is_due());
    bench.receiver.read();
    assert!(bench.is_due());
    assert_eq!(bench.sack().1, 8000);
}

#[test]
fn as_many_blocks_as_fit_lowest_first() {
    let mut bench = Bench::new(1 << 20);
    for tsn in (2..1000).step_by(2) {
        bench.arrive(tsn, 10, A);
    }
    let (_, _, gaps, _) = bench.sack_into(12 + 16 + 40);
    assert_eq!(gaps, (1..=10).map(|n| (2 * n, 2 * n)).collect::<Vec<_>>());
    let mut tiny = [0; 24];
    let header = CommonHeader { source_port: 1, destination_port: 2, tag: VerificationTag(3) };
    assert!(!bench.receiver.write_sack(&mut PacketWriter::new(&mut tiny, header)));
}

#[test]
fn a_message_that_fills_the_buffer_before_its_turn_is_an_error_not_a_stall() {
    let mut bench = Bench::new(10_000);
    let payload = alloc::vec![0; 4000];
    let mut last = Ok(DataOutcome::Accepted);
    for tsn in 1..=3 {
        // Nobody knows of the message before it.
        let data = Data { begin: tsn == 1, end: false, ssn: Ssn(1), ..chunk(tsn, &payload) };
        last = bench.receiver.handle_data(&data);
    }
    assert!(last.is_err());
}

#[test]
fn a_message_that_does_not_go_on_is_an_error() {
    let mut bench = Bench::new(10_000);
    let begin = Data { end: false, ..chunk(1, b"x") };
    assert_eq!(bench.receiver.handle_data(&begin), Ok(DataOutcome::Accepted));
    let other = Data { unordered: true, ..chunk(2, b"y") };
    assert!(bench.receiver.handle_data(&other).is_err());
}

/// The receiver of the draft's example: 2, 3, 5-8, 11 and 13-16 have come, of which 5-8, 13 and 16
/// can be delivered.
fn nr_bench(nr_sack: NrSack) -> Bench {
    let config = Config::default();
    let mut bench =
        Bench { receiver: Receiver::new(&config, Tsn(2), 4, nr_sack), now: Instant::ZERO };
    let payload = [1; 10];
    for tsn in [16, 2, 3, 5, 6, 7, 8, 11, 13, 14, 15] {
        let unordered = [5, 6, 7, 8, 13, 16].contains(&tsn);
        // On stream 1 the first message is missing.
        let stream = StreamId(u16::from(tsn > 10));
        let ssn = Ssn(tsn as u16 - 2);
        let data = Data { unordered, stream, ssn, ..chunk(tsn, &payload) };
        bench.packet(&[data], A);
    }
    bench
}

type NrSaid = (u32, Vec<(u16, u16)>, Vec<(u16, u16)>);

fn nr_sack_into(bench: &mut Bench, size: usize) -> NrSaid {
    let mut buffer = alloc::vec![0; size];
    let header = CommonHeader { source_port: 1, destination_port: 2, tag: VerificationTag(3) };
    let mut writer = PacketWriter::new(&mut buffer, header);
    assert!(bench.receiver.write_sack(&mut writer));
    let len = writer.finish();
    let packet = Packet::parse(&buffer[..len]).unwrap();
    let Some(Ok(Chunk::NrSack(sack))) = packet.chunks().next() else { panic!("no NR-SACK") };
    let pairs = |blocks: GapBlocks<'_>| blocks.iter().map(|gap| (gap.start, gap.end)).collect();
    (sack.cum_tsn.0, pairs(sack.gaps), pairs(sack.nr_gaps))
}

#[test]
fn the_three_cases_differ_in_what_they_call_safe() {
    let all = [(2, 5), (8, 8), (10, 13)];
    let said = |nr_sack| nr_sack_into(&mut nr_bench(nr_sack), 1472);
    assert_eq!(said(NrSack::Case1), (3, all.into(), [].into()));
    let deliverable = [(2, 5), (10, 10), (13, 13)];
    assert_eq!(said(NrSack::Case2), (3, [(8, 8), (11, 12)].into(), deliverable.into()));
    assert_eq!(said(NrSack::Case3), (3, [].into(), all.into()));
}

#[test]
fn the_lowest_blocks_of_both_kinds_are_kept_when_room_is_short() {
    // Room for the fixed fields and three blocks; a duplicate must wait.
    let mut bench = nr_bench(NrSack::Case2);
    bench.arrive(2, 10, A);
    let size = CommonHeader::LEN + 20 + 3 * 4;
    assert_eq!(nr_sack_into(&mut bench, size), (3, [(8, 8)].into(), [(2, 5), (10, 10)].into()));
}

#[test]
fn what_was_safe_stays_safe_until_the_cumulative_tsn_has_passed_it() {
    let mut bench = nr_bench(NrSack::Case2);
    nr_sack_into(&mut bench, 1472);
    while bench.receiver.read().is_some() {}
    bench.packet(&[Data { unordered: true, ..chunk(10, &[1]) }], A);
    let (cum, gaps, safe) = nr_sack_into(&mut bench, 1472);
    assert_eq!((cum, gaps), (3, [(8, 8), (11, 12)].into()));
    assert_eq!(safe, [(2, 5), (7, 7), (10, 10), (13, 13)]);
    bench.packet(&[Data { ssn: Ssn(2), ..chunk(4, &[1]) }], A);
    assert_eq!(nr_sack_into(&mut bench, 1472).2, [(2, 2), (5, 5), (8, 8)]);
}

#[test]
fn with_dac_gaps_of_several_paths_do_not_hurry_and_the_flags_count_packets() {
    let flags = |bench: &mut Bench| {
        let mut buffer = [0; 1472];
        let header = CommonHeader { source_port: 1, destination_port: 2, tag: VerificationTag(3) };
        let mut writer = PacketWriter::new(&mut buffer, header);
        assert!(bench.receiver.write_sack(&mut writer));
        let len = writer.finish();
        let packet = Packet::parse(&buffer[..len]).unwrap();
        let Some(Ok(Chunk::Sack(sack))) = packet.chunks().next() else { panic!("no SACK") };
        sack.flags
    };
    let mut bench = Bench::new(100_000);
    bench.receiver = Receiver::new(
        &Config {
            sack_frequency: 3,
            sack_frequency_max: 3,
            experiment: Experiment { delayed_ack_cmt: true, ..Experiment::default() },
            ..Config::default()
        },
        Tsn(1),
        4,
        NrSack::Off,
    );
    bench.receiver.policy.on_sent(0);
    bench.arrive(3, 10, A);
    assert!(!bench.is_due() && bench.receiver.acks().is_pending());
    bench.arrive(5, 10, B);
    assert_eq!(flags(&mut bench), 0x80);
    for tsn in 6..=8 {
        assert!(!bench.is_due());
        bench.arrive(tsn, 10, A);
    }
    assert!(bench.is_due());
    assert_eq!(flags(&mut bench), 0xC0);
    // A duplicate, and anything on an only path, is still told at once.
    bench.arrive(8, 10, A);
    assert_eq!((bench.is_due(), flags(&mut bench)), (true, 0x40));
    bench.receiver.handle_data(&chunk(10, &[1])).unwrap();
    bench.receiver.packet_end(bench.now, A, false, (1, Duration::default));
    assert!(bench.is_due());
}
