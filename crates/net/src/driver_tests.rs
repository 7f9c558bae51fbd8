//! The driver when the kernel takes no more: needs a send buffer smaller than the driver's own.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use crate::namespace::{in_namespace, run};
use host::{Host, SCTP_PORT, config, loopback, text, transfer};
use manypath_engine::{Config, CongestionControl, Duration};
use socket2::SockRef;

#[path = "../tests/support/host.rs"]
mod host;

/// A slow queue with room for everything: the send buffer fills, and the driver has to wait for the
/// socket to become writable.
#[test]
fn a_full_send_buffer_holds_the_sender_back() {
    in_namespace(|| {
        run("tc", "qdisc add dev lo root tbf rate 400mbit burst 200k limit 100m");
        // BBR sends as fast as the queue drains, and may never fill the buffer.
        let cubic = Config {
            congestion: CongestionControl::Cubic,
            queue_bound: Duration::ZERO,
            ..config(1, false)
        };
        let mut a = Host::new(1, cubic, &loopback(&["127.7.6.1"]));
        let mut b = Host::new(2, config(SCTP_PORT, true), &loopback(&["127.7.6.2"]));
        let socket = a.driver.exchange.sockets[0].path.io.socket();
        SockRef::from(socket).set_send_buffer_size(100_000).unwrap();
        transfer(&mut a, &mut b, &text(8 << 20), 16 << 10, || ());
        let counters = a.driver.counters();
        assert!(counters.send_blocked > 0, "{counters:?}");
        assert_eq!(counters.dropped_queue_full, 0, "{counters:?}");
        assert_eq!(a.driver.sockets()[0].waiting, 0);
        assert!(!a.driver.exchange.sockets[0].awaits_writable);
        let retransmitted = counters.bytes_sent - (8 << 20);
        assert!(retransmitted < 1 << 20, "what waited was not lost: {counters:?}");
    });
}
