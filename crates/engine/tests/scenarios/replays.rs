//! The packets of an association, recorded and played again to an endpoint with the same keys that has forgotten it:
//! every sequence of them up to some length.

use crate::pair::{Pair, Side, address, config, endpoint, millis};
use manypath_engine::{Duration, Endpoint, Instant, PacketBatch, PathAddr};

/// Sequences are so long.
const LENGTH: u32 = 4;
/// The type of a COOKIE ECHO chunk, which comes first in its packet.
const COOKIE_ECHO: u8 = 10;
/// Timers that an association without a peer takes to end, at most.
const MAX_TIMERS: usize = 500;

/// What both ends have sent, from INIT to SHUTDOWN COMPLETE.
fn recorded() -> Vec<Vec<u8>> {
    let mut pair = Pair::new(1);
    pair.record = true;
    let id = pair.connect();
    pair.drive(millis(100));
    pair.send(Side::A, id, 0, b"once");
    pair.drive(millis(300));
    let now = pair.now;
    pair.node(Side::A).endpoint.shutdown(now, id);
    pair.drive(millis(300));
    pair.recorded.into_iter().map(|(_, _, bytes)| bytes).collect()
}

/// The server of the recording before it has received anything.
fn forgetful() -> Endpoint {
    endpoint(Side::Z, 1, config(Side::Z), 2)
}

/// Lets the endpoint have a packet, as if it came from the client; how many it sends.
fn play(server: &mut Endpoint, now: Instant, bytes: &[u8]) -> usize {
    let path = PathAddr { local: address(Side::Z, 1), remote: address(Side::A, 1) };
    server.handle_packet(now, path, bytes);
    drain(server, now)
}

fn drain(server: &mut Endpoint, now: Instant) -> usize {
    let (mut batch, mut sent) = (PacketBatch::new(16), 0);
    while let Some(run) = server.poll_transmit(now, &mut batch) {
        sent += run.packets;
    }
    while server.poll_event().is_some() {}
    sent
}

/// Plays every sequence of `LENGTH` packets at `now` and looks at the endpoint after each packet, and at its end.
fn play_all(
    now: Instant,
    mut look: impl FnMut(&Endpoint, bool, usize),
    mut end: impl FnMut(Endpoint),
) {
    let packets = recorded();
    let count = packets.len();
    for number in 0..count.pow(LENGTH) {
        let (mut server, mut echoed) = (forgetful(), false);
        for place in 0..LENGTH {
            let packet = &packets[number / count.pow(place) % count];
            let sent = play(&mut server, now, packet);
            echoed |= packet[12] == COOKIE_ECHO;
            look(&server, echoed, sent);
        }
        end(server);
    }
}

/// Nobody answers any more.
fn run_out(mut server: Endpoint, mut now: Instant) {
    for _ in 0..MAX_TIMERS {
        let Some(next) = server.poll_timeout() else { break };
        assert!(next > now, "a timer does not let time pass");
        now = next;
        server.handle_timeout(now);
        drain(&mut server, now);
    }
    assert!(server.associations().is_empty(), "{:?}", server.associations());
    assert_eq!(server.poll_timeout(), None);
}

#[test]
fn whatever_is_replayed_there_is_one_association_at_most_and_only_after_a_cookie() {
    let now = Instant::ZERO + millis(50);
    let mut associations = 0;
    let look = |server: &Endpoint, echoed: bool, sent: usize| {
        let count = server.associations().len();
        assert!(count <= usize::from(echoed), "{count} associations");
        assert!(echoed || server.poll_timeout().is_none(), "a timer without an association");
        assert!(sent <= 2, "{sent} packets for one");
        associations += count;
    };
    play_all(now, look, |server| run_out(server, now));
    assert!(associations > 0, "the cookie of the recording is good");
}

#[test]
fn a_replay_after_the_cookie_has_expired_begins_nothing() {
    let now = Instant::ZERO + Duration::from_secs(61);
    let look = |server: &Endpoint, _: bool, sent: usize| {
        assert!(server.associations().is_empty());
        assert_eq!(server.poll_timeout(), None);
        assert!(sent <= 1, "{sent} packets for one");
    };
    play_all(now, look, drop);
}
