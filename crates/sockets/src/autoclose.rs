//! Associations over which nothing is said for too long end (`SCTP_AUTOCLOSE`, RFC 6458 section 8.1.8).

use crate::send::end;
use crate::structures::sctp_assoc_t;
use crate::table::{Host, SocketId, Sockets};
use manypath_engine::{Duration, Instant};

impl Sockets {
    /// When [`handle_timeout`](Self::handle_timeout) must be called next.
    pub fn timeout(&self) -> Option<Instant> {
        self.idle.first().map(|(at, _, _)| *at)
    }

    /// The time given by [`timeout`](Self::timeout) has come. To be called also when it may have.
    pub fn handle_timeout(&mut self, host: &mut Host<'_>) {
        while let Some((at, id, number)) = self.idle.first().copied().filter(|it| it.0 <= host.now)
        {
            self.idle.remove(&(at, id, number));
            let Some(due) = self.idle_until(id, number) else { continue };
            if due > host.now {
                self.idle.insert((due, id, number));
            } else if let Ok(association) = self.association(id, number) {
                end(host, association.engine);
            }
        }
    }

    /// From now on idle associations of a socket end after this time; never without.
    pub(crate) fn set_autoclose(&mut self, now: Instant, id: SocketId, time: Option<Duration>) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        socket.settings.autoclose = time;
        let open = socket.associations.values_mut().filter(|one| one.streams.is_some());
        let numbers: Vec<_> = open
            .map(|one| {
                one.last_active = now;
                one.id
            })
            .collect();
        numbers.into_iter().for_each(|number| self.watch_idle(id, number));
    }

    /// An association is established, or is to be watched from now on.
    pub(crate) fn watch_idle(&mut self, id: SocketId, number: sctp_assoc_t) {
        if let Some(due) = self.idle_until(id, number) {
            self.idle.insert((due, id, number));
        }
    }

    /// When an association ends unless something is said over it; none if it does not for that.
    fn idle_until(&self, id: SocketId, number: sctp_assoc_t) -> Option<Instant> {
        let socket = self.sockets.get(&id).filter(|socket| !socket.is_one_to_one())?;
        let association = socket.associations.get(&number)?;
        let open = association.closed.is_none() && association.streams.is_some();
        socket.settings.autoclose.filter(|_| open).map(|time| association.last_active + time)
    }
}
