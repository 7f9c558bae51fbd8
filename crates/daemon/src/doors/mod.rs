//! Doors: where connections come in of programs and hosts that no launcher can intercept. They go on as a program's
//! connect under `manypath run` would.
//!
//! ```text
//! SOCKS5, HTTP CONNECT ──▶ talk ──▶ name? ─▶ threads ──▶ attempt ──▶ "granted" ──▶ relay
//! TPROXY (a LAN) ─────────▶ the destination is the socket's own address ──▶ attempt ──▶ relay
//! ```
//!
//! Who comes from another host must not use this one as a way to itself: its own addresses, loopback and link-local
//! ones are closed to such clients.

mod client;
mod hosts;
mod lan_packets;
mod lan_udp;
mod listen;
mod talk;
mod udp;

pub use listen::{listen_transparently, receive_transparently};

use crate::accept::{accept, refuse};
use crate::allow::meanings;
use crate::attempt::{Attempts, unspecified_like};
use crate::base::Base;
use crate::config::Users;
use crate::control_server::DoorNews;
use crate::core::Core;
use crate::datagrams::{Datagrams, Program};
use crate::ids::{Client, Control, RelayId};
use crate::log;
use crate::relays::Relays;
use crate::timers::Timer;
use crate::token::Source;
use client::DoorClient;
use hosts::Hosts;
use manypath_control::Reply;
use manypath_control::status::DoorHostStatus;
use manypath_engine::Duration;
use manypath_rules::Network;
use mio::Interest;
use mio::net::TcpListener;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tracing::warn;
use udp::UdpRoom;

/// How long a client of a proxy may take to say where it wants to go.
const TALK_TIME: Duration = Duration::from_secs(10);

/// The doors at work; there may be none.
#[derive(Debug, Default)]
pub(crate) struct DoorRoom {
    clients: Vec<Network>,
    users: Option<Arc<Users>>,
    max_clients: usize,
    doors: Vec<Door>,
    talking: BTreeMap<u64, DoorClient>,
    /// Those whose connections are carried, and their hosts.
    carried: BTreeMap<u64, IpAddr>,
    hosts: Hosts,
    /// Clients that send datagrams.
    udp: UdpRoom,
    dns: Option<SocketAddr>,
    /// For people.
    label: String,
}

#[derive(Debug)]
struct Door {
    listener: TcpListener,
    is_proxy: bool,
}

impl DoorRoom {
    /// Begins to take clients in, if the settings have doors.
    pub(crate) fn begin(core: &mut Core) -> io::Result<Self> {
        let Some(doors) = core.config.doors.take() else { return Ok(Self::default()) };
        let label = doors.to_string();
        let proxies = doors.proxies.into_iter().map(|one| (one, true));
        let lans = doors.lans.into_iter().map(|(_, one)| (one, false));
        let mut all = Vec::new();
        for ((listener, is_proxy), index) in proxies.chain(lans).zip(0..) {
            listener.set_nonblocking(true)?;
            let mut listener = TcpListener::from_std(listener);
            let token = Source::DoorListener(index).token();
            core.registry.register(&mut listener, token, Interest::READABLE)?;
            all.push(Door { listener, is_proxy });
        }
        let mut udp = UdpRoom::default();
        let who = (doors.clients.clone(), doors.dns);
        udp.open_lans(core, (doors.lan_datagrams, doors.tun), who)?;
        tracing::info!(target: log::STACK, "carrying connections of {label}");
        Ok(Self {
            udp,
            dns: doors.dns,
            clients: doors.clients,
            users: doors.users.map(Arc::new),
            max_clients: doors.max_clients,
            doors: all,
            label,
            ..Self::default()
        })
    }

    /// Whether there is a door.
    pub(crate) fn is_open(&self) -> bool {
        !self.doors.is_empty()
    }

    /// Whether nobody waits for a connection.
    pub(crate) fn is_empty(&self) -> bool {
        self.talking.is_empty()
    }

    /// Takes nobody in any more: what the kernel leads to a network's door goes its own way from now on.
    pub(crate) fn close(&mut self) {
        self.doors.clear();
        self.udp.lans.close();
    }

