//! What a packet of an attacker costs that comes 50,000 times a second, answer included.

use manypath_engine::{
    Config, Duration, Ecn, Endpoint, Instant, LocalAddress, PacketBatch, PathAddr,
};
use manypath_wire::cause::Causes;
use manypath_wire::chunk::{Abort, Chunk, CookieEcho, Init};
use manypath_wire::parameter::Parameters;
use manypath_wire::{CommonHeader, PacketWriter, Tsn, VerificationTag};
use std::net::{Ipv4Addr, SocketAddr};

const PORT: u16 = 9899;
const APART: Duration = Duration::from_micros(20);

/// An endpoint that accepts, and packets that `chunk` makes of their numbers, from 50 addresses.
fn flood(times: usize, config: Config, chunk: impl Fn(u32) -> (u32, Chunk<'static>)) {
    let mut endpoint = Endpoint::new(Config { port: PORT, accept: true, ..config }, [1; 32]);
    let local = SocketAddr::from(([10, 0, 0, 1], PORT));
    endpoint.add_local_address(LocalAddress {
        addr: local,
        prefix_len: 24,
        interface: 0,
        mtu: 1500,
    });
    let (mut batch, mut buffer, mut now) = (PacketBatch::new(1), [0; 512], Instant::ZERO);
    // So long that what is saved up at first is spent.
    let before = 100_000;
    for number in 0..before + u32::try_from(times).unwrap() {
        now = now + APART;
        let (tag, chunk) = chunk(number + 1);
        let (source_port, destination_port) = (40_000, PORT);
        let header = CommonHeader { source_port, destination_port, tag: VerificationTag(tag) };
        let mut packet = PacketWriter::new(&mut buffer, header);
        packet.push(&chunk).unwrap();
        let len = packet.finish();
        let remote = Ipv4Addr::from_bits(0xC633_6400 | (number % 50));
        let path = PathAddr { local, remote: SocketAddr::new(remote.into(), PORT) };
        endpoint.handle_marked_packet(now, path, &mut buffer[..len], Ecn::NotEct);
        while endpoint.poll_transmit(now, &mut batch).is_some() {}
    }
}

fn init(number: u32) -> (u32, Chunk<'static>) {
    let (tag, initial_tsn) = (VerificationTag(number), Tsn(number));
    let (outbound_streams, inbound_streams) = (1024, 1024);
    let parameters = Parameters::EMPTY;
    let a_rwnd = 100_000;
    (
        0,
        Chunk::Init(Init {
            tag,
            a_rwnd,
            outbound_streams,
            inbound_streams,
            initial_tsn,
            parameters,
        }),
    )
}

pub(crate) fn inits(times: usize) {
    flood(times, Config::production(), init);
}

/// Each is answered: what an INIT costs that is meant.
pub(crate) fn answered_inits(times: usize) {
    flood(times, Config { unverified_reply_rate: u32::MAX, ..Config::production() }, init);
}

pub(crate) fn cookies(times: usize) {
    let echo = Chunk::CookieEcho(CookieEcho { cookie: &[0x5A; 96] });
    flood(times, Config::production(), |number| (number, echo));
}

pub(crate) fn shutdown_acks(times: usize) {
    flood(times, Config::production(), |number| (number, Chunk::ShutdownAck));
}

pub(crate) fn answered_shutdown_acks(times: usize) {
    let config = Config { unverified_reply_rate: u32::MAX, ..Config::production() };
    flood(times, config, |number| (number, Chunk::ShutdownAck));
}

pub(crate) fn aborts(times: usize) {
    let abort = Chunk::Abort(Abort { tag_reflected: false, causes: Causes::EMPTY });
    flood(times, Config::production(), |number| (number, abort));
}
