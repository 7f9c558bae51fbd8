//! Local addresses that come, go and lose their link while associations are in use.
//!
//! The kernel says when to look (netlink), and what there is is compared with what is open. Where no
//! netlink socket is permitted, and in case that news were lost, it is looked at now and then anyway.

use crate::attempt::Attempts;
use crate::base::Base;
use crate::config::Encapsulation;
use crate::core::Core;
use crate::locals::{Local, addresses, is_wanted};
use crate::log;
use crate::peers::Peers;
use crate::relays::Relays;
use crate::timers::Timer;
use crate::token::Source;
use manypath_engine::{AddressChange, AssociationId, Duration, Instant, ReconfigurationOutcome};
use manypath_net::{Interface, LocalBinding, NetworkWatch};
use manypath_rules::Network;
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use tracing::{info, warn};

/// How often addresses are looked at although nothing was heard of them.
const RESCAN_INTERVAL: Duration = Duration::from_secs(30);
/// The same where nothing can be heard.
const DEAF_RESCAN_INTERVAL: Duration = Duration::from_secs(2);
/// The same while there is none at all: a host that has just begun has links that come up.
const FIRST_SCAN_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two looks, whatever is heard: a router may have much to say.
const SCAN_PAUSE: Duration = Duration::from_millis(20);

/// The same where only routes have changed: those of a router change all the time.
const ROUTES_PAUSE: Duration = Duration::from_secs(2);

/// What is heard of the host's network.
#[derive(Debug, Default)]
pub(crate) struct Uplinks {
    watch: Option<NetworkWatch>,
    /// When addresses were looked at last.
    scanned: Instant,
    /// A look is planned because something was heard.
    planned: bool,
}

fn open_watch(registry: &Registry) -> io::Result<NetworkWatch> {
    let watch = NetworkWatch::open()?;
    let token = Source::Network.token();
    registry.register(&mut SourceFd(&watch.as_raw_fd()), token, Interest::READABLE)?;
    Ok(watch)
}

impl Uplinks {
    /// From now on the addresses of the host are followed.
    pub(crate) fn watch_network(&mut self, base: &mut Base) {
        match open_watch(&base.core.registry) {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => {
                warn!(target: log::STACK, "changes of addresses are noticed late: netlink: {error}");
                base.core.count("network_watches_refused");
            }
        }
        base.core.timers.set(base.core.now, Timer::Rescan);
    }

    /// The kernel has something to say.
    pub(crate) fn on_network_news(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        relays: &mut Relays,
    ) {
        let Some(watch) = &mut self.watch else { return };
        let news = watch.take();
        if news.routes {
            base.core.count("route_changes_heard");
            base.core.driver.endpoint_mut().probe_failed_paths(base.core.now);
        }
        // A gateway makes an uplink of a bridge.
        let pause = match news.addresses {
            true => SCAN_PAUSE,
            false => ROUTES_PAUSE,
        };
        if news.is_empty() || self.planned && !news.addresses {
            return;
        }
        let next = self.scanned + pause;
        if next <= base.core.now {
            self.follow_addresses(base, attempts, relays);
        } else {
            self.planned = true;
            base.core.timers.set(next, Timer::Network);
        }
    }

    pub(crate) fn on_network_timer(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        relays: &mut Relays,
    ) {
        self.planned = false;
        self.follow_addresses(base, attempts, relays);
    }

    pub(crate) fn on_rescan_timer(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        relays: &mut Relays,
    ) {
        let interval = match (&self.watch, base.core.locals.open.is_empty()) {
            (Some(_), _) => RESCAN_INTERVAL,
            (None, true) => FIRST_SCAN_INTERVAL,
            (None, false) => DEAF_RESCAN_INTERVAL,
        };
        base.core.after(interval, Timer::Rescan);
        self.follow_addresses(base, attempts, relays);
    }

