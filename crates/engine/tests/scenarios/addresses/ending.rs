//! The end of an association whose addresses have just changed.

use super::{ip, stage};
use crate::pair::{Side, address, millis};
use manypath_engine::{PathAddr, PathState};
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{AddressRequest, Parameter};

#[test]
fn a_shutdown_ack_goes_to_where_the_shutdown_came_from_while_no_address_is_confirmed() {
    let mut stage = stage(1, 1);
    let source = PathAddr { local: address(Side::A, 3), remote: address(Side::Z, 1) };
    let request = |correlation, path| AddressRequest { correlation, address: ip(Side::A, path) };
    let parameters = [
        Parameter::AddIpAddress(request(1, 2)),
        Parameter::AddIpAddress(request(2, 3)),
        Parameter::DeleteIpAddress(request(3, 1)),
    ];
    let bytes = stage.asconf(ip(Side::A, 1), &parameters);
    stage.pair.inject_from(Side::A, source, &bytes);
    stage.pair.drive(millis(1));
    stage.pair.cut(1);
    let (now, a) = (stage.pair.now, stage.a);
    stage.pair.a.endpoint.shutdown(now, a);
    stage.pair.drain();
    let (_, _, shutdown) = stage.pair.recorded.last().unwrap().clone();
    stage.pair.restore(1);
    stage.pair.inject_from(Side::A, source, &shutdown);
    stage.pair.drive(millis(13));
    let unconfirmed = [2, 3].map(|path| (ip(Side::A, path), PathState::Unconfirmed));
    assert_eq!(stage.paths_of_z(), unconfirmed);
    let acks = stage.pair.recorded.iter().filter(|(_, _, bytes)| {
        let mut chunks = Packet::parse(bytes).unwrap().chunks();
        chunks.any(|chunk| chunk == Ok(Chunk::ShutdownAck))
    });
    let to: Vec<_> = acks.map(|(_, addr, _)| addr.remote).collect();
    assert_eq!(to, [address(Side::A, 3)]);
}
