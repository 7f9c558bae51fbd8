//! A peer's flow to a listener becomes a connection in its accept queue.

use super::{Led, kernel_table};
use crate::allow::{self, Denied};
use crate::association::{DialId, RelayId};
use crate::connection::RelayEnd;
use crate::dial;
use crate::log;
use crate::stack::Stack;
use manypath_control::Reply;
use manypath_engine::{AssociationId, PathState};
use manypath_flow::{FlowId, Refusal};
use manypath_rules::{Options, Policy, Protocol};
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use tracing::debug;

/// A connection that is about to be made.
#[derive(Debug)]
pub(crate) struct Injection {
    association: AssociationId,
    flow: FlowId,
    to: SocketAddr,
    client: SocketAddr,
    options: Options,
    socket: Socket,
    launchers: Vec<u64>,
    /// Those of them that have not taken note of it yet and must.
    unaware: Vec<u64>,
    from: SocketAddr,
}

impl Injection {
    pub(super) fn is_for(&self, launcher: u64) -> bool {
        self.launchers.contains(&launcher)
    }

    /// A launcher has taken note of a connection.
    pub(super) fn note(&mut self, launcher: u64, from: SocketAddr, to: SocketAddr) {
        if (self.from, self.to) == (from, to) {
            self.unaware.retain(|one| *one != launcher);
        }
    }
}

/// What a flow to a listener comes to.
enum Verdict {
    /// These launchers vouch for every socket that may get it.
    Covered { launchers: Vec<u64>, inodes: Vec<u64>, client: SocketAddr, options: Options },
    /// A rule, or `--allow`, opens the service whoever listens there.
    Dial(Options),
    /// Nobody listens any more.
    Nobody,
}

impl Stack {
    /// A peer asks for `destination`, where a listener was announced.
    pub(crate) fn on_incoming_to_listener(
        &mut self,
        id: AssociationId,
        flow: FlowId,
        destination: SocketAddr,
        source: SocketAddr,
    ) {
        let service = allow::canonical(destination);
        match self.judge(id, service, source) {
            Ok(Verdict::Covered { launchers, inodes, client, options }) => {
                self.listeners.count_led(&inodes);
                match announced_socket(service) {
                    Ok((socket, from)) => {
                        let (to, client) = (service, with_port(client, from));
                        let redirectors = self.control.redirectors();
                        let unaware = launchers.iter().filter(|one| redirectors.contains(one));
                        let unaware: Vec<u64> = unaware.copied().collect();
                        let (association, way) = (id, self.way_of_flow(id, flow));
                        for launcher in &unaware {
                            self.reply(*launcher, Reply::WayFrom { from, to, way });
                        }
                        for launcher in &launchers {
                            self.reply(*launcher, Reply::Arriving { from, to, client });
                        }
                        self.lead(Injection {
                            association,
                            unaware,
                            from,
                            flow,
                            to,
                            client,
                            options,
                            socket,
                            launchers,
                        });
                    }
                    Err(error) => self.refuse_dial(id, flow, service, &error),
                }
            }
            Ok(Verdict::Dial(options)) => self.dial(id, flow, service, source, options),
            Ok(Verdict::Nobody) => {
                self.forget_closed_listeners();
                let refused = io::Error::from_raw_os_error(libc::ECONNREFUSED);
                self.refuse_dial(id, flow, service, &refused);
            }
            Err(denied) => {
                debug!(target: log::CONNECTION,
                    "association {}: {service} not dialled: {denied}", id.0);
                self.refuse(id, flow, Refusal::NotAllowed, denied.counter());
            }
        }
    }

    fn judge(
        &self,
        id: AssociationId,
        service: SocketAddr,
        source: SocketAddr,
    ) -> Result<Verdict, Denied> {
        let loopback = self.config.loopback_paths;
        allow::check_address(service.ip(), &self.local_addresses(id), loopback)?;
        let (policy, options) = self.rules.listener(service);
        if policy == Policy::Disable {
            return Err(Denied::NotListed);
        }
        if !self.is_form_open(id, &options) {
            return Err(Denied::Form);
        }
        let inodes = kernel_table::takers(service).map_err(|_| Denied::NotCovered)?;
        if inodes.is_empty() {
            return Ok(Verdict::Nobody);
        }
        let Some(launchers) = self.listeners.launchers_of(&inodes) else {
            return match allow::open_service(Protocol::Tcp, service, &self.rules) {
                Some(options) if !self.config.door => Ok(Verdict::Dial(options)),
                Some(_) | None => Err(Denied::NotCovered),
            };
        };
        let client = self.true_client(id, service, source).ok_or(Denied::NoClientAddress)?;
        Ok(Verdict::Covered { launchers, inodes, client, options })
    }

