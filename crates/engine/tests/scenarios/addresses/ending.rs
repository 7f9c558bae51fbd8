//! The end of an association whose addresses have just changed.

use super::{Stage, ip, stage, stage_with, willing};
use crate::pair::{Side, address, message, millis};
use manypath_engine::{Config, PathAddr, PathState, Reliability};
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{AddressRequest, Parameter};

/// Where A sends from in the end.
fn source() -> PathAddr {
    PathAddr { local: address(Side::A, 3), remote: address(Side::Z, 1) }
}

/// A has two other addresses than before, as Z learns from it.
fn move_away(stage: &mut Stage) {
    let request = |correlation, path| AddressRequest { correlation, address: ip(Side::A, path) };
    let parameters = [
        Parameter::AddIpAddress(request(1, 2)),
        Parameter::AddIpAddress(request(2, 3)),
        Parameter::DeleteIpAddress(request(3, 1)),
    ];
    let bytes = stage.asconf(ip(Side::A, 1), &parameters);
    stage.pair.inject_from(Side::A, source(), &bytes);
}

/// The SHUTDOWN of A, which does not leave.
fn shutdown(stage: &mut Stage) -> Vec<u8> {
    stage.pair.cut(1);
    let (now, a) = (stage.pair.now, stage.a);
    stage.pair.a.endpoint.shutdown(now, a);
    stage.pair.drain();
    stage.pair.restore(1);
    stage.pair.recorded.last().unwrap().2.clone()
}

/// Where Z has sent such chunks to.
fn targets(stage: &Stage, is_meant: fn(&Chunk<'_>) -> bool) -> Vec<std::net::SocketAddr> {
    let sent = stage.pair.recorded.iter().filter(|(_, _, bytes)| {
        let mut chunks = Packet::parse(bytes).unwrap().chunks().flatten();
        chunks.any(|chunk| is_meant(&chunk))
    });
    sent.map(|(_, addr, _)| addr.remote).collect()
}

#[test]
fn a_shutdown_ack_goes_to_where_the_shutdown_came_from_while_no_address_is_confirmed() {
    let mut stage = stage(1, 1);
    move_away(&mut stage);
    stage.pair.drive(millis(1));
    let shutdown = shutdown(&mut stage);
    stage.pair.inject_from(Side::A, source(), &shutdown);
    stage.pair.drive(millis(13));
    let unconfirmed = [2, 3].map(|path| (ip(Side::A, path), PathState::Unconfirmed));
    assert_eq!(stage.paths_of_z(), unconfirmed);
    let to = targets(&stage, |chunk| *chunk == Chunk::ShutdownAck);
    assert_eq!(to, [address(Side::A, 3)]);
}

#[test]
fn what_is_given_up_is_told_to_where_the_shutdown_came_from_while_no_address_is_confirmed() {
    let z = Config { partial_reliability: true, ..willing(Side::Z) };
    let mut stage = stage_with(1, 1, z);
    let shutdown = shutdown(&mut stage);
    let (now, z) = (stage.pair.now, stage.z);
    stage.pair.lose(Side::Z, "DATA", 1);
    let reliability = Reliability::Retransmissions(0);
    let sent = stage.pair.z.endpoint.send_with(now, z, message(0, b"once"), reliability);
    assert_eq!(sent, Ok(()));
    move_away(&mut stage);
    stage.pair.drive(millis(11));
    stage.pair.inject_from(Side::A, source(), &shutdown);
    stage.pair.drive(millis(11));
    stage.pair.recorded.clear();
    for _ in 0..20 {
        stage.pair.inject_from(Side::A, source(), &shutdown);
        stage.pair.drive(millis(300));
    }
    let to = targets(&stage, |chunk| matches!(chunk, Chunk::ForwardTsn(_)));
    assert!(!to.is_empty() && to.iter().all(|to| *to == address(Side::A, 3)), "{to:?}");
}
