//! Chains: this relay's own rules, or its setting `via`, lead on by another relay. The connection is asked for as that
//! of a program of this host would be; the two flows are joined by a connection over loopback, which passes on ends and
//! resets alike.

use crate::association::{DialId, RelayId};
use crate::attempt::{Client, Control, Open};
use crate::relays::{Carrier, Ends, Relay};
use crate::socket::Socket;
use crate::stack::Stack;
use crate::token::Source;
use manypath_control::Reply;
use manypath_flow::{HostName, Refusal};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

const fn client(id: DialId) -> Client {
    Client { control: Control::Onward, id: id.0 }
}

/// Asks for a connection to `address` by another relay.
pub(super) fn chain(stack: &mut Stack, id: DialId, address: SocketAddr) {
    let open = open(stack, id, address);
    stack.attempts.on_open(&mut stack.base, client(id), open);
}

fn open(stack: &mut Stack, id: DialId, destination: SocketAddr) -> Open {
    stack.base.core.count("onward_chained");
    let passed = stack.services.onward.all.get(&id.0).map(|one| one.passed).unwrap_or_default();
    Open { blocking: true, passed, ..Open::to(destination) }
}

pub(super) fn chain_by_name(stack: &mut Stack, id: DialId, name: HostName, port: u16) {
    let open = open(stack, id, SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    stack.attempts.on_open_named(&mut stack.base, client(id), open, name);
}

impl Stack {
    /// Takes what was said to this room as to a launcher.
    pub(crate) fn serve_onward(&mut self) {
        for (peer, moved) in self.datagrams.take_ended_onward() {
            self.services.onward.note_end_of(peer, moved);
        }
        for (relay, reason) in self.datagrams.take_failed_relays() {
            self.attempts.note_relay_failure(&self.base, relay, reason);
        }
        loop {
            if let Some(id) = self.services.onward.again.pop_front() {
                super::connect_onward(self, id);
                continue;
            }
            let Some(reply) = self.base.core.to_onward.pop_front() else { return };
            if let Reply::Accepted { id, .. } = reply {
                on_chained(self, DialId(id));
            } else if let Reply::Direct { id, .. } = reply {
                on_unchained(self, DialId(id));
            } else if let Reply::Failed { id, errno } = reply {
                let error = io::Error::from_raw_os_error(errno);
                self.services.on_onward_failed(DialId(id), &error);
            }
        }
    }

    /// Nobody waits for it any more.
    pub(crate) fn cancel_chain(&mut self, id: DialId) {
        if let Some(attempt) = self.base.core.control.attempt(client(id)) {
            self.attempts.cancel(&mut self.base, attempt);
        }
    }
}

/// The way by other relays is closed: this one connects itself.
fn on_unchained(stack: &mut Stack, id: DialId) {
    let Some(one) = stack.services.onward.all.get_mut(&id.0) else { return };
    one.own_way = true;
    match one.current {
        Some(address) => {
            stack.services.dial_onward(&mut stack.base, &mut stack.relays, id, address);
        }
        None => super::begin_onward(stack, id),
    }
}

fn on_chained(stack: &mut Stack, id: DialId) {
    let joined = manypath_net::loopback_pair().and_then(|(near, far)| {
        let token = Source::Relay(id.0).token();
        Ok((Socket::new(near.into(), &stack.base.core.registry, token)?, far))
    });
    let Some(one) = stack.services.onward.all.get(&id.0) else { return };
    let (association, flow) = one.flow;
    let destination = one.current.unwrap_or(SocketAddr::from(([0; 4], one.destination.port())));
    let ends = Ends::From(one.client, destination);
    let Ok((socket, far)) = joined else {
        stack.cancel_chain(id);
        let (base, why) = (&mut stack.base, Refusal::Busy);
        return stack.services.end_onward(base, id, why, "dials_impossible");
    };
    stack.on_attach(client(id), far.into());
    let local = socket.local_addr().unwrap_or_else(|_| SocketAddr::from(([0; 4], 0)));
    if let Some(association) = stack.base.get_mut(&association) {
        association.mux.accept(flow, local);
    }
    stack.base.touch(association);
    let relay = RelayId(id.0);
    let joined = Relay::new(association, flow, socket).with(&super::onward_options(&stack.base));
    stack.relays.start(&mut stack.base, relay, joined);
    stack.relays.begin_connection(&stack.base, relay, ends, Carrier::Sctp(association));
}