    /// Brings sockets and associations up to date with the addresses of the host. What has gone sends
    /// no more before what has come is offered to the peers: so an association whose only address has
    /// changed moves at once.
    fn follow_addresses(&mut self, base: &mut Base, attempts: &mut Attempts, relays: &mut Relays) {
        self.scanned = base.core.now;
        let Ok(interfaces) = manypath_net::interfaces() else {
            return base.core.count("interface_scans_failed");
        };
        base.core.locals.own = addresses(&interfaces);
        base.core.locals.failed.retain(|addr| interfaces.iter().any(|one| one.addr == *addr));
        base.core.refresh_scopes(&interfaces);
        follow_links(&mut base.core, &interfaces);
        let gone = self.close_gone(base, relays, &interfaces);
        let before = base.core.locals.open.len();
        for interface in &interfaces {
            // New addresses are the successor's.
            let wanted =
                is_wanted(&base.core.config.locals, interface) && !base.core.phase.is_succeeded();
            if wanted && base.core.locals.is_new(interface) {
                add_local(&mut base.core, interface);
            }
        }
        if !gone.is_empty() || base.core.locals.open.len() > before {
            attempts.peers.forget_near_and_tell(&mut base.core, None);
            attempts.peers.notice_networks(&base.core);
        }
        for local in gone {
            base.core
                .driver
                .endpoint_mut()
                .remove_local_address(base.core.now, local.address.addr.ip());
        }
    }

    /// Closes the sockets of addresses that are not there any more. Nothing is sent from there; the
    /// peers have not been told yet.
    fn close_gone(
        &self,
        base: &mut Base,
        relays: &mut Relays,
        interfaces: &[Interface],
    ) -> Vec<Local> {
        let there = |local: &Local| {
            local.address.addr.ip().is_loopback() || interfaces.iter().any(|one| local.is_at(one))
        };
        let gone = base.core.locals.open.iter().filter(|local| !there(local));
        let gone: Vec<IpAddr> = gone.map(|local| local.address.addr.ip()).collect();
        gone.into_iter().for_each(|local| relays.keep_loads_of(base, local));
        let (open, gone): (Vec<_>, _) =
            std::mem::take(&mut base.core.locals.open).into_iter().partition(there);
        base.core.locals.open = open;
        for local in &gone {
            let ip = local.address.addr.ip();
            base.core.config.say_once(format_args!("{ip} has gone from {}", local.interface));
            base.core.count("addresses_gone");
            base.core.driver.endpoint_mut().suspend_local_address(base.core.now, ip);
            for socket in local.sockets() {
                base.core.driver.unbind(base.core.now, Source::Local(socket).token());
            }
        }
        note_fixed(&mut base.core, gone.len());
        gone
    }
}

impl Peers {
    /// The networks of the addresses in use, for what is remembered of peers in them.
    pub(crate) fn notice_networks(&mut self, core: &Core) {
        let locals = core.locals.open.iter().map(|local| &local.address);
        // Of IPv6 no more than a site keeps.
        let locals = locals.map(|local| (local.addr.ip(), local.prefix_len.min(64)));
        let networks: BTreeSet<_> = locals.map(|(addr, len)| Network::around(addr, len)).collect();
        let mut hasher = DefaultHasher::new();
        networks.hash(&mut hasher);
        self.set_network(hasher.finish());
    }
}

impl Base {
    /// The peer has changed its addresses. Connections to one that it has no more are not its own.
    pub(crate) fn on_peer_address(
        &mut self,
        peers: &mut Peers,
        id: AssociationId,
        address: IpAddr,
        change: AddressChange,
    ) {
        self.core.count("address_changes_of_peers");
        if change == AddressChange::Added {
            let known = self.core.living_addresses(id);
            known
                .into_iter()
                .for_each(|addr| peers.forget_near_and_tell(&mut self.core, Some(addr)));
        }
        if change == AddressChange::Removed {
            self.disown(id, address);
        }
        let what = change_name(change);
        info!(target: log::ASSOCIATION, "association {}: the peer's {address} has {what}", id.0);
    }
}

