//! What running stacks say of a path.

use super::super::findings::{PathFinding, StackPath};
use manypath_control::status::{AssociationStatus, PathStatus, StackStatus};

/// Their words about `path`.
pub(super) fn about(path: &PathFinding, stacks: &[StackStatus]) -> Vec<StackPath> {
    let of = |stack: &StackStatus| {
        let associations = stack.associations.iter();
        let all = associations.flat_map(|one| one.paths.iter().map(move |it| (one, it)));
        let meant = all.filter(|(_, it)| is_same(it, path));
        meant.map(|(one, it)| said(stack.pid, one, it)).collect::<Vec<_>>()
    };
    stacks.iter().flat_map(of).collect()
}

fn is_same(one: &PathStatus, path: &PathFinding) -> bool {
    one.local.ip() == path.local && one.remote.ip() == path.remote.ip()
}

fn said(pid: u32, association: &AssociationStatus, path: &PathStatus) -> StackPath {
    StackPath {
        pid,
        association: association.id,
        state: path.state.clone(),
        idle: path.idle.clone(),
        idle_reason: path.idle_reason,
        since_data_sent_ms: path.since_data_sent_ms,
        since_data_received_ms: path.since_data_received_ms,
        ecn: path.ecn.clone(),
        mtu: path.mtu,
        peer_policy: path.peer_policy.clone(),
        withheld: association.withheld_addresses,
    }
}
