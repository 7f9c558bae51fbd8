//! What launchers say about listeners, and the door through which peers come to them.

use super::{Known, Listeners};
use crate::base::Base;
use crate::core::Core;
use crate::ids::ListenerId;
use crate::log;
use crate::phase::Phase;
use crate::services::Services;
use crate::timers::Timer;
use manypath_control::{Listener, Reply, runtime};
use manypath_engine::Duration;
use std::ops::RangeInclusive;
use tracing::{debug, info};

/// How often listeners are looked for that have gone.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Listeners of one launcher at most.
const MAX_LISTENERS: usize = 4096;

/// Why this stack is not there for the peers of a listener, and whether another stack, or this one later, may be.
pub(crate) type NotServed = (String, bool);

/// The answer to a launcher that has announced a listener.
pub(crate) fn offered(id: u64, served: Result<(), NotServed>) -> Reply {
    match served {
        Ok(()) => Reply::Offered { id },
        Err((why, retry)) => Reply::NotOffered { id, why, retry },
    }
}

impl Listeners {
    /// Whether one more may be announced.
    pub(crate) fn has_room(&self) -> Result<(), NotServed> {
        match self.known.len() < MAX_LISTENERS {
            true => Ok(()),
            false => Err((format!("there are {MAX_LISTENERS} already"), false)),
        }
    }

    /// Whether listeners wait for the sockets to be opened.
    pub(crate) fn need_sockets(&self, base: &Base) -> bool {
        let mut known = self.known.values();
        !base.core.locals.is_open()
            && known.any(|known| base.core.rules.may_offer(known.listener.addr))
    }

    /// The ports of listeners that native programs may reach as far as that does not depend on the
    /// address that they use.
    pub(crate) fn ports(&self, base: &Base) -> Vec<RangeInclusive<u16>> {
        let known = self.known.values().map(|known| &known.listener);
        let open = known.filter(|listener| base.core.rules.may_offer(listener.addr));
        open.map(|listener| listener.addr.port()..=listener.addr.port()).collect()
    }

    pub(crate) fn on_tally(&mut self, id: ListenerId, plain: u64) {
        if let Some(known) = self.known.get_mut(&id) {
            known.plain = plain;
        }
    }
}

impl Services {
    /// A launcher announces a listener. `served`: whether this stack is there for peers that may reach it.
    pub(crate) fn on_listen(
        &mut self,
        base: &mut Base,
        id: ListenerId,
        listener: Listener,
        served: Result<(), NotServed>,
    ) {
        if let Err((why, retry)) = served {
            base.core.count("listeners_not_offered");
            info!(target: log::STACK, "listener {} of {}: {why}", listener.addr, listener.program);
            return base.core.reply(id.control, offered(id.id, Err((why, retry))));
        }
        let is_open = base.core.rules.may_offer(listener.addr);
        let word = if is_open { "open to peers" } else { "closed by a rule" };
        info!(target: log::STACK, "listener {} of {}: {word}", listener.addr, listener.program);
        self.listeners.known.insert(id, Known { listener, sctp: 0, plain: 0 });
        self.watch_listeners(base);
        self.listen_direct(base);
        let open = if is_open { Ok(()) } else { Err(("a rule".to_owned(), false)) };
        base.core.reply(id.control, offered(id.id, open));
    }

    /// Forgets listeners that have gone; names the door if that is still to be done, and the name not another process's.
    pub(crate) fn on_listeners_timer(&mut self, base: &mut Base, is_succeeded: bool) {
        self.listeners.watched = false;
        self.forget_closed_listeners(base);
        let is_served = base.core.config.accept && base.core.locals.is_open();
        if is_served && !base.core.control.has_door() && !is_succeeded {
            self.name_door(base);
        }
        if !self.listeners.known.is_empty() {
            self.watch_listeners(base);
        }
    }

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

    /// The launcher cannot vouch for it any more.
    pub(crate) fn on_withdraw(&mut self, base: &mut Base, id: ListenerId) {
        if self.listeners.known.remove(&id).is_some() {
            base.core.count("listeners_withdrawn");
            self.listen_direct(base);
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

/// Whether peers may be served at all, and if it is `wanted` whether sockets must be opened for that.
pub(crate) fn may_serve(base: &mut Base, wanted: bool) -> Result<bool, NotServed> {
    if !base.core.config.accept {
        return Err(("this stack does not serve".to_owned(), true));
    }
    if base.core.config.loops() > 1 {
        let why = "the server has several engine loops: start it without --loops";
        return Err((why.to_owned(), false));
    }
    resume(&mut base.core);
    if !base.core.phase.takes_work() {
        return Err(("the stack that serves is ending".to_owned(), true));
    }
    Ok(wanted && !base.core.locals.is_open())
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
