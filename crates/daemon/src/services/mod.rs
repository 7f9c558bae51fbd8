//! The server side: what peers ask for, and the services of this host that serve it.

mod dial;
mod limits;
mod listeners;
mod onward;
mod speed;
mod translated;
mod waiting;

pub(crate) use dial::{Dial, Incoming, connect};
pub(crate) use listeners::{ListenerId, kernel_table};
pub(crate) use onward::OnwardRoom;
pub use onward::{RelayConfig, RelayTo, RelayToError};

use crate::allow::Denied;
use crate::association::{DialId, RelayId};
use crate::attempt::{AttemptId, Control};
use crate::base::Base;
use crate::doors::DoorNews;
use crate::parameters;
use crate::relays::{Moved, Relays};
use listeners::Listeners;
use manypath_control::{Reply, Way};
use manypath_engine::AssociationId;
use manypath_flow::{FlowId, Refusal};
use manypath_rules::{Encrypt, Options};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use waiting::WaitingFlows;

/// Services of this host, and peers' flows to them.
#[derive(Debug, Default)]
pub(crate) struct Services {
    dials: BTreeMap<DialId, Dial>,
    pub(crate) listeners: Listeners,
    /// Flows of peers that are answered a little later.
    waiting: WaitingFlows,
    /// What receives datagrams on this host.
    udp_receivers: crate::datagrams::KernelTable,
    /// Flows that lead beyond this host.
    pub(crate) onward: OnwardRoom,
    speed: speed::SpeedRoom,
}

impl Services {
    pub(crate) fn dial_of(&self, id: &DialId) -> Option<&Dial> {
        self.dials.get(id)
    }

    /// Connections that are being made.
    pub(crate) fn dials(&self) -> usize {
        self.dials.len()
    }

    /// A connection has ended: its launcher may ask what it has moved.
    pub(crate) fn note_traffic(&self, base: &mut Base, id: RelayId, moved: &Moved) {
        let client = base.core.control.client_of(AttemptId(id.0));
        let launcher = match client.map(|client| (client.control, client.id)) {
            Some((Control::Doors, id)) => {
                let news = DoorNews::Moved(id, moved.carrier, (moved.sent, moved.got));
                return base.core.control.tell_doors(news);
            }
            Some((Control::Line(launcher), _)) => Some(launcher),
            Some((Control::Onward, _)) => None,
            None => self.listeners.launcher_of(id.0),
        };
        if let Some(traffic) = launcher.and_then(|id| base.core.control.traffic_mut(id)) {
            moved.add_to(traffic);
        }
    }

    /// Tells the launcher that a relay of its is over.
    pub(crate) fn report_closed(&mut self, base: &mut Base, relay: RelayId) {
        self.on_led_over(base, relay);
        if let Some(client) = base.core.control.client_of(AttemptId(relay.0)) {
            base.core.control.forget(client);
            base.core.reply(client.control, Reply::Closed { id: client.id });
        }
    }

    /// Lets peers begin such associations with the services that the rules open, and with listeners.
    pub(crate) fn listen_direct(&self, base: &mut Base) {
        if !base.core.config.accept {
            return;
        }
        // The endpoint itself accepts at the port of a gateway.
        if base.core.config.gateway.is_some() {
            return;
        }
        // Native programs do not encrypt.
        if base.core.config.encrypt == Encrypt::Require {
            return base.core.driver.endpoint_mut().listen(Vec::new());
        }
        let parameters = parameters::of_direct(&base.core.config, base.core.config.profile);
        let rules = if base.core.config.process.listeners_only {
            Vec::new()
        } else {
            base.core.rules.direct_ports()
        };
        let ports = rules.into_iter().chain(self.listener_ports(base));
        let listeners = ports.map(|ports| (ports, parameters.clone())).collect();
        base.core.driver.endpoint_mut().listen(listeners);
    }

    /// Connects to the service for an association, at its first address or the next after `failed`;
    /// whether there is one.
    pub(crate) fn dial_service(
        &mut self,
        base: &mut Base,
        association: AssociationId,
        flow: FlowId,
        source: SocketAddr,
        failed: Option<SocketAddr>,
    ) -> bool {
        let all = base.core.services().to_vec();
        let after = |failed| all.iter().position(|one| *one == failed).map(|at| at + 1);
        let first = failed.map_or(Some(0), after).unwrap_or(all.len());
        for (number, address) in all.iter().enumerate().skip(first) {
            let Some(client) = base.core.verified_peer(association, *address, source) else {
                let why = Denied::NoClientAddress.counter();
                base.refuse(association, flow, Refusal::Busy, why);
                return true;
            };
            match dial::connect(None, *address, false) {
                Ok(fd) => {
                    let dial = DialId(base.core.next_id());
                    let ends = (client, *address);
                    let options = Options::default();
                    self.start_dial(base, dial, (association, flow), ends, options, fd);
                    return true;
                }
                Err(error) if number + 1 == all.len() => {
                    dial::refuse_dial(base, association, flow, *address, &error);
                    return true;
                }
                Err(_) => base.core.count("dials_tried_elsewhere"),
            }
        }
        false
    }

    /// The way to the client of a connection that was led to a listener.
    pub(crate) fn way_from(
        &self,
        base: &Base,
        relays: &Relays,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Option<Way> {
        let id = self.listeners.relay_between(from, to)?;
        let dial = || self.dials.get(&DialId(id)).map(Dial::flow);
        let dialled = || dial().and_then(|(association, flow)| base.way_of_flow(association, flow));
        relays.way_of(base, RelayId(id)).or_else(dialled)
    }
}
