//! The server side: what peers ask for, and the services of this host that serve it.

mod dial;
mod limits;
mod listeners;
mod onward;
mod speed;
mod translated;
mod waiting;

pub(crate) use dial::{Dial, Incoming};
pub(crate) use listeners::{NotServed, may_serve, offered};
pub(crate) use onward::{OnwardRoom, cancel_chain};

use crate::allow::Denied;
use crate::base::Base;
use crate::control_server::DoorNews;
use crate::ids::{AttemptId, Control, DialId, RelayId};
use crate::parameters;
use crate::relays::{Carrier, Ended, Moved, Relays};
use crate::socket::connect;
use listeners::Listeners;
use manypath_control::{Traffic, Way};
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
    udp_receivers: crate::kernel_tables::udp::KernelTable,
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

    /// A relay has ended.
    pub(crate) fn on_relay_over(&mut self, base: &mut Base, Ended { id, moved }: Ended) {
        if let Some(moved) = moved {
            note_traffic(&self.listeners, base, id, &moved);
            self.onward.note_end(id, (moved.sent, moved.got));
        }
        self.on_led_over(base, id);
        base.core.tell_closed(AttemptId(id.0));
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
        let ports = rules.into_iter().chain(self.listeners.ports(base));
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
            match connect(None, *address, false) {
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

    /// All that was carried for a launcher, connections that are open included.
    pub(crate) fn traffic_of(&self, base: &mut Base, relays: &Relays, launcher: u64) -> Traffic {
        let mut traffic = base.core.control.traffic_mut(launcher).cloned().unwrap_or_default();
        let opened =
            base.core.control.attempts_of(launcher).into_iter().map(|(_, id)| RelayId(id.0));
        let led = self.listeners.led_by(launcher).into_iter();
        let led = led.filter(|id| self.listeners.launcher_of(*id) == Some(launcher)).map(RelayId);
        for id in opened.chain(led) {
            let Some(moved) = relays.moved(base, id) else { continue };
            traffic.open += u64::from(matches!(moved.carrier, Carrier::Sctp(_)));
            moved.add_to(&mut traffic);
        }
        traffic
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

/// A connection has ended: its launcher may ask what it has moved.
fn note_traffic(listeners: &Listeners, base: &mut Base, id: RelayId, moved: &Moved) {
    let client = base.core.control.client_of(AttemptId(id.0));
    let launcher = match client.map(|client| (client.control, client.id)) {
        Some((Control::Doors, id)) => {
            let carried = matches!(moved.carrier, Carrier::Sctp(_));
            let news = DoorNews::Moved(id, carried, (moved.sent, moved.got));
            return base.core.control.tell_doors(news);
        }
        Some((Control::Line(launcher), _)) => Some(launcher),
        Some((Control::Onward, _)) => None,
        None => listeners.launcher_of(id.0),
    };
    if let Some(traffic) = launcher.and_then(|id| base.core.control.traffic_mut(id)) {
        moved.add_to(traffic);
    }
}
