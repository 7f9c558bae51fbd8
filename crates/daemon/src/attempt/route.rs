//! A route that goes while a connect is under way: a TCP connect that has begun goes on without one, until it is
//! back. Plain TCP that takes SCTP's place must not fail because it begins later.

use super::{Attempt, Attempts, ByRelay, Open, Sctp, Tcp};
use crate::base::Base;
use crate::ids::AttemptId;
use crate::timers::Timer;
use manypath_engine::{AssociationId, Duration, Instant};

/// As long as the kernel sends SYNs (`tcp_syn_retries`).
const PATIENCE: Duration = Duration::from_secs(127);
/// Until the next look.
const PAUSE: Duration = Duration::from_millis(200);

impl Attempts {
    /// Whether plain TCP has to wait for the route that was there when the connect began. One that has begun outlasts
    /// its absence itself.
    pub(super) fn waits_for_route(&self, base: &mut Base, id: AttemptId) -> bool {
        let Some(attempt) = self.all.get(&id) else { return false };
        let begins = matches!(attempt.tcp, Tcp::NotStarted) && !attempt.options.is_sctp_only();
        let may_wait = begins && attempt.routed_until.is_some_and(|until| base.core.now < until);
        if !may_wait || has_route(&attempt.open) {
            return false;
        }
        base.core.count("waits_for_route");
        base.core.after(PAUSE, Timer::Route(id));
        true
    }

    /// Whether plain TCP is forbidden now. The kernel's route may be another one than when the connect began. A name
    /// has none: its address is asked about again.
    pub(super) fn is_tcp_forbidden(&mut self, base: &Base, id: AttemptId) -> bool {
        let Some(Attempt { open, options, by_relay, .. }) = self.all.get_mut(&id) else {
            return false;
        };
        if !by_relay.as_ref().is_some_and(ByRelay::is_named) {
            let source = open.source.map(|source| source.ip());
            base.core.hold_to_uplinks(options, open.destination.ip(), source);
        }
        options.is_sctp_only()
    }

    pub(crate) fn on_route_timer(&mut self, base: &mut Base, id: AttemptId) {
        match self.all.get(&id).map(|attempt| attempt.sctp) {
            Some(Sctp::Failed) => self.use_tcp(base, id),
            Some(Sctp::Opening { .. }) => {
                self.on_head_start_timer(base, id);
                self.on_fallback_timer(base, id);
            }
            Some(Sctp::Opened { .. }) | None => {}
        }
    }
}

/// Until when a connect that begins now outlasts a missing route: it fails at once if there never was one. The kernel
/// has just been asked about the route of an association that begins now.
pub(super) fn routed_until(
    base: &Base,
    open: &Open,
    association: AssociationId,
) -> Option<Instant> {
    let begun = base.get(&association).map(|association| association.begun);
    (begun == Some(base.core.now) || has_route(open)).then(|| base.core.now + PATIENCE)
}

fn has_route(open: &Open) -> bool {
    let source = open.source.map(|source| source.ip()).filter(|source| !source.is_unspecified());
    let route = manypath_net::route_to(open.destination.ip(), source, None);
    !route.is_err_and(|error| error.raw_os_error() == Some(libc::ENETUNREACH))
}
