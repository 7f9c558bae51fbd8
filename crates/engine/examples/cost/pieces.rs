//! The pieces of the engine that a packet passes, each by itself, for counting instructions: what is
//! repeated `times` is one call of the piece, and what is done before does not depend on `times`, so that
//! the difference of two runs is the piece alone.

use crate::pair::{Held, Pair};
use crate::strangers;
use bytes::Bytes;
use manypath_engine::{AssociationId, Config, CongestionControl, StreamId, StreamScheduling};
use manypath_wire::chunk::Data;
use manypath_wire::{Chunk, CommonHeader, Packet, PacketWriter, Ppid, Ssn, Tsn, VerificationTag};
use std::hint::black_box;

/// Chunks that are outstanding while SACKs are measured.
const OUTSTANDING: usize = 10_000;
/// Streams with something to send while picks are measured.
const STREAMS: u16 = 1_000;
/// Associations that are only there.
const IDLE: usize = 1_000;
const BUFFER: u32 = 64 << 20;
/// User data that fills a packet over IPv4 and UDP with an MTU of 1500.
const FULL: usize = 1440;

/// A piece: its name, what is counted, and how many calls are worth measuring.
pub(crate) struct Piece {
    pub(crate) name: &'static str,
    pub(crate) per: &'static str,
    pub(crate) times: usize,
    run: fn(usize),
}

/// All of them, in the order of the table.
pub(crate) const PIECES: [Piece; 17] = [
    Piece { name: "parse-data", per: "packet of 1440 bytes", times: 20_000, run: parse_data },
    Piece { name: "parse-small", per: "packet of 17 chunks", times: 20_000, run: parse_small },
    Piece { name: "emit-data", per: "packet of 1440 bytes", times: 20_000, run: emit_data },
    Piece { name: "sack-in-order", per: "SACK", times: 2_000, run: sack_in_order },
    Piece { name: "sack-with-holes", per: "SACK", times: 1_000, run: sack_with_holes },
    Piece { name: "pick-fcfs", per: "packet", times: 2_000, run: pick_fcfs },
    Piece { name: "pick-round-robin", per: "packet", times: 2_000, run: pick_round_robin },
    Piece { name: "pick-weighted", per: "packet", times: 2_000, run: pick_weighted },
    Piece { name: "pick-dynamic", per: "packet, 2 paths", times: 2_000, run: pick_dynamic },
    Piece {
        name: "beside-idle",
        per: "message and answer, beside 1,000 idle associations",
        times: 2_000,
        run: beside_idle,
    },
    Piece {
        name: "unblock",
        per: "message that waits for a full socket, beside 1,000 idle associations",
        times: 500,
        run: unblock,
    },
    Piece {
        name: "init",
        per: "INIT with its answer",
        times: 5_000,
        run: strangers::answered_inits,
    },
    Piece { name: "flood-init", per: "INIT of a flood", times: 50_000, run: strangers::inits },
    Piece {
        name: "flood-cookie",
        per: "forged COOKIE ECHO",
        times: 5_000,
        run: strangers::cookies,
    },
    Piece {
        name: "shutdown-ack",
        per: "SHUTDOWN ACK out of the blue with its answer",
        times: 20_000,
        run: strangers::answered_shutdown_acks,
    },
    Piece {
        name: "flood-shutdown-ack",
        per: "SHUTDOWN ACK of a flood",
        times: 50_000,
        run: strangers::shutdown_acks,
    },
    Piece {
        name: "flood-abort",
        per: "ABORT with a guessed tag",
        times: 20_000,
        run: strangers::aborts,
    },
];

/// Runs a piece so many times; `false` if there is none of this name.
pub(crate) fn run(name: &str, times: usize) -> bool {
    let piece = PIECES.iter().find(|piece| piece.name == name);
    piece.inspect(|piece| (piece.run)(times)).is_some()
}

const HEADER: CommonHeader =
    CommonHeader { source_port: 1, destination_port: 2, tag: VerificationTag(3) };

fn data(tsn: u32, payload: &[u8]) -> Chunk<'_> {
    let (stream, ssn, ppid) = (StreamId(1), Ssn(2), Ppid(3));
    let (unordered, begin, end, immediate) = (false, true, true, false);
    Chunk::Data(Data {
        tsn: Tsn(tsn),
        stream,
        ssn,
        ppid,
        unordered,
        begin,
        end,
        immediate,
        payload,
    })
}

/// Writes a packet of chunks of `size` bytes, as many as fit.
fn emit(buffer: &mut [u8], payload: &[u8]) -> usize {
    let mut packet = PacketWriter::new(buffer, HEADER);
    let mut tsn = 0;
    while packet.push(black_box(&data(tsn, payload))).is_ok() {
        tsn += 1;
    }
    packet.finish()
}

fn parse(times: usize, size: usize) {
    let (mut buffer, payload) = ([0; 1472], vec![5; size]);
    let len = emit(&mut buffer, &payload);
    for _ in 0..times {
        let packet = Packet::parse(black_box(&buffer[..len])).unwrap();
        for chunk in packet.chunks() {
            let _read = black_box(chunk);
        }
    }
}

fn parse_data(times: usize) {
    parse(times, FULL);
}

fn parse_small(times: usize) {
    parse(times, 64);
}

fn emit_data(times: usize) {
    let (mut buffer, payload) = ([0; 1472], vec![5; FULL]);
    for _ in 0..times {
        black_box(emit(black_box(&mut buffer), &payload));
    }
}

