//! What attacks cost in memory, counted by the allocator.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test")]

#[allow(dead_code, reason = "the fuzz targets need more of it")]
#[path = "fuzz/network.rs"]
mod network;

use manypath_engine::{AssociationId, Config, Duration, PathAddr};
use manypath_wire::chunk::{Chunk, CookieEcho, Data, FragmentPlace, IData, Init};
use manypath_wire::packet::{CommonHeader, PacketWriter};
use manypath_wire::parameter::Parameters;
use manypath_wire::{Fsn, Mid, Ppid, Ssn, StreamId, Tsn, VerificationTag};
use network::{Network, address, path};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;

/// The system's allocator, which counts for each thread what it has taken.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// What an allocation really takes: a header, and a multiple of 16 bytes.
fn cost(layout: Layout) -> isize {
    (layout.size() + 8).next_multiple_of(16).max(32) as isize
}

fn count(bytes: isize) {
    // A thread that ends has nothing left to count with.
    let _ended = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(cost(layout));
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-cost(layout));
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn live() -> isize {
    LIVE.with(Cell::get)
}

const PORTS: [u16; 2] = [5001, 5002];
const BUFFER: u32 = 1 << 20;
const STREAMS: u32 = 16;

fn config(node: usize) -> Config {
    Config {
        port: PORTS[node],
        accept: node == 1,
        receive_buffer: BUFFER,
        interleaving: true,
        ..Config::default()
    }
}

fn packet(tag: u32, chunks: &[Chunk<'_>]) -> Vec<u8> {
    let header = CommonHeader {
        source_port: PORTS[0],
        destination_port: PORTS[1],
        tag: VerificationTag(tag),
    };
    let mut bytes = vec![0; 1460];
    let mut writer = PacketWriter::new(&mut bytes, header);
    chunks.iter().for_each(|chunk| writer.push(chunk).unwrap());
    let len = writer.finish();
    bytes.truncate(len);
    bytes
}

/// A packet that comes to the second end from any address.
fn strange(host: u32) -> PathAddr {
    let remote = SocketAddr::from((host.to_be_bytes().map(|byte| byte | 1), 9899));
    PathAddr { local: address(1, 0), remote }
}

fn flood(network: &mut Network, hosts: std::ops::Range<u32>) {
    for host in hosts {
        let init = Chunk::Init(Init {
            tag: VerificationTag(host | 1),
            a_rwnd: 100_000,
            outbound_streams: 10,
            inbound_streams: 10,
            initial_tsn: Tsn(host),
            parameters: Parameters::EMPTY,
        });
        let echo = Chunk::CookieEcho(CookieEcho { cookie: &[host as u8; 150] });
        for bytes in [packet(0, &[init]), packet(host, &[echo])] {
            network.nodes[1].endpoint.handle_packet(network.now, strange(host << 4), &bytes);
        }
        if host % 2 == 0 {
            network.drain();
        }
    }
    network.drain();
    // What is under way to nowhere is the network's.
    network.drive(Duration::from_secs(1), |_| false);
}

#[test]
fn floods_of_inits_and_cookies_leave_the_memory_as_it_was() {
    let mut network = Network::new(1, [config(0), config(1)]);
    flood(&mut network, 0..3000);
    let before = live();
    flood(&mut network, 3000..23_000);
    let grown = live() - before;
    assert!(grown.abs() < 1000, "{grown} bytes for 20000 INITs and 20000 cookies");
    let endpoint = &network.nodes[1].endpoint;
    assert!(endpoint.associations().is_empty());
    assert_eq!(endpoint.counters().bad_cookie, 23_000);
}

/// An association whose second end does not read, its tag and the next TSN that it expects.
fn established(interleaving: bool) -> (Network, AssociationId, u32, u32) {
    let configs = [0, 1].map(|node| Config { interleaving, ..config(node) });
    let mut network = Network::new(1, configs);
    let now = network.now;
    network.nodes[0].endpoint.connect(now, address(1, 0), PORTS[1]).unwrap();
    network.drive(Duration::from_millis(500), |_| false);
    network.nodes[1].reads = false;
    let z = network.nodes[1].endpoint.associations()[0];
    let status = network.nodes[1].endpoint.status(network.now, z).unwrap();
    let tag = u32::from_be_bytes(network.last[0][4..8].try_into().unwrap());
    (network, z, tag, status.cum_tsn.unwrap().0.wrapping_add(1))
}

/// Makes a chunk of the next TSN and a number.
type Make = fn(u32, u32) -> Chunk<'static>;

/// Lets chunks in that `make` makes of their numbers until no more are taken. Returns how many were
/// taken, and the memory that they cost.
fn hoard(interleaving: bool, make: Make) -> (u64, isize) {
    let (mut network, _, tag, first) = established(interleaving);
    let before = live();
    let refused = |network: &Network| {
        let counters = network.nodes[1].endpoint.counters();
        counters.receive_buffer_drops + counters.tsns_too_far_ahead
    };
    let mut sent = 0;
    while refused(&network) == 0 {
        let numbers: Vec<u32> = (sent..sent + 20).collect();
        let chunks: Vec<_> = numbers.iter().map(|number| make(first, *number)).collect();
        let bytes = packet(tag, &chunks);
        network.nodes[1].endpoint.handle_packet(network.now, path(1, 0), &bytes);
        network.nodes[1].endpoint.handle_timeout(network.now);
        sent += 20;
        assert!(!network.nodes[1].endpoint.associations().is_empty(), "after {sent} chunks");
        assert!(sent < 200_000, "nothing is ever refused");
    }
    (u64::from(sent) - refused(&network), live() - before)
}

fn data(tsn: u32, number: u32, unordered: bool, (begin, end): (bool, bool)) -> Data<'static> {
    Data {
        tsn: Tsn(tsn),
        stream: StreamId((number % STREAMS) as u16),
        ssn: Ssn((1 + number / STREAMS) as u16),
        ppid: Ppid(0),
        unordered,
        begin,
        end,
        immediate: false,
        payload: b"x",
    }
}

