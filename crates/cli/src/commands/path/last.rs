//! Whether a change leaves an association without any path that may carry data.

use manypath_control::status::{AssociationStatus, PathStatus, StackStatus};
use manypath_rules::paths::{PathEntry, Role};
use std::collections::BTreeSet;

/// The peers, by an address each, of associations that have a path for data now and have none with these
/// lines.
pub(super) fn stranded(stacks: &[StackStatus], entries: &[PathEntry]) -> BTreeSet<String> {
    let all = stacks.iter().flat_map(|stack| &stack.associations);
    let stops = |one: &&AssociationStatus| {
        let mut paths = active(one);
        let carries_now = active(one).any(|path| path.policy.role != Role::Disabled.name());
        carries_now && paths.all(|path| role(path, entries) == Role::Disabled)
    };
    let peer =
        |one: &AssociationStatus| active(one).map(|path| path.remote.ip().to_string()).next();
    all.filter(stops).filter_map(peer).collect()
}

/// Paths that could carry data as far as the network and the peer are concerned.
fn active(association: &AssociationStatus) -> impl Iterator<Item = &PathStatus> {
    let paths = association.paths.iter();
    paths.filter(|path| path.state == "active" && path.peer_policy.role != Role::Disabled.name())
}

/// As stacks look it up: the first line that fits.
fn role(path: &PathStatus, entries: &[PathEntry]) -> Role {
    let fits = |entry: &&PathEntry| {
        let selector = &entry.selector;
        selector.fits_local(path.local.ip(), &path.interface)
            && selector.fits_peer(path.remote.ip())
    };
    entries.iter().find(fits).map_or(Role::Normal, |entry| entry.wish.role)
}

/// The peers as a list for people.
pub(super) fn list(peers: &BTreeSet<String>) -> String {
    peers.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
