//! What a user wants of each path: backup, disabled, cost, metered, primary; told to the peer, changed while
//! data flows.

mod cost;
mod metered;
mod own;
mod redundancy;
mod roles;
mod takeover;
mod telling;

use crate::pair::{Pair, Side, address};
use manypath_engine::{AssociationId, PathPolicy, PathRole, PathRule, PathStatus};

pub(super) fn role(role: PathRole) -> PathPolicy {
    PathPolicy { role, ..PathPolicy::default() }
}

pub(super) fn backup() -> PathPolicy {
    role(PathRole::Backup)
}

pub(super) fn cost(cost: u16) -> PathPolicy {
    PathPolicy { cost, ..PathPolicy::default() }
}

pub(super) fn metered(rate: u64) -> PathPolicy {
    PathPolicy { metered: Some(rate), ..PathPolicy::default() }
}

/// `side` wants this of its paths from now on.
pub(super) fn want(pair: &mut Pair, side: Side, policies: &[(u8, PathPolicy)]) {
    let rule = |(path, policy): &(u8, PathPolicy)| PathRule {
        local: Some(address(side, *path).ip()),
        remote: None,
        policy: *policy,
    };
    let (now, rules) = (pair.now, policies.iter().map(rule).collect());
    pair.node(side).endpoint.set_path_policies(now, rules);
}

/// Two paths, established, with what A wants of them before anything is sent.
pub(super) fn wanted(policies: &[(u8, PathPolicy)]) -> (Pair, AssociationId, AssociationId) {
    wanted_of(Pair::new(2), policies)
}

/// The same of a pair with parameters of its own.
pub(super) fn wanted_of(
    mut pair: Pair,
    policies: &[(u8, PathPolicy)],
) -> (Pair, AssociationId, AssociationId) {
    want(&mut pair, Side::A, policies);
    let a = pair.connect();
    pair.drive(crate::pair::millis(500));
    let z = pair.z.endpoint.associations()[0];
    pair.ladder.clear();
    pair.a.events.clear();
    pair.z.events.clear();
    (pair, a, z)
}

/// The path with this number, as `side` sees it.
pub(super) fn path(pair: &mut Pair, side: Side, id: AssociationId, number: usize) -> PathStatus {
    let now = pair.now;
    pair.node(side).endpoint.status(now, id).unwrap().paths[number - 1].clone()
}

/// Lines of the ladder with user data that `side` has sent on a path.
pub(super) fn data_on(pair: &Pair, side: Side, number: u8) -> usize {
    let arrow = match (side, number) {
        (Side::A, 1) => "A -> ",
        (Side::Z, 1) => "A <- ",
        (Side::A, _) => "A -2> ",
        (Side::Z, _) => "A <2- ",
    };
    let on = |line: &&String| line.starts_with(arrow);
    pair.ladder.iter().filter(on).filter(|line| line.contains(" DATA")).count()
}