    /// The client's address: the one that its program is bound to, if the association was verified
    /// there; else the far end of the path to the address that was asked for, or of another path of
    /// the same family. Only the port is what the peer's side says.
    fn true_client(
        &self,
        id: AssociationId,
        service: SocketAddr,
        source: SocketAddr,
    ) -> Option<SocketAddr> {
        let status = self.driver.endpoint().status(self.now, id)?;
        let verified = |path: &&manypath_engine::PathStatus| {
            let remote = path.addr.remote.ip().to_canonical();
            path.state != PathState::Unconfirmed && remote.is_ipv4() == service.is_ipv4()
        };
        let paths: Vec<_> = status.paths.iter().filter(verified).collect();
        let remote = |path: &manypath_engine::PathStatus| path.addr.remote.ip().to_canonical();
        let said = source.ip().to_canonical();
        let bound = paths.iter().find(|path| remote(path) == said);
        let here = paths.iter().find(|path| path.addr.local.ip().to_canonical() == service.ip());
        let primary = paths.iter().find(|path| path.primary);
        let path = bound.or(here).or(primary).or(paths.first())?;
        Some(SocketAddr::new(remote(path), source.port()))
    }

    /// Makes the connection, once every launcher has been told of it: a program must not accept it
    /// before its launcher knows for whom it stands.
    fn lead(&mut self, injection: Injection) {
        let aware = |launcher: &u64| {
            self.control.has_heard(*launcher) && !injection.unaware.contains(launcher)
        };
        if !injection.launchers.iter().all(aware) {
            return self.listeners.delayed.push_back(injection);
        }
        let Injection { association, flow, from, to, client, options, socket, launchers, .. } =
            injection;
        let known = self.associations.get(&association);
        if known.is_none_or(|known| known.mux.status(flow).is_none()) {
            self.counters.count("dials_dropped");
            return self.tell_left(&launchers, from, to);
        }
        let connected = own_address(&socket).and_then(|from| {
            dial::begin(&socket, to)?;
            Ok(from)
        });
        match connected {
            Ok(from) => {
                let id = DialId(self.next_id());
                self.listeners.add_led(id.0, Led { from, to, client, launchers });
                self.start_dial(id, association, flow, (client, to), options, socket.into());
            }
            Err(error) => {
                self.tell_left(&launchers, from, to);
                self.refuse_dial(association, flow, to, &error);
            }
        }
    }

    /// Lets those who have heard of a connection forget it: it is over, or has not come about.
    fn tell_left(&mut self, launchers: &[u64], from: SocketAddr, to: SocketAddr) {
        for launcher in launchers {
            self.reply(*launcher, Reply::Left { from, to });
        }
    }

    /// A redirector has gone, or goes. Its programs would take the peers that were led to them for this host.
    pub(crate) fn leave_listeners(&mut self, redirector: u64) {
        if self.listeners.forget_launcher(redirector) {
            self.listen_direct();
        }
        self.drop_led(redirector);
    }

    fn drop_led(&mut self, redirector: u64) {
        for injection in self.listeners.take_delayed(redirector) {
            let (id, flow) = (injection.association, injection.flow);
            self.tell_left(&injection.launchers, injection.from, injection.to);
            self.refuse(id, flow, Refusal::NotAllowed, Denied::NotCovered.counter());
        }
        for relay in self.listeners.led_by(redirector) {
            if self.dials.contains_key(&DialId(relay)) {
                self.refuse_uncovered(DialId(relay));
            } else {
                self.break_relay(RelayId(relay), RelayEnd::Nameless);
            }
        }
    }

    /// Makes the connections whose launchers have heard of them by now.
    pub(crate) fn lead_delayed(&mut self) {
        for injection in std::mem::take(&mut self.listeners.delayed) {
            self.lead(injection);
        }
    }

    /// A connection that was led to a listener is over, or has not come about.
    pub(crate) fn on_led_over(&mut self, relay: RelayId) {
        let Some(led) = self.listeners.remove_led(relay.0) else { return };
        self.tell_left(&led.launchers, led.from, led.to);
    }
}

/// A socket at the address that it is going to connect to, so that the connection never leaves this
/// host, and its own address.
fn announced_socket(to: SocketAddr) -> io::Result<(Socket, SocketAddr)> {
    let socket = dial::socket_at(Some(SocketAddr::new(to.ip(), 0)), to)?;
    let from = own_address(&socket)?;
    Ok((socket, from))
}

fn own_address(socket: &Socket) -> io::Result<SocketAddr> {
    let own = socket.local_addr()?.as_socket();
    own.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

/// The client's port where its side gives none: its program's socket was not bound when it asked.
fn with_port(client: SocketAddr, from: SocketAddr) -> SocketAddr {
    if client.port() == 0 { SocketAddr::new(client.ip(), from.port()) } else { client }
}
