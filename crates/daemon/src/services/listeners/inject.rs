//! A peer's flow to a listener becomes a connection in its accept queue.

use super::Led;
use crate::allow::{self, Denied};
use crate::base::{Base, proven};
use crate::core::Core;
use crate::ids::{DialId, RelayId};
use crate::relays::{RelayEnd, Relays};
use crate::services::Services;
use crate::services::dial::{self, Incoming};
use crate::socket::{begin, exclusive_socket};
use crate::timers::Timer;
use manypath_control::Reply;
use manypath_engine::{AssociationId, Duration, Instant};
use manypath_flow::{FlowId, Refusal};
use manypath_rules::{Options, Policy, Protocol, Query};
use socket2::Socket;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// How long launchers may take to take note of a connection. The peer's program has plain TCP long before.
const LIMIT: Duration = Duration::from_secs(2);

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
    pub(super) peer: Option<IpAddr>,
    until: Instant,
}

impl Injection {
    pub(super) const fn of(&self) -> (AssociationId, &Options) {
        (self.association, &self.options)
    }

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
    Dial { client: SocketAddr, options: Options },
    /// Nobody listens any more.
    Nobody,
}

impl Services {
    /// A peer asks for a service where a listener was announced.
    pub(crate) fn on_incoming_to_listener(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        incoming: Incoming,
    ) {
        let Incoming { association: id, flow, destination: service, .. } = incoming;
        match self.judge(base, relays, &incoming) {
            Ok(Verdict::Covered { launchers, inodes, client, options }) => {
                self.listeners.count_led(&inodes);
                match announce_client(base, &incoming, client, launchers, options) {
                    Ok(injection) if all_know_of(&base.core, &injection) => {
                        self.inject(base, injection)
                    }
                    Ok(injection) => self.delay(base, injection),
                    Err(error) => dial::refuse_dial(base, id, flow, service, &error),
                }
            }
            Ok(Verdict::Dial { client, options }) => {
                self.dial(base, relays, (id, flow), service, client, options)
            }
            Ok(Verdict::Nobody) => {
                self.forget_closed_listeners(base);
                let refused = io::Error::from_raw_os_error(libc::ECONNREFUSED);
                dial::refuse_dial(base, id, flow, service, &refused);
            }
            Err(denied) => self.deny(base, incoming, denied),
        }
    }

    fn judge(
        &mut self,
        base: &Base,
        relays: &Relays,
        incoming: &Incoming,
    ) -> Result<Verdict, Denied> {
        let Incoming { association: id, destination: service, source, .. } = *incoming;
        let loopback = base.core.config.loopback_paths;
        let who = proven::client_of(base, id);
        let query = Query::local(Protocol::Tcp, service, Some(&who));
        let locals = base.core.reachable_locals(id, query);
        allow::check_address(service.ip(), &locals, loopback)?;
        let (policy, options) = base.core.rules.listener(service, query.client);
        if policy == Policy::Disable {
            return Err(Denied::NotListed);
        }
        allow::check_encryption(&options, query.client)?;
        dial::check_form(base, id, &options)?;
        self.check_limit(base, relays, id, &options)?;
        let found = self.listeners.table.matching_listeners(base.core.now, service);
        let inodes = found.ok_or(Denied::NotCovered)?;
        if inodes.is_empty() {
            return Ok(Verdict::Nobody);
        }
        let client = base.core.verified_client(id, service, source);
        // An address that stands for a key may be of the other family.
        let client = client.filter(|client| client.is_ipv4() == service.is_ipv4());
        let client = client.ok_or(Denied::NoClientAddress);
        if let Some(launchers) = self.listeners.launchers_of(&inodes) {
            return Ok(Verdict::Covered { launchers, inodes, client: client?, options });
        }
        match allow::open_service(query, &base.core.rules) {
            Some(options) if !base.core.config.process.listeners_only => {
                Ok(Verdict::Dial { client: client?, options })
            }
            Some(_) | None => Err(Denied::NotCovered),
        }
    }

    /// Makes the connection.
    fn inject(&mut self, base: &mut Base, injection: Injection) {
        let Injection { association, flow, from, to, client, options, socket, launchers, .. } =
            injection;
        let known = base.get(&association);
        if known.is_none_or(|known| known.mux.status(flow).is_none()) {
            base.core.count("dials_dropped");
            return tell_left(&mut base.core, &launchers, from, to);
        }
        let connected = own_address(&socket).and_then(|from| {
            begin(&socket, to)?;
            Ok(from)
        });
        match connected {
            Ok(from) => {
                let id = DialId(base.core.next_id());
                self.listeners.add_led(id.0, Led { from, to, launchers });
                let ends = (client, to);
                self.start_dial(base, id, (association, flow), ends, options, socket.into());
            }
            Err(error) => {
                tell_left(&mut base.core, &launchers, from, to);
                dial::refuse_dial(base, association, flow, to, &error);
            }
        }
    }

