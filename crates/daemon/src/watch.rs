//! Telling callers what happens to paths.
//!
//! What is there is compared with what was there: after each change of a state, and every tenth of a second
//! for all else (paths that come and go, policies). While nobody watches nothing is kept.

use crate::base::Base;
use crate::core::Core;
use crate::status::{path_state_name, policy};
use crate::timers::Timer;
use manypath_control::Reply;
use manypath_control::path::{PathChange, PathEvent};
use manypath_engine::{AssociationId, Duration, PathAddr, PathId, PathPolicy, PathState};
use std::collections::{BTreeMap, BTreeSet};

/// How often it is looked for what no event tells.
const PAUSE: Duration = Duration::from_millis(100);

/// Who watches, and what they know.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    watchers: BTreeSet<u64>,
    known: Known,
    ticking: bool,
}

type Known = BTreeMap<(AssociationId, PathId), Seen>;

/// A path as it was seen last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    addr: PathAddr,
    state: PathState,
    own: PathPolicy,
    peers: PathPolicy,
}

impl Watch {
    /// A caller has gone.
    pub(crate) fn forget(&mut self, control: u64) {
        self.watchers.remove(&control);
    }
}

/// What has happened between two looks.
fn changes(before: &Known, after: &Known) -> Vec<(AssociationId, PathChange, Seen)> {
    let mut changes = Vec::new();
    for ((id, path), seen) in after {
        let mut note = |change| changes.push((*id, change, *seen));
        let Some(old) = before.get(&(*id, *path)).filter(|old| is_same(old, seen)) else {
            note(PathChange::Added);
            if seen.state == PathState::Active {
                note(PathChange::Confirmed);
            }
            continue;
        };
        if old.state != seen.state {
            match seen.state {
                PathState::Active => note(PathChange::Confirmed),
                PathState::PotentiallyFailed => note(PathChange::Suspended),
                PathState::Inactive => note(PathChange::Inactive),
                PathState::Unconfirmed => {}
            }
        }
        if (old.own, old.peers) != (seen.own, seen.peers) {
            note(PathChange::Policy);
        }
    }
    let gone =
        before.iter().filter(|(key, old)| !after.get(key).is_some_and(|it| is_same(old, it)));
    changes.extend(gone.map(|((id, _), old)| (*id, PathChange::Removed, *old)));
    changes
}

fn is_same(old: &Seen, new: &Seen) -> bool {
    let ips = |addr: &PathAddr| (addr.local.ip(), addr.remote.ip());
    ips(&old.addr) == ips(&new.addr)
}

impl Watch {
    /// A caller wants to be told from now on.
    pub(crate) fn on_watch(&mut self, base: &mut Base, control: u64) {
        self.watchers.insert(control);
        self.known = paths_now(base);
        base.core.reply(control, Reply::Watching);
        if !std::mem::replace(&mut self.ticking, true) {
            base.core.after(PAUSE, Timer::Watch);
        }
    }

    pub(crate) fn on_watch_timer(&mut self, base: &mut Base) {
        if self.watchers.is_empty() {
            *self = Self::default();
            return;
        }
        self.tell_watchers(base);
        base.core.after(PAUSE, Timer::Watch);
    }

    /// Tells those who watch what has happened since they were told last.
    pub(crate) fn tell_watchers(&mut self, base: &mut Base) {
        if self.watchers.is_empty() {
            return;
        }
        let now = paths_now(base);
        let changes = changes(&self.known, &now);
        self.known = now;
        for (id, change, seen) in changes {
            let event = path_event(&base.core, id, change, &seen);
            for control in self.watchers.clone() {
                base.core.reply(control, Reply::Path(event.clone()));
            }
        }
    }
}

fn paths_now(base: &Base) -> Known {
    let all = base.ids().into_iter().filter_map(|id| Some((id, base.core.status_of(id)?)));
    let paths = all.flat_map(|(id, status)| {
        status.paths.into_iter().map(move |path| {
            let (own, peers) = (path.policy, path.peer_policy);
            ((id, path.id), Seen { addr: path.addr, state: path.state, own, peers })
        })
    });
    paths.collect()
}

fn path_event(core: &Core, id: AssociationId, event: PathChange, seen: &Seen) -> PathEvent {
    PathEvent {
        event,
        pid: std::process::id(),
        association: id.0,
        local: seen.addr.local,
        remote: seen.addr.remote,
        interface: core.locals.interface(seen.addr.local.ip()).to_owned(),
        state: path_state_name(seen.state).to_owned(),
        policy: policy(seen.own),
        peer_policy: policy(seen.peers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(state: PathState, cost: u16) -> Seen {
        let addr = PathAddr {
            local: "10.0.0.1:9899".parse().unwrap(),
            remote: "10.0.0.2:9899".parse().unwrap(),
        };
        let own = PathPolicy { cost, ..PathPolicy::default() };
        Seen { addr, state, own, peers: PathPolicy::default() }
    }

    fn told(before: Option<Seen>, after: Option<Seen>) -> Vec<PathChange> {
        let known = |seen: Option<Seen>| -> Known {
            seen.into_iter().map(|seen| ((AssociationId(1), PathId(0)), seen)).collect()
        };
        let all = changes(&known(before), &known(after));
        all.into_iter().map(|(_, change, _)| change).collect()
    }

    #[test]
    fn every_change_has_its_event() {
        use PathChange::{Added, Confirmed, Inactive, Policy, Removed, Suspended};
        let new = seen(PathState::Unconfirmed, 0);
        let active = seen(PathState::Active, 0);
        assert_eq!(told(None, Some(new)), [Added]);
        assert_eq!(told(None, Some(active)), [Added, Confirmed]);
        assert_eq!(told(Some(new), Some(active)), [Confirmed]);
        let suspended = seen(PathState::PotentiallyFailed, 0);
        assert_eq!(told(Some(active), Some(suspended)), [Suspended]);
        assert_eq!(told(Some(suspended), Some(seen(PathState::Inactive, 4))), [Inactive, Policy]);
        assert_eq!(told(Some(active), None), [Removed]);
        assert_eq!(told(Some(active), Some(active)), []);
        let mut elsewhere = active;
        elsewhere.addr.local = "10.9.0.1:9899".parse().unwrap();
        assert_eq!(told(Some(active), Some(elsewhere)), [Added, Confirmed, Removed]);
    }
}
