//! What launchers say about listeners, and the door through which peers come to them.

use super::{Known, ListenerId};
use crate::base::Base;
use crate::core::Core;
use crate::drain::Phase;
use crate::log;
use crate::services::Services;
use crate::stack::Stack;
use crate::timers::Timer;
use manypath_control::{Listener, Reply, runtime};
use manypath_engine::Duration;
use std::io;
use std::ops::RangeInclusive;
use tracing::{debug, info, warn};

/// How often listeners are looked for that have gone.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Listeners of one launcher at most.
const MAX_LISTENERS: usize = 4096;

impl Stack {
    /// A launcher announces a listener.
    pub(crate) fn on_listen(&mut self, id: ListenerId, listener: Listener) {
        if let Err((why, retry)) = self.try_to_offer(&listener) {
            self.base.core.count("listeners_not_offered");
            info!(target: log::STACK, "listener {} of {}: {why}", listener.addr, listener.program);
            return self.base.core.reply(id.control, Reply::NotOffered { id: id.id, why, retry });
        }
        let offered = self.base.core.rules.may_offer(listener.addr);
        let word = if offered { "open to peers" } else { "closed by a rule" };
        info!(target: log::STACK, "listener {} of {}: {word}", listener.addr, listener.program);
        self.services.listeners.known.insert(id, Known { listener, sctp: 0, plain: 0 });
        self.services.watch_listeners(&mut self.base);
        self.services.listen_direct(&mut self.base);
        let reply = match offered {
            true => Reply::Offered { id: id.id },
            false => Reply::NotOffered { id: id.id, why: "a rule".to_owned(), retry: false },
        };
        self.base.core.reply(id.control, reply);
    }

    /// Programs may listen at any time: peers are to find this stack before.
    pub(crate) fn on_expect(&mut self, id: ListenerId) {
        let reply = match self.try_to_serve(self.base.core.rules.may_offer_some()) {
            Ok(()) => Reply::Offered { id: id.id },
            Err((why, retry)) => Reply::NotOffered { id: id.id, why, retry },
        };
        self.base.core.reply(id.control, reply);
    }

    fn try_to_offer(&mut self, listener: &Listener) -> Result<(), (String, bool)> {
        if self.services.listeners.known.len() >= MAX_LISTENERS {
            return Err((format!("there are {MAX_LISTENERS} already"), false));
        }
        self.try_to_serve(self.base.core.rules.may_offer(listener.addr))
    }

    /// Is there for peers, if that is `wanted`. The reason against it, and whether another stack, or this
    /// one later, may do it.
    fn try_to_serve(&mut self, wanted: bool) -> Result<(), (String, bool)> {
        if !self.base.core.config.accept {
            return Err(("this stack does not serve".to_owned(), true));
        }
        if self.base.core.config.loops() > 1 {
            let why = "the server has several engine loops: start it without --loops";
            return Err((why.to_owned(), false));
        }
        resume(&mut self.base.core);
        if !self.base.core.phase.takes_work() {
            return Err(("the stack that serves is ending".to_owned(), true));
        }
        if self.base.core.locals.is_open() || !wanted {
            return Ok(());
        }
        self.open_sockets().map_err(|error| {
            let busy = error.kind() == io::ErrorKind::AddrInUse;
            (error.to_string(), busy)
        })
    }

    /// Forgets listeners that have gone; names the door if that is still to be done.
    pub(crate) fn on_listeners_timer(&mut self) {
        self.services.listeners.watched = false;
        self.services.forget_closed_listeners(&mut self.base);
        let is_served = self.base.core.config.accept && self.base.core.locals.is_open();
        if is_served && !self.base.core.control.has_door() && !self.succession.has_begun() {
            self.services.name_door(&mut self.base);
        }
        if !self.services.listeners.known.is_empty() {
            self.services.watch_listeners(&mut self.base);
        }
    }

    /// After a change of the rules: the door is opened for listeners that are open now.
    pub(crate) fn review_listeners(&mut self) {
        let wanted = self
            .services
            .listeners
            .known
            .values()
            .any(|known| self.base.core.rules.may_offer(known.listener.addr));
        if !wanted || self.base.core.locals.is_open() {
            return;
        }
        if let Err(error) = self.open_sockets() {
            self.base.core.count("doors_not_opened");
            warn!(target: log::STACK, "listening sockets stay plain TCP: {error}");
        }
    }
}

impl Services {
    /// Lets launchers find this stack by the UDP port that it owns.
    pub(crate) fn name_door(&mut self, base: &mut Base) {
        let (Some(directory), Ok(namespace)) =
            (&base.core.config.process.runtime_dir, runtime::network_namespace())
        else {
            return;
        };
        let (port, index) = (base.core.config.udp_port, base.core.config.loop_index());
        let path = runtime::loop_door_path(directory, namespace, port, index);
        if let Err(error) = base.core.control.open_door(&path, &base.core.registry) {
            // The one before us is just ending, or another stack serves other addresses.
            base.core.count("doors_not_named");
            debug!(target: log::STACK, "{}: {error}", path.display());
            self.watch_listeners(base);
        }
        base.core.name_for_programs();
    }

    /// The ports of listeners that native programs may reach as far as that does not depend on the
    /// address that they use.
    pub(crate) fn listener_ports(&self, base: &Base) -> Vec<RangeInclusive<u16>> {
        let known = self.listeners.known.values().map(|known| &known.listener);
        let open = known.filter(|listener| base.core.rules.may_offer(listener.addr));
        open.map(|listener| listener.addr.port()..=listener.addr.port()).collect()
    }

    /// The launcher cannot vouch for it any more.
    pub(crate) fn on_withdraw(&mut self, base: &mut Base, id: ListenerId) {
        if self.listeners.known.remove(&id).is_some() {
            base.core.count("listeners_withdrawn");
            self.listen_direct(base);
        }
    }

    pub(crate) fn on_tally(&mut self, id: ListenerId, plain: u64) {
        if let Some(known) = self.listeners.known.get_mut(&id) {
            known.plain = plain;
        }
    }

    fn watch_listeners(&mut self, base: &mut Base) {
        if !std::mem::replace(&mut self.listeners.watched, true) {
            base.core.after(WATCH_INTERVAL, Timer::Listeners);
        }
    }

    pub(super) fn forget_closed_listeners(&mut self, base: &mut Base) {
        let Some(living) = self.listeners.table.inodes(base.core.now) else {
            return base.core.count("listener_tables_unreadable");
        };
        let gone = |(id, known): (&ListenerId, &Known)| {
            (!living.contains(&known.listener.inode)).then_some(*id)
        };
        let gone: Vec<ListenerId> = self.listeners.known.iter().filter_map(gone).collect();
        if gone.is_empty() {
            return;
        }
        for id in gone {
            self.listeners.known.remove(&id);
            base.core.reply(id.control, Reply::Gone { id: id.id });
        }
        self.listen_direct(base);
    }
}

impl Core {
    /// Lets launchers of programs find a server that carries them, too.
    fn name_for_programs(&mut self) {
        let Some(path) = self.config.process.programs.clone() else { return };
        if let Err(error) = self.control.open_for_programs(&path, &self.registry) {
            // They start stacks of their own meanwhile.
            self.count("programs_not_named");
            debug!(target: log::STACK, "{}: {error}", path.display());
        }
    }
}

/// Launchers have come back before the end.
fn resume(core: &mut Core) {
    if core.config.process.listeners_only
        && matches!(core.phase, Phase::Draining(drain) if drain.is_idle())
    {
        core.phase = Phase::Running;
    }
}
