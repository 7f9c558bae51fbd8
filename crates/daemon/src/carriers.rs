//! Carriers beside the usual UDP port: where a server listens, and what a client tries where that port is silent.
//!
//! Which of them gets through on a path is found out by the driver, path by path (`crates/net/src/carriers/ways.rs`).

use crate::config::{Encapsulation, StackConfig};
use crate::core::Core;
use crate::locals::Local;
use crate::log;
use crate::privileged;
use crate::tls::{Certificate, Tls};
use crate::token::Source;
use manypath_engine::{LocalAddress, PathAddr};
use manypath_net::{Behind, Carrier, LocalBinding, Proxy, Wrapper};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use tracing::warn;

/// Whether what was said of carriers makes sense, once the settings are known.
///
/// # Errors
/// A certificate is to be shown where no carrier shows one.
pub(crate) fn check(config: &StackConfig) -> io::Result<()> {
    let carrying = &config.carrying;
    // Several loops share one that was made for them.
    let is_given = carrying.tls.certificate.as_ref().is_some_and(Certificate::is_given);
    if !is_given || carrying.carriers.tls_ports().next().is_some() {
        return Ok(());
    }
    let text = "--tls-certificate: no carrier speaks TLS; add --carriers tls:443, or leave out the certificate";
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Begins to use the carriers of the settings. The sockets of the local addresses are open.
pub(crate) fn begin(core: &mut Core) {
    let carriers = core.config.carrying.carriers;
    if core.config.carrying.behind.is_some() && carriers.tls_ports().next().is_none() {
        warn_once(
            core,
            "nothing is passed on by --behind: no carrier speaks TLS, as --carriers tls:443 does",
        );
    }
    if carriers.is_empty() || core.config.encapsulation == Encapsulation::Native {
        return;
    }
    let mut usual = vec![core.config.peer_udp_port, core.config.privileged_port];
    usual.retain(|port| *port != 0);
    let tokens = |id| Source::Carrier(id).token();
    let (by, tls) = ((carriers, proxies(core)), tls(core));
    if let Err(error) = core.driver.carry_by(&core.registry, tokens, usual, by, tls) {
        return warn!(target: log::STACK, "no carriers beside UDP: {error}");
    }
    core.locals.tried = carriers;
    if !core.config.accept {
        return;
    }
    let taken = [Some(core.locals.udp_port()), core.locals.second_port];
    for port in carriers.udp_ports().filter(|port| !taken.contains(&Some(*port))) {
        match bind_everywhere(core, port) {
            Ok(()) => core.locals.carriers.push(Carrier::Udp(port)),
            Err(error) => report(core, Carrier::Udp(port), &error),
        }
    }
    listen(core);
}

/// Where the proxy is, if a carrier needs one: an address of each family.
fn proxies(core: &Core) -> Vec<Proxy> {
    let carrying = &core.config.carrying;
    // A stack for listeners alone dials nobody, and begins in the loop, which is not to wait for names.
    if !carrying.carriers.names_proxy() || core.config.process.listeners_only {
        return Vec::new();
    }
    let named = carrying.proxy.as_ref().map_err(Clone::clone);
    let found = named.and_then(|named| {
        let place = named.place();
        let all = place.to_socket_addrs().map_err(|error| format!("{place}: {error}"))?;
        let (v4, v6): (Vec<_>, Vec<_>) = all.partition(SocketAddr::is_ipv4);
        let one = |addr: &SocketAddr| Proxy::new(*addr, named.credentials());
        Ok([v4.first(), v6.first()].into_iter().flatten().map(one).collect())
    });
    found.unwrap_or_else(|why| {
        warn_once(core, &format!("no proxy carries packets: {why}"));
        Vec::new()
    })
}

/// What makes TLS of connections, if a carrier needs that.
fn tls(core: &Core) -> Option<Arc<dyn Wrapper>> {
    let carrying = &core.config.carrying;
    carrying.carriers.tls_ports().next()?;
    match Tls::new(&carrying.tls) {
        Ok(tls) => Some(Arc::new(tls)),
        Err(error) => {
            warn_once(core, &format!("no carriers inside of TLS: {error}"));
            None
        }
    }
}

/// Accepts connections at the TCP and TLS ports.
pub(crate) fn listen(core: &mut Core) {
    core.locals.carriers.retain(|carrier| matches!(carrier, Carrier::Udp(_)));
    let is_stream = |one: &Carrier| matches!(one, Carrier::Tcp(_) | Carrier::Tls(_));
    core.driver.pass_to(behind(core));
    for at in core.locals.tried.iter().filter(is_stream).filter(|_| core.config.accept) {
        match core.driver.listen(at) {
            Ok(()) => core.locals.carriers.push(at),
            Err(error) => report(core, at, &error),
        }
    }
}

/// The server that shares the TLS ports: not one at such a port of this host, which is ours.
fn behind(core: &Core) -> Option<Behind> {
    let behind = core.config.carrying.behind?;
    let (ip, port) = (behind.addr.ip(), behind.addr.port());
    let is_here = ip.is_loopback() || core.locals.is_own(ip);
    if is_here && core.config.carrying.carriers.tls_ports().any(|ours| ours == port) {
        let text =
            format!("nothing is passed on to {}: that is a carrier of this server", behind.addr);
        warn_once(core, &text);
        return None;
    }
    Some(behind)
}

/// Opens the further sockets of an address that has come: at the privileged port, and those of the carriers.
pub(crate) fn bind_at(core: &mut Core, local: &mut Local, binding: &LocalBinding) {
    if let Some(port) = core.locals.second_port
        && let Err(error) = bind(core, local, binding.clone(), port)
    {
        privileged::report(&core.config, &error);
    }
    for carrier in core.locals.carriers.clone() {
        if let Carrier::Udp(port) = carrier
            && let Err(error) = bind(core, local, binding.clone(), port)
        {
            report(core, carrier, &error);
        }
    }
}

/// At all addresses or at none.
fn bind_everywhere(core: &mut Core, port: u16) -> io::Result<()> {
    let mut open = std::mem::take(&mut core.locals.open);
    let first = core.locals.next_socket();
    let bound = open.iter_mut().try_for_each(|local| {
        let LocalAddress { addr, prefix_len, mtu, .. } = local.address;
        let device = Some(local.interface.clone()).filter(|_| !addr.ip().is_loopback());
        bind(core, local, LocalBinding { addr, device, prefix_len, mtu }, port)
    });
    if bound.is_err() {
        for local in &mut open {
            for socket in local.beside.extract_if(.., |socket| *socket > first) {
                core.driver.unbind(core.now, Source::Local(socket).token());
            }
        }
    }
    core.locals.open = open;
    bound
}

fn bind(core: &mut Core, local: &mut Local, binding: LocalBinding, port: u16) -> io::Result<()> {
    let socket = core.locals.next_socket();
    privileged::bind(&mut core.driver, &core.registry, socket, (binding, port))?;
    local.beside.push(socket);
    Ok(())
}

fn report(core: &Core, carrier: Carrier, error: &io::Error) {
    warn_once(core, &format!("peers do not reach this host by {carrier}: {error}"));
}

/// All loops of a server find the same.
fn warn_once(core: &Core, text: &str) {
    if core.config.loop_index() == 0 {
        warn!(target: log::STACK, "{text}");
    }
}

/// What carries a path, if that is not the usual UDP port.
pub(crate) fn of_path(core: &Core, path: &PathAddr) -> Option<Carrier> {
    let is_it = |one: &Carrier| matches!(one, Carrier::Udp(port) if path.local.port() == *port);
    core.driver.carrier_of(path).or_else(|| core.locals.carriers.iter().copied().find(is_it))
}
