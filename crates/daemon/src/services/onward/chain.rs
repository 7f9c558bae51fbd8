//! Chains: this relay's own rules, or its setting `via`, lead on by another relay. The connection is asked for as that
//! of a program of this host would be; the two flows are joined by a connection over loopback, which passes on ends and
//! resets alike.

use super::OnwardRoom;
use crate::attempt::{Attempts, Open};
use crate::base::Base;
use crate::ids::{Client, Control, DialId, RelayId};
use crate::relays::{Carrier, Ends, Relay, Relays};
use crate::services::Services;
use crate::socket::Socket;
use crate::token::Source;
use manypath_control::Reply;
use manypath_flow::{HostName, Refusal};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

const fn client(id: DialId) -> Client {
    Client { control: Control::Onward, id: id.0 }
}

/// Nobody waits for it any more.
pub(crate) fn cancel_chain(base: &mut Base, attempts: &mut Attempts, id: DialId) {
    attempts.cancel_of(base, client(id));
}

impl OnwardRoom {
    /// Asks for a connection to `address` by another relay.
    pub(super) fn chain(
        &self,
        base: &mut Base,
        attempts: &mut Attempts,
        id: DialId,
        address: SocketAddr,
    ) {
        let open = self.chained_open(base, id, address);
        attempts.on_open(base, client(id), open);
    }

    pub(super) fn chain_by_name(
        &self,
        base: &mut Base,
        attempts: &mut Attempts,
        id: DialId,
        name: HostName,
        port: u16,
    ) {
        let open = self.chained_open(base, id, SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
        attempts.on_open_named(base, client(id), open, name);
    }

    fn chained_open(&self, base: &mut Base, id: DialId, destination: SocketAddr) -> Open {
        base.core.count("onward_chained");
        let passed = self.all.get(&id.0).map(|one| one.passed).unwrap_or_default();
        Open { blocking: true, passed, ..Open::to(destination) }
    }
}

impl Services {
    /// Takes what was said to this room as to a launcher.
    pub(crate) fn serve_onward(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        relays: &mut Relays,
    ) {
        loop {
            if let Some(id) = self.onward.again.pop_front() {
                self.connect_onward(base, attempts, relays, id);
                continue;
            }
            let Some(reply) = base.core.to_onward.pop_front() else { return };
            if let Reply::Accepted { id, .. } = reply {
                self.on_chained(base, attempts, relays, DialId(id));
            } else if let Reply::Direct { id, .. } = reply {
                self.on_unchained(base, attempts, relays, DialId(id));
            } else if let Reply::Failed { id, errno } = reply {
                let error = io::Error::from_raw_os_error(errno);
                self.onward.on_failed(DialId(id), &error);
            }
        }
    }

    /// The way by other relays is closed: this one connects itself.
    fn on_unchained(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        relays: &mut Relays,
        id: DialId,
    ) {
        let Some(one) = self.onward.all.get_mut(&id.0) else { return };
        one.own_way = true;
        match one.current {
            Some(address) => self.dial_onward(base, relays, id, address),
            None => self.begin_onward(base, attempts, relays, id),
        }
    }

    fn on_chained(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        relays: &mut Relays,
        id: DialId,
    ) {
        let joined = manypath_net::loopback_pair().and_then(|(near, far)| {
            let token = Source::Relay(id.0).token();
            Ok((Socket::new(near.into(), &base.core.registry, token)?, far))
        });
        let Some(one) = self.onward.all.get(&id.0) else { return };
        let (association, flow) = one.flow;
        let destination = one.current.unwrap_or(SocketAddr::from(([0; 4], one.destination.port())));
        let ends = Ends::From(one.client, destination);
        let Ok((socket, far)) = joined else {
            cancel_chain(base, attempts, id);
            return self.onward.end(base, id, Refusal::Busy, "dials_impossible");
        };
        attempts.on_attach(base, relays, client(id), far.into());
        let local = socket.local_addr().unwrap_or_else(|_| SocketAddr::from(([0; 4], 0)));
        if let Some(association) = base.get_mut(&association) {
            association.mux.accept(flow, local);
        }
        base.touch(association);
        let relay = RelayId(id.0);
        let joined = Relay::new(association, flow, socket).with(&super::onward_options(base));
        relays.start(base, relay, joined);
        relays.begin_connection(base, relay, ends, Carrier::Sctp(association));
    }
}
