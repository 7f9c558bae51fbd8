//! What is wanted of the paths of one association, in place of what is wanted in all.

use super::{backup, data_on, path, role, want};
use crate::pair::{PORT_Z, Pair, Side, address, config, millis};
use manypath_engine::{AssociationId, Config, ConnectError, PathPolicy, PathRole, PathRule};

const FILE: &[u8] = &[7; 400_000];

/// What A wants of its two paths.
fn rules(first: PathPolicy, second: PathPolicy) -> Vec<PathRule> {
    let rule = |number, policy| {
        let local = Some(address(Side::A, number).ip());
        PathRule { local, remote: None, policy }
    };
    vec![rule(1, first), rule(2, second)]
}

/// Begins an association from A to the address of Z on a path.
fn begin(pair: &mut Pair, number: u8, rules: Vec<PathRule>) -> Result<AssociationId, ConnectError> {
    let (now, remote) = (pair.now, address(Side::Z, number));
    // From a port of its own, so that there may be another one.
    let config = Config { port: 0, ..config(Side::A) };
    pair.a.endpoint.connect_with(now, remote, PORT_Z, config, Some(rules))
}

#[test]
fn one_association_keeps_to_a_path_that_the_others_leave_alone() {
    let (normal, disabled) = (PathPolicy::default(), role(PathRole::Disabled));
    let mut pair = Pair::new(2);
    want(&mut pair, Side::A, &[(2, backup())]);
    let kept = begin(&mut pair, 2, rules(disabled, normal)).unwrap();
    pair.drive(millis(500));
    assert!(!pair.ladder.iter().any(|line| line.contains("A -> ") && line.contains("INIT")));
    pair.ladder.clear();
    let peers = pair.z.endpoint.associations()[0];
    for (side, id) in [(Side::A, kept), (Side::Z, peers)] {
        pair.send(side, id, 0, FILE);
        pair.drive(millis(3000));
        assert_eq!((data_on(&pair, side, 1), data_on(&pair, side, 2) > 250), (0, true));
    }
    // Its first path is the one at which it began.
    assert_eq!(path(&mut pair, Side::A, kept, 2).policy, disabled);
    // What is wanted of paths in all does not concern it, and what is wanted of its own does not concern others.
    want(&mut pair, Side::A, &[(2, disabled)]);
    pair.ladder.clear();
    pair.send(Side::A, kept, 0, FILE);
    pair.drive(millis(3000));
    assert_eq!((data_on(&pair, Side::A, 1), data_on(&pair, Side::A, 2) > 250), (0, true));
    let other = pair.connect();
    pair.drive(millis(500));
    assert_eq!(path(&mut pair, Side::A, other, 1).policy, normal);
    let now = pair.now;
    pair.a.endpoint.set_own_path_policies(now, kept, rules(normal, disabled));
    pair.drive(millis(500));
    pair.ladder.clear();
    pair.send(Side::A, kept, 0, FILE);
    pair.drive(millis(3000));
    assert_eq!((data_on(&pair, Side::A, 1) > 250, data_on(&pair, Side::A, 2)), (true, 0));
}

#[test]
fn an_association_without_a_path_that_it_may_use_is_not_begun() {
    let mut pair = Pair::new(2);
    let disabled = role(PathRole::Disabled);
    let begun = begin(&mut pair, 1, rules(disabled, disabled));
    assert_eq!(begun, Err(ConnectError::NoLocalAddress));
    assert!(pair.a.endpoint.associations().is_empty());
}