    fn delay(&mut self, base: &mut Base, injection: Injection) {
        if self.is_room_to_delay(injection.peer) {
            base.core.timers.set(injection.until, Timer::Delayed);
            return self.listeners.delayed.push_back(injection);
        }
        tell_left(&mut base.core, &injection.launchers, injection.from, injection.to);
        super::super::waiting::refuse_to_wait(base, injection.association, injection.flow);
    }

    /// Gives up the connections of which a launcher takes no note.
    pub(crate) fn give_up_delayed(&mut self, base: &mut Base) {
        let now = base.core.now;
        let all = std::mem::take(&mut self.listeners.delayed);
        let (late, waiting): (VecDeque<_>, _) = all.into_iter().partition(|one| now >= one.until);
        self.listeners.delayed = waiting;
        for Injection { association, flow, launchers, from, to, .. } in late {
            tell_left(&mut base.core, &launchers, from, to);
            base.refuse(association, flow, Refusal::Busy, "dial_denied_launcher_silent");
        }
    }

    /// A redirector has gone, or goes. Its programs would take the peers that were led to them for this host.
    pub(crate) fn leave_listeners(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        redirector: u64,
    ) {
        if self.listeners.forget_launcher(redirector) {
            self.listen_direct(base);
        }
        self.drop_led(base, relays, redirector);
    }

    fn drop_led(&mut self, base: &mut Base, relays: &mut Relays, redirector: u64) {
        for injection in self.listeners.take_delayed(redirector) {
            let (id, flow) = (injection.association, injection.flow);
            tell_left(&mut base.core, &injection.launchers, injection.from, injection.to);
            base.refuse(id, flow, Refusal::NotAllowed, Denied::NotCovered.counter());
        }
        for relay in self.listeners.led_by(redirector) {
            if self.dials.contains_key(&DialId(relay)) {
                self.refuse_uncovered(base, DialId(relay));
            } else {
                let ended = relays.break_off(base, RelayId(relay), RelayEnd::Nameless);
                self.on_relay_over(base, ended);
            }
        }
    }

    /// Makes the connections whose launchers have heard of them by now.
    pub(crate) fn inject_delayed(&mut self, base: &mut Base) {
        for injection in std::mem::take(&mut self.listeners.delayed) {
            if all_know_of(&base.core, &injection) {
                self.inject(base, injection);
            } else {
                self.listeners.delayed.push_back(injection);
            }
        }
    }

    /// A connection that was led to a listener is over, or has not come about.
    pub(crate) fn on_led_over(&mut self, base: &mut Base, relay: RelayId) {
        let Some(led) = self.listeners.remove_led(relay.0) else { return };
        tell_left(&mut base.core, &led.launchers, led.from, led.to);
    }
}

/// Tells launchers for whom a connection is going to stand.
fn announce_client(
    base: &mut Base,
    incoming: &Incoming,
    client: SocketAddr,
    launchers: Vec<u64>,
    options: Options,
) -> io::Result<Injection> {
    let Incoming { association, flow, destination: to, .. } = *incoming;
    // Nobody else may come from there before we do, and be taken for the client.
    let socket = exclusive_socket(to)?;
    let from = own_address(&socket)?;
    let client = with_port(client, from);
    let redirectors = base.core.control.redirectors();
    let unaware = launchers.iter().filter(|one| redirectors.contains(one));
    let unaware: Vec<u64> = unaware.copied().collect();
    let way = base.way_of_flow(association, flow);
    for launcher in &unaware {
        base.core.reply(*launcher, Reply::WayFrom { from, to, way });
    }
    for launcher in &launchers {
        base.core.reply(*launcher, Reply::Arriving { from, to, client });
    }
    let (peer, until) = (base.core.peer_ip(association), base.core.now + LIMIT);
    Ok(Injection {
        association,
        unaware,
        from,
        flow,
        to,
        client,
        options,
        socket,
        launchers,
        peer,
        until,
    })
}

/// Whether every launcher has been told of a connection: a program must not accept it before its launcher
/// knows for whom it stands.
fn all_know_of(core: &Core, injection: &Injection) -> bool {
    let knows =
        |launcher: &u64| core.control.has_heard(*launcher) && !injection.unaware.contains(launcher);
    injection.launchers.iter().all(knows)
}

/// Lets those who have heard of a connection forget it: it is over, or has not come about.
fn tell_left(core: &mut Core, launchers: &[u64], from: SocketAddr, to: SocketAddr) {
    for launcher in launchers {
        core.reply(*launcher, Reply::Left { from, to });
    }
}

fn own_address(socket: &Socket) -> io::Result<SocketAddr> {
    let own = socket.local_addr()?.as_socket();
    own.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

/// The client's port where its side gives none: its program's socket was not bound when it asked.
fn with_port(client: SocketAddr, from: SocketAddr) -> SocketAddr {
    if client.port() == 0 { SocketAddr::new(client.ip(), from.port()) } else { client }
}
