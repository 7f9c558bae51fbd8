//! What the engine alone costs: two endpoints in one process, packets handed over in memory.
//! `bench/engine` calls it; `bench/README.md` explains the numbers.
//!
//! ```text
//! cost [--mib N]                 processor time per GiB, both ends, by message size; idle associations
//! cost --one SIZE MIB [PATHS [STREAMS]]   one transfer of MIB in messages of SIZE, nothing else (for callgrind)
//! cost --piece NAME TIMES        one piece of the engine so many times (for callgrind)
//! cost --pieces                  the pieces: name, times worth counting, what one of them is
//! ```
#![allow(clippy::unwrap_used, reason = "a measuring program: what fails ends it")]

mod heap;
mod idle;
mod pair;
mod pieces;
mod strangers;

use bytes::Bytes;
use manypath_engine::{Config, StreamId};
use pair::Pair;

const MIB: usize = 1 << 20;
const GIB: f64 = (1u64 << 30) as f64;
const SIZES: [usize; 4] = [64, 1 << 10, 16 << 10, 64 << 10];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<usize>().ok());
    match arguments.first().map(String::as_str) {
        Some("--one") => {
            let paths = number(3).and_then(|paths| u8::try_from(paths).ok()).unwrap_or(1);
            let streams = number(4).and_then(|streams| u16::try_from(streams).ok()).unwrap_or(1);
            let total = number(2).unwrap() * MIB;
            let moved = transfer(number(1).unwrap(), total, paths, streams);
            println!("bytes {} packets {}", moved.bytes, moved.packets);
        }
        Some("--piece") => assert!(pieces::run(&arguments[1], number(2).unwrap()), "no such piece"),
        Some("--pieces") => {
            for piece in &pieces::PIECES {
                println!("{} {} {}", piece.name, piece.times, piece.per);
            }
        }
        Some("--mib") => table(number(1).unwrap()),
        Some(other) => eprintln!("cost: '{other}' is not known; see the head of the program"),
        None => table(256),
    }
}

fn table(mib: usize) {
    println!("message   paths  CPU s/GiB, both ends  packets/s of CPU time");
    for (size, paths) in SIZES.iter().map(|size| (*size, 1)).chain([(16 << 10, 2)]) {
        // Small messages take longer: less of them says as much.
        let total = if size < 1024 { mib.div_ceil(8) } else { mib } * MIB;
        let before = cpu_seconds();
        let moved = transfer(size, total, paths, 1);
        let spent = cpu_seconds() - before;
        let (per_gib, rate) = (spent * GIB / moved.bytes as f64, moved.packets as f64 / spent);
        println!("{size:>7} {paths:>7} {per_gib:>21.2} {rate:>22.0}");
    }
    println!("\nidle association                      connects   accepts  (bytes)");
    for (name, paths, exchanged) in [
        ("one path, no data yet", 1, 0),
        ("one path, 16 KiB each way before", 1, 16 << 10),
        ("two paths, no data yet", 2, 0),
        ("two paths, 16 KiB each way before", 2, 16 << 10),
    ] {
        let [connects, accepts] = idle::bytes(paths, exchanged);
        println!("{name:<35} {connects:>10} {accepts:>9}");
    }
}

/// Bytes that have arrived, and the packets of both directions.
struct Moved {
    bytes: usize,
    packets: u64,
}

/// One direction, saturated, until `total` bytes have arrived: a little more, because turns are whole. The
/// messages go over the streams in turn.
fn transfer(size: usize, total: usize, paths: u8, streams: u16) -> Moved {
    let mut pair = Pair::new(&Config { streams, ..pieces::counted() }, paths);
    let [sender, receiver] = pair.connect();
    let payload = Bytes::from(vec![5; size]);
    let (mut arrived, mut stream) = (0, 0);
    while arrived < total {
        while pair.offer(0, sender, StreamId(stream), &payload) {
            stream = (stream + 1) % streams;
        }
        pair.turn();
        arrived += pair.read(1, receiver);
    }
    Moved { bytes: arrived, packets: pair.packets }
}

/// Processor time of this process, which has one thread.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() * 1e-9
}