    /// Takes in clients, so many in one turn.
    pub(crate) fn accept(&mut self, base: &mut Base, attempts: &mut Attempts) {
        let listeners = self.doors.iter().map(|door| (&door.listener, door.is_proxy));
        let (timer, delayed) = (Timer::DoorListeners, "door_clients_not_taken_in");
        for (fd, peer, is_proxy) in accept(&mut base.core, listeners, timer, delayed) {
            self.on_client(base, attempts, fd, peer, is_proxy);
        }
    }

    fn on_client(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        fd: OwnedFd,
        peer: SocketAddr,
        is_proxy: bool,
    ) {
        let host = peer.ip();
        let welcome = host.is_loopback()
            || self.clients.is_empty()
            || self.clients.iter().any(|network| network.contains(host));
        let refused = if !welcome {
            Some("door_clients_refused_address")
        } else if self.talking.len() + self.carried.len() + self.udp.len() >= self.max_clients {
            Some("door_clients_refused_too_many")
        } else {
            None
        };
        if let Some(reason) = refused {
            // Strangers must not fill the table of hosts.
            if welcome {
                self.hosts.of(host).refused += 1;
            }
            return refuse(&mut base.core, &fd, peer, reason);
        }
        let id = base.core.next_id();
        let users = self.users.clone();
        match DoorClient::new(fd, peer, is_proxy.then_some(users), id, &base.core.registry) {
            Ok(client) => {
                base.core.count("door_clients");
                self.talking.insert(id, client);
                if is_proxy {
                    base.core.after(TALK_TIME, Timer::DoorClient(id));
                } else {
                    self.try_next(base, attempts, id);
                }
            }
            Err(error) => {
                base.core.count("door_clients_not_taken_in");
                warn!(target: log::CONNECTION, "client {peer}: {error}");
            }
        }
    }

    /// A connection has ended, after so many bytes sent and received.
    fn on_moved(&mut self, id: u64, carried: bool, (sent, got): (u64, u64)) {
        let Some(host) = self.carried.get(&id) else { return };
        let counts = self.hosts.of(*host);
        *(if carried { &mut counts.carried } else { &mut counts.plain }) += 1;
        counts.sent += sent;
        counts.received += got;
    }

    /// What each host has had.
    pub(crate) fn host_statuses(&self, core: &Core, relays: &Relays) -> Vec<DoorHostStatus> {
        let moved = |id: u64| {
            let relay = core.control.attempt(of_door(id))?;
            relays.bytes_of(RelayId(relay.0))
        };
        let open = self.carried.iter().map(|(id, host)| (*host, moved(*id).unwrap_or_default()));
        self.hosts.status(&open.collect::<Vec<_>>())
    }

    /// Asks for the ways to destinations of datagrams; whether there were any.
    fn ask_for_datagrams(
        &mut self,
        base: &mut Base,
        attempts: &Attempts,
        datagrams: &mut Datagrams,
    ) -> bool {
        let mut any = false;
        while let Some((id, destination)) = self.udp.next_wanted() {
            any = true;
            let source = unspecified_like(destination);
            datagrams.on_open(base, attempts, of_door(id), destination, source);
        }
        for id in self.udp.take_dropped() {
            datagrams.cancel(base, of_door(id));
        }
        any
    }

