//! Setting up an association (RFC 9260 section 5.1).

use crate::pair::{Pair, Side, millis};
use manypath_engine::Event;

#[test]
fn data_travels_with_the_cookie_echo() {
    let mut pair = Pair::new(1);
    let id = pair.connect();
    pair.send(Side::A, id, 0, b"hello");
    pair.drive(millis(100));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO DATA -> Z
         A <- COOKIE_ACK SACK <- Z",
    );
    assert_eq!(pair.z.received, [(0, "hello".into())]);
    let connected = |initiated| Event::Connected {
        initiated,
        adaptation: None,
        outbound_streams: 16,
        inbound_streams: 16,
    };
    assert_eq!(pair.a.heard(), [&connected(true)]);
    assert_eq!(pair.z.heard(), [&connected(false), &Event::Readable]);
}