#[test]
fn hoarded_chunks_take_no_more_than_they_are_charged() {
    let unread =
        |first: u32, n: u32| Chunk::Data(data(first.wrapping_add(n), n, true, (true, true)));
    // Of each stream the first message is missing.
    let waiting =
        |first: u32, n: u32| Chunk::Data(data(first.wrapping_add(n), n, false, (true, true)));
    // Every other TSN is missing, so that nothing can be joined.
    let fragments = |first: u32, n: u32| {
        Chunk::Data(data(first.wrapping_add(2 * n + 1), n, true, (true, false)))
    };
    let interleaved = |first: u32, n: u32| {
        Chunk::IData(IData {
            tsn: Tsn(first.wrapping_add(2 * n + 1)),
            stream: StreamId((n % STREAMS) as u16),
            mid: Mid(n / STREAMS),
            place: FragmentPlace::Later(Fsn(1)),
            unordered: n.is_multiple_of(2),
            end: false,
            immediate: false,
            payload: b"x",
        })
    };
    let kinds: [(&str, bool, Make); 4] = [
        ("unread", false, unread),
        ("waiting", false, waiting),
        ("fragments", false, fragments),
        ("interleaved", true, interleaved),
    ];
    for (name, interleaving, make) in kinds {
        let (taken, memory) = hoard(interleaving, make);
        let each = memory / taken as isize;
        println!("{name}: {taken} chunks of one byte, {memory} bytes, {each} each");
        // The buffer once for user data, and once for what it costs to keep account of them.
        let limit = 2 * BUFFER as isize;
        assert!(memory <= limit && memory > limit / 4, "{name}: {memory} bytes");
        assert!(taken > 1000, "{name}");
    }
}