/// Links go down and come up under addresses that stay.
fn follow_links(core: &mut Core, interfaces: &[Interface]) {
    let endpoint = core.driver.endpoint_mut();
    for local in &mut core.locals.open {
        let Some(interface) = interfaces.iter().find(|one| local.is_at(one)) else { continue };
        if interface.up == local.up {
            continue;
        }
        local.up = interface.up;
        let (ip, name) = (interface.addr, &interface.name);
        if local.up {
            core.config.say_once(format_args!("{name} is up again: using {ip}"));
            core.counters.count("links_up");
            endpoint.announce_local_address(core.now, local.address);
        } else {
            core.config.say_once(format_args!("{name} has no link: {ip} waits"));
            core.counters.count("links_down");
            endpoint.suspend_local_address(core.now, ip);
        }
    }
}

fn add_local(core: &mut Core, interface: &Interface) {
    match bind_local(core, interface) {
        Ok(local) => {
            let Interface { addr, name, .. } = interface;
            core.config.say_once(format_args!("using {addr} ({name})"));
            core.count("addresses_come");
            core.driver.endpoint_mut().announce_local_address(core.now, local.address);
            core.locals.keep(local);
            note_fixed(core, 1);
        }
        Err(error) => {
            warn!(target: log::STACK, "{} is not used: {error}", interface.addr);
            core.count("addresses_not_usable");
            // An address that is just coming can be bound a moment later: the next scan tries again.
            if error.kind() != io::ErrorKind::AddrNotAvailable {
                core.locals.failed.insert(interface.addr);
            }
        }
    }
}

/// Opens a socket at the port of the others, or at the last one that there was.
fn bind_local(core: &mut Core, interface: &Interface) -> io::Result<Local> {
    let socket = core.locals.next_socket();
    let token = Source::Local(socket).token();
    let mut binding = LocalBinding::from(interface);
    if core.config.encapsulation == Encapsulation::Native {
        let address = core.driver.bind_native(&core.registry, token, &binding)?;
        return Ok(Local::new(address, interface, socket));
    }
    let fixed = core.config.udp_port != 0;
    binding.addr.set_port(core.locals.udp_port());
    let bound = core.driver.bind(&core.registry, token, binding.clone());
    let address = match bound {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && !fixed => {
            // Somebody else has taken it meanwhile. Paths may have ports of their own.
            binding.addr.set_port(0);
            core.driver.bind_anywhere(&core.registry, token, &binding)?
        }
        other => other?,
    };
    let mut local = Local::new(address, interface, socket);
    crate::carriers::bind_at(core, &mut local, &binding);
    Ok(local)
}

/// The peer has said what it thinks of a changed address of ours.
pub(crate) fn on_address_answer(
    core: &mut Core,
    id: AssociationId,
    address: IpAddr,
    (change, outcome): (AddressChange, ReconfigurationOutcome),
) {
    let said = match outcome {
        ReconfigurationOutcome::Performed => "the peer knows",
        ReconfigurationOutcome::Denied | ReconfigurationOutcome::Failed => "the peer refuses",
    };
    core.count(match outcome {
        ReconfigurationOutcome::Performed => "address_changes_told",
        ReconfigurationOutcome::Denied | ReconfigurationOutcome::Failed => {
            "address_changes_refused"
        }
    });
    let what = change_name(change);
    info!(target: log::ASSOCIATION, "association {}: {said} that {address} has {what}", id.0);
}

/// Addresses have changed: not every peer can be told.
fn note_fixed(core: &mut Core, changes: usize) {
    let fixed = core.driver.endpoint().fixed_addresses();
    if changes > 0 && fixed > 0 {
        core.count("address_changes_not_told");
        info!(target: log::STACK,
            "{fixed} associations go on with the addresses they have: \
             their peers do not take changes (RFC 5061)"
        );
    }
}

const fn change_name(change: AddressChange) -> &'static str {
    match change {
        AddressChange::Added => "come",
        AddressChange::Removed => "gone",
        AddressChange::MadePrimary => "become the preferred one",
    }
}
