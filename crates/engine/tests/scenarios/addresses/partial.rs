//! Messages that were given up while addresses leave.

use super::{ip, willing};
use crate::pair::{Pair, Side, message};
use manypath_engine::{Config, Duration, Reliability};

#[test]
fn a_forward_tsn_is_repeated_although_the_address_that_it_left_from_is_gone() {
    for gone in [1, 2] {
        let both = |side| Config { partial_reliability: true, ..willing(side) };
        let (mut pair, a, _) = Pair::established_with(2, both(Side::A), both(Side::Z));
        pair.drive(Duration::from_secs(1));
        pair.lose(Side::A, "DATA", 1);
        let once = Reliability::Retransmissions(0);
        pair.a.endpoint.send_with(pair.now, a, message(1, b"lost"), once).unwrap();
        pair.send(Side::A, a, 1, b"kept");
        pair.lose(Side::A, "FORWARD_TSN", 1);
        assert!(pair.drive_until(Duration::from_secs(5), |pair| {
            pair.ladder.iter().any(|line| line.contains("FORWARD_TSN"))
        }));
        pair.a.endpoint.remove_address(pair.now, a, ip(Side::A, gone)).unwrap();
        pair.drive(Duration::from_secs(10));
        let texts: Vec<_> = pair.z.received.iter().map(|(_, text)| &text[..]).collect();
        assert_eq!(texts, [b"kept"]);
        let status = pair.a.endpoint.status(pair.now, a).unwrap();
        assert_eq!(status.outstanding, 0, "without address {gone}");
    }
}
