//! A host that registers at relays, so that others reach it there by its key.

use super::super::onward::{association_with, relays};
use super::super::serve::refuse_datagrams;
use super::{Carrier, Rendezvous};
use crate::attempt::{Attempts, relays_at};
use crate::base::Base;
use crate::base::by_key::{self, PORT};
use crate::log;
use crate::timers::Timer;
use manypath_engine::{AssociationId, Duration};
use manypath_flow::Refusal;
use manypath_rules::Options;
use manypath_trust::is_key_address;
use std::net::{Ipv4Addr, SocketAddr};
use tracing::{info, warn};

/// How often it is looked whether the relay is still there, and how long one may take to answer.
const LOOK: Duration = Duration::from_secs(3);

impl Rendezvous {
    /// The sockets are open.
    pub(crate) fn begin_registering(&self, base: &mut Base) {
        if base.core.config.carrying.register.is_none() {
            return;
        }
        match by_key::begin(base) {
            Ok(()) => base.core.in_next_turn(Timer::Register),
            Err(why) => warn!(target: log::STACK, "this host is registered at no relay: {why}"),
        }
    }

    /// Asks the next relay, unless one has said that this host is registered.
    pub(crate) fn register(&mut self, base: &mut Base, attempts: &Attempts) {
        let Some(via) = base.core.config.carrying.register.filter(|_| base.core.phase.takes_work())
        else {
            return;
        };
        base.core.after(LOOK, Timer::Register);
        // A relay that was left because all its paths had failed may answer again before the next one has registered.
        let mut known = [self.home, self.registered].into_iter().flatten();
        if let Some(home) = known.find(|id| is_registered(base, *id)) {
            self.home = Some(home);
            return;
        }
        if self.asked.is_some() && !std::mem::replace(&mut self.warned, true) {
            let pause = LOOK.as_secs();
            warn!(target: log::STACK,
                "this host is registered at no relay yet: {via} is asked every {pause} s (`manypath doctor RELAY`)");
        }
        let unbound = Ipv4Addr::UNSPECIFIED.into();
        let options = Options::default();
        let mut relays = relays_at(attempts, &base.core, via);
        // The one that was asked last has had its time, and comes last.
        if let Some(last) = relays.iter().position(|relay| self.asked == Some(*relay)) {
            relays.rotate_left(last + 1);
        }
        let begun = relays.into_iter().find_map(|relay| {
            let association = association_with(base, relay, unbound, &options).ok()?;
            Some((association, relay))
        });
        let before = std::mem::replace(&mut self.home, begun.map(|(id, _)| id));
        // Should it register this host yet, nobody would be called by it.
        let before = before.filter(|id| self.registered != Some(*id));
        before.into_iter().for_each(|id| super::keep(base, id, false));
        self.asked = begun.map(|(_, relay)| relay);
    }

    /// The relay may have said meanwhile that it is one.
    pub(super) fn follow_home(&mut self, base: &mut Base) {
        let Some(id) = self.home else { return };
        let Some(association) = base.get(&id) else {
            self.home = None;
            return;
        };
        if association.mux.is_registered() {
            super::keep(base, id, true);
            if self.registered != Some(id) {
                let before = self.registered.replace(id);
                before.into_iter().for_each(|id| super::keep(base, id, false));
                self.warned = false;
                base.core.count("own_registrations");
                info!(target: log::STACK, "registered at the relay {}", base.core.peer_name(id));
            }
            return;
        }
        if !base.is_established(id) || base.keys.holds(id) {
            return;
        }
        if relays(base, id) == Some(true)
            && let Some(association) = base.get_mut(&id)
            && association.mux.register()
        {
            base.touch(id);
        }
    }

    /// Whether a relay asks for this host on behalf of another one.
    pub(in super::super) fn is_call(
        &self,
        base: &Base,
        id: AssociationId,
        destination: SocketAddr,
    ) -> bool {
        let own = base.core.scopes.own_key();
        let is_own = own == Some(destination.ip()) && destination.port() == PORT;
        is_own && self.home == Some(id)
    }

    pub(in super::super) fn answer_call(
        &mut self,
        base: &mut Base,
        (id, flow): Carrier,
        source: SocketAddr,
    ) {
        if !base.core.phase.serves_peers() || !is_key_address(source.ip()) {
            return refuse_datagrams(base, id, flow, Refusal::NotAllowed, "calls_refused");
        }
        let remote = SocketAddr::new(source.ip(), PORT);
        let leg = self.begin_leg(base, (id, flow), remote);
        base.with_datagrams(id, |datagrams| {
            datagrams.set_lifetime(flow, super::LIFETIME);
            datagrams.accept(flow);
        });
        self.on_called(base, leg, remote);
        base.core.count("calls_answered");
    }
}

/// Whether the relay at the other end of the association calls this host, as far as is known.
fn is_registered(base: &Base, id: AssociationId) -> bool {
    let is_named = base.get(&id).is_some_and(|association| association.mux.is_registered());
    is_named && base.is_established(id) && !super::has_failed(base, id)
}
