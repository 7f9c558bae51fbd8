//! The table's memory of what is over.

use super::{Connection, Phase, REMEMBERED, Table};
use manypath_control::SocketOptions;
use manypath_gate::join::Join;
use std::time::Instant;

fn connection(id: u64, phase: Phase) -> Connection {
    let destination = "192.0.2.1:80".parse().expect("address");
    Connection {
        id,
        cookie: 1000 + id,
        v6_socket: false,
        destination,
        source: None,
        phase,
        callers: Vec::new(),
        held: None,
        local: None,
        peer: destination,
        transport: None,
        unheard: false,
        options: SocketOptions::default(),
    }
}

#[test]
fn what_is_over_is_remembered_for_a_while() {
    let mut table = Table::default();
    table.put(connection(0, Phase::Active));
    for id in 1..=REMEMBERED as u64 + 10 {
        let phase = if id % 2 == 0 { Phase::Closed } else { Phase::Failed { errno: libc::EPERM } };
        table.put(connection(id, phase));
    }
    assert!(table.get(0).is_some(), "what is not over is never forgotten");
    assert!(table.get(10).is_none() && table.of_socket(1010).is_none());
    assert!(table.get(11).is_some() && table.of_socket(1011).is_some());
    assert_eq!(table.ids().len(), REMEMBERED + 1);
}

#[test]
fn a_socket_that_begins_again_is_not_forgotten_for_its_past() {
    let mut table = Table::default();
    table.put(connection(1, Phase::Failed { errno: libc::EPERM }));
    assert!(table.has_failed());
    let mut again = table.take(1).expect("known");
    assert!(!table.has_failed());
    again.phase = Phase::Active;
    table.put(again);
    for id in 2..=REMEMBERED as u64 + 10 {
        table.put(connection(id, Phase::Closed));
    }
    assert!(table.get(1).is_some());
}

#[test]
fn only_undecided_connections_need_the_clock() {
    let mut table = Table::default();
    let until = Instant::now();
    let phases = [
        Phase::Asking { until },
        Phase::Deciding,
        Phase::Held,
        Phase::Joining(Join::Delayed { until, tries: 0 }),
        Phase::Active,
        Phase::Closed,
    ];
    for (id, phase) in phases.into_iter().enumerate() {
        table.put(connection(id as u64, phase));
    }
    assert_eq!(table.clocked(), [0, 1, 3]);
    table.take(1);
    assert_eq!(table.clocked(), [0, 3]);
}