/// What the pieces are counted with: a window that opens in a few round trips of no time, and a SACK for each second packet.
pub(crate) fn counted() -> Config {
    let congestion = CongestionControl::Cubic;
    Config { congestion, sack_frequency_max: 2, ..Config::production() }
}

/// A sender with [`OUTSTANDING`] chunks in flight, and the SACKs of a receiver that misses each
/// packet whose number `lost` says.
fn outstanding(lost: impl Fn(usize) -> bool) -> (Pair, Vec<Held>) {
    // Without HyStart the window reaches so many chunks in a few round trips.
    let config =
        Config { send_buffer: BUFFER, receive_buffer: BUFFER, hystart: false, ..counted() };
    let mut pair = Pair::new(&config, 1);
    let [sender, receiver] = pair.connect();
    let payload = Bytes::from(vec![5; FULL]);
    let mut sent = Vec::new();
    while sent.len() < OUTSTANDING {
        sent = round(&mut pair, [sender, receiver], &mut sent, &payload);
    }
    sent.truncate(OUTSTANDING);
    let arrived = sent.into_iter().enumerate().filter(|(at, _)| !lost(*at));
    let mut arrived: Vec<_> = arrived.map(|(_, held)| held).collect();
    let sacks = acknowledge(&mut pair, receiver, &mut arrived);
    (pair, sacks)
}

/// A round trip: what is under way arrives, and what the sender answers the SACKs with is under way next.
fn round(
    pair: &mut Pair,
    ids: [AssociationId; 2],
    sent: &mut [Held],
    payload: &Bytes,
) -> Vec<Held> {
    pair.turn();
    pair.fill(0, ids[0], payload);
    let mut next = pair.hold(0);
    for two in sent.chunks_mut(2) {
        let mut sacks = acknowledge(pair, ids[1], two);
        pair.deliver(0, &mut sacks);
        next.append(&mut pair.hold(0));
    }
    next
}

/// The receiver's answers to these packets, which reach it two at a time.
fn acknowledge(pair: &mut Pair, receiver: AssociationId, packets: &mut [Held]) -> Vec<Held> {
    let mut sacks = Vec::new();
    for two in packets.chunks_mut(2) {
        pair.deliver(1, two);
        sacks.append(&mut pair.hold(1));
        pair.read(1, receiver);
    }
    sacks
}

fn sack_in_order(times: usize) {
    let (mut pair, mut sacks) = outstanding(|_| false);
    assert!(sacks.len() >= times, "{} SACKs", sacks.len());
    pair.deliver(0, &mut sacks[..times]);
}

/// Every tenth packet is missing: each SACK lists up to 300 blocks, and few TSNs are new.
fn sack_with_holes(times: usize) {
    let (mut pair, mut sacks) = outstanding(|at| at % 10 == 0);
    assert!(sacks.len() >= times, "{} SACKs", sacks.len());
    pair.deliver(0, &mut sacks[..times]);
}

/// Packets taken from an association with messages on a thousand streams. Each packet is one pick:
/// what follows the pick (chunk, window, timer) is the same for all disciplines.
fn pick(times: usize, config: Config, paths: u8) {
    let config = Config { send_buffer: BUFFER, receive_buffer: BUFFER, ..config };
    let mut pair = Pair::new(&config, paths);
    let [sender, receiver] = pair.connect();
    let payload = Bytes::from(vec![5; FULL]);
    let fill = |pair: &mut Pair| {
        while (0..STREAMS).all(|stream| pair.offer(0, sender, StreamId(stream), &payload)) {}
    };
    fill(&mut pair);
    let start = pair.packets;
    while pair.packets - start < times as u64 * 3 / 2 {
        pair.turn();
        pair.read(1, receiver);
        fill(&mut pair);
    }
}

fn scheduled(stream_scheduling: StreamScheduling) -> Config {
    Config { stream_scheduling, ..counted() }
}

fn pick_fcfs(times: usize) {
    pick(times, scheduled(StreamScheduling::Fcfs), 1);
}

fn pick_round_robin(times: usize) {
    pick(times, scheduled(StreamScheduling::RoundRobin), 1);
}

fn pick_weighted(times: usize) {
    pick(times, scheduled(StreamScheduling::WeightedFair), 1);
}

fn pick_dynamic(times: usize) {
    pick(times, Config { sack_frequency_max: 2, ..Config::dynamic() }, 2);
}

/// One of many associations has something to say: the others are not looked at for it.
fn beside_idle(times: usize) {
    let mut pair = Pair::new(&counted(), 1);
    let all: Vec<_> = (0..IDLE).map(|_| pair.connect()).collect();
    let ids = all[IDLE / 2];
    let payload = Bytes::from(vec![5; 64]);
    for _ in 0..times {
        for (side, id) in ids.into_iter().enumerate() {
            assert!(pair.offer(side, id, StreamId(0), &payload));
        }
        pair.turn();
        for (side, id) in ids.into_iter().enumerate() {
            pair.read(side, id);
        }
    }
}

/// A socket is full, and takes packets again. One of its many associations has something to send meanwhile.
fn unblock(times: usize) {
    let mut pair = Pair::new(&counted(), 1);
    let all: Vec<_> = (0..IDLE).map(|_| pair.connect()).collect();
    let [sender, receiver] = all[IDLE / 2];
    let payload = Bytes::from(vec![5; 64]);
    for _ in 0..times {
        pair.block(0, true);
        assert!(pair.offer(0, sender, StreamId(0), &payload));
        pair.turn();
        pair.block(0, false);
        pair.turn();
        assert_eq!(pair.read(1, receiver), payload.len());
    }
}
