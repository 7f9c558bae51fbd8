//! Tests of speed that peers ask for: of those whose key is authorized, and of those for whom a rule opens the port.

use super::Services;
use super::dial::{self, Incoming};
use crate::allow::{self, Denied};
use crate::base::Base;
use crate::base::proven::{self, PeerId};
use crate::ids::DialId;
use crate::relays::Relays;
use crate::speed::{self, PathView};
use crate::status::idle_reason;
use manypath_engine::AssociationId;
use manypath_flow::Refusal;
use manypath_rules::{Options, Protocol, Query};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

/// Tests of all peers of an engine loop at a time, each with a thread.
const MAX_TESTS: usize = 8;
/// Of one peer: one, a question about it, and one that is just ending.
const MAX_OF_PEER: usize = 3;

/// The tests at work. Each lives as long as its thread.
#[derive(Debug, Default)]
pub(crate) struct SpeedRoom {
    tests: Vec<(PeerId, Weak<()>)>,
}

impl SpeedRoom {
    /// Room for a test of the peer, as long as that lives.
    fn enter(&mut self, peer: PeerId) -> Option<Arc<()>> {
        self.tests.retain(|(_, test)| test.strong_count() > 0);
        let own = self.tests.iter().filter(|(other, _)| *other == peer).count();
        if self.tests.len() >= MAX_TESTS || own >= MAX_OF_PEER {
            return None;
        }
        let test = Arc::new(());
        self.tests.push((peer, Arc::downgrade(&test)));
        Some(test)
    }
}

impl Services {
    /// A peer asks for the port that stands for this stack.
    pub(super) fn answer_speed(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        incoming: Incoming,
    ) {
        let Incoming { association: id, flow, destination, source, .. } = incoming;
        let admitted = self.admit_speed(base, relays, &incoming).and_then(|options| {
            let client = base.core.verified_client(id, destination, source);
            Ok((client.ok_or(Denied::NoClientAddress)?, options))
        });
        let (client, options) = match admitted {
            Ok(admitted) => admitted,
            Err(denied) => return self.deny(base, incoming, denied),
        };
        let Some(room) = self.speed.enter(PeerId::of(base, id)) else {
            return base.refuse(id, flow, Refusal::Busy, "speed_tests_too_many");
        };
        match begin(room, base.core.config.loops() == 1, views(base, id)) {
            Ok((fd, at)) => {
                base.core.count("speed_tests");
                let dial = DialId(base.core.next_id());
                self.start_dial(base, dial, (id, flow), (client, at), options, fd);
                self.check_dial(base, relays, dial);
            }
            Err(error) => dial::refuse_dial(base, id, flow, destination, &error),
        }
    }

    fn admit_speed(
        &self,
        base: &Base,
        relays: &Relays,
        incoming: &Incoming,
    ) -> Result<Options, Denied> {
        let (id, destination) = (incoming.association, incoming.destination);
        let who = proven::client_of(base, id);
        let query = Query::local(Protocol::Tcp, destination, Some(&who));
        let locals = base.core.reachable_locals(id, query);
        let loopback = base.core.config.loopback_paths;
        let options = match allow::admit(query, &locals, &base.core.rules, loopback) {
            Ok((_, options)) => options,
            Err(Denied::NotListed)
                if base.keys.is_authorized(id) && !base.core.rules.excludes(query) =>
            {
                Options::default()
            }
            Err(denied) => return Err(denied),
        };
        self.check_limit(base, relays, id, &options)?;
        Ok(options)
    }
}

/// What this end knows of the paths, as sender.
fn views(base: &Base, id: AssociationId) -> Vec<PathView> {
    let paths = base.core.paths_of(id).into_iter();
    let view = |path: manypath_engine::PathStatus| PathView {
        remote: path.addr.remote.ip(),
        packets_sent: path.packets_sent,
        retransmits: path.fast_retransmits + path.timeouts,
        idle: path.idle.map(idle_reason),
    };
    paths.map(view).collect()
}

/// Begins the thread; returns the stack's end of a connection to it.
fn begin(room: Arc<()>, one_loop: bool, paths: Vec<PathView>) -> io::Result<(OwnedFd, SocketAddr)> {
    let (near, far) = manypath_net::loopback_pair()?;
    let at = far.local_addr()?;
    near.set_nonblocking(true)?;
    let thread = std::thread::Builder::new().name("speed".to_owned());
    thread.spawn(move || {
        speed::serve(far, one_loop, paths);
        drop(room);
    })?;
    Ok((near.into(), at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn one_peer_leaves_room_for_others_and_all_are_bounded() {
        let mut room = SpeedRoom::default();
        let peer = |number| PeerId::Address(Some(Ipv4Addr::new(192, 0, 2, number).into()));
        let mut enter = |number| room.enter(peer(number));
        let first: Vec<_> = (0..4).filter_map(|_| enter(1)).collect();
        assert_eq!(first.len(), MAX_OF_PEER);
        let others: Vec<_> = (2..20).filter_map(&mut enter).collect();
        assert_eq!(first.len() + others.len(), MAX_TESTS);
        drop(first);
        assert!(enter(1).is_some());
    }
}