    /// Hears what became of the connections that the doors have asked for; whether there was anything.
    pub(crate) fn serve(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        relays: &mut Relays,
        datagrams: &mut Datagrams,
    ) -> bool {
        let mut any = false;
        while let Some(news) = base.core.control.next_door_news() {
            any = true;
            match news {
                DoorNews::Reply(reply) if self.udp.has_flow(&reply) => {
                    if let Some((id, addr, fd)) = self.udp.on_reply(base, &mut self.hosts, &reply) {
                        let program = Program { addr, inode: None, connected: true };
                        datagrams.on_attach(base, of_door(id), program, fd);
                    }
                }
                DoorNews::Reply(Reply::Unreachable { id }) => self.udp.tell_unreachable(base, id),
                DoorNews::Moved(id, carried, bytes) => self.on_moved(id, carried, bytes),
                DoorNews::Reply(Reply::Closed { id }) => drop(self.carried.remove(&id)),
                DoorNews::Reply(Reply::Direct { id, .. }) => self.look_up(base, attempts, id),
                DoorNews::Reply(Reply::Failed { id, errno }) => {
                    self.on_failed(base, attempts, id, errno);
                }
                DoorNews::Reply(Reply::Accepted { id, local, .. }) => {
                    if let Some(fd) = self.on_accepted(base, attempts, id, local) {
                        attempts.on_attach(base, relays, of_door(id), fd);
                    }
                }
                DoorNews::Reply(_) => {}
            }
        }
        self.ask_for_datagrams(base, attempts, datagrams) || any
    }

    /// A socket for datagrams of a client may have something, or `timer`: it has had its time.
    pub(crate) fn on_datagrams(&mut self, base: &mut Base, id: u64, timer: bool) {
        let Self { udp, hosts, .. } = self;
        match timer {
            true => udp.on_timer(base, hosts, id),
            false => udp.on_socket(base, hosts, id),
        }
    }

    /// The name of a datagram's destination has been looked up.
    pub(crate) fn on_datagram_name(&mut self, base: &mut Base, id: u64, addresses: &[IpAddr]) {
        self.udp.on_addresses(base, &mut self.hosts, id, addresses);
    }

    /// What comes in at the doors, for people; nothing if there are none.
    pub(crate) fn label(&self) -> Option<&str> {
        Some(self.label.as_str()).filter(|label| !label.is_empty())
    }

    /// Resets the clients that still wait.
    pub(crate) fn end(&mut self, base: &Base) {
        self.close();
        self.udp.end_all();
        for client in std::mem::take(&mut self.talking).into_values() {
            client.reset(&base.core.registry);
        }
    }
}

/// Whether clients at `host` may reach `destination` by a door, whatever it is taken for on the way. `is_own` tells
/// whether an address is one of this host.
fn may_reach(host: IpAddr, destination: IpAddr, is_own: impl Fn(IpAddr) -> bool) -> bool {
    // An address of this host may itself map to IPv4, such as 6to4.
    let as_it_is = Some(destination.to_canonical()).filter(|address| is_own(*address));
    meanings(destination).into_iter().chain(as_it_is).all(|destination| {
        let (local, nowhere) = match destination {
            IpAddr::V4(ip) => {
                let local = ip.is_loopback() || ip.is_link_local();
                (local, ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast())
            }
            IpAddr::V6(ip) => {
                let local = ip.is_loopback() || ip.is_unicast_link_local();
                (local, ip.is_unspecified() || ip.is_multicast())
            }
        };
        !nowhere && (host.is_loopback() || !(local || is_own(destination)))
    })
}

const fn of_door(id: u64) -> Client {
    Client { control: Control::Doors, id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_on_another_host_does_not_reach_this_one_or_its_links() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let (near, far) = (ip("127.0.0.1"), ip("192.168.1.7"));
        for nowhere in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"] {
            assert!(
                !may_reach(near, ip(nowhere), |_| false) && !may_reach(far, ip(nowhere), |_| false)
            );
        }
        for local in [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "169.254.169.254",
            "fe80::1",
            "::ffff:127.0.0.1",
            "64:ff9b::127.0.0.1",
        ] {
            assert!(
                may_reach(near, ip(local), |_| false) && !may_reach(far, ip(local), |_| false),
                "{local}"
            );
        }
        assert!(
            may_reach(far, ip("192.0.2.1"), |_| false)
                && may_reach(far, ip("2001:db8::1"), |_| false)
        );
        assert!(
            !may_reach(far, ip("192.0.2.1"), |_| true)
                && may_reach(near, ip("192.0.2.1"), |_| true)
        );
        let own = ip("2002:c000:201::1");
        assert!(!may_reach(far, own, |one| one == own) && may_reach(far, own, |_| false));
    }
}
