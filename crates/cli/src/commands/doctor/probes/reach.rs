//! Which paths there would be, and what gets through on each of them.

use super::super::findings::{Ecn, Gso, PathFinding, Udp, Wanted};
use super::exchange::{Ask, Asker, Form, Outcome, headers};
use super::init::Answer;
use super::uplinks::Uplink;
use super::{mtu, routes};
use crate::failure::Failure;
use manypath_engine::{LocalAddress, PathAddr, path_pairs};
use manypath_net::{Interface, ReportKind};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Rounds of the search for the path MTU where the largest packet does not pass.
const MTU_ROUNDS: usize = 3;

/// What was found out.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) addresses: Vec<IpAddr>,
    /// What a peer tells that does not tell the address at which it has answered.
    pub(super) behind_nat: Vec<IpAddr>,
    pub(super) paths: Vec<PathFinding>,
}

/// Asks the peer over every path. `named` are the addresses of its name; `keys`: encryption is offered.
pub(super) fn reach(
    named: &[IpAddr],
    (port, keys): (u16, bool),
    uplinks: &[Uplink],
) -> Result<Reached, Failure> {
    let mut asker = Asker::new(keys)?;
    let open = |uplink: &Uplink| Some((asker.open(uplink).ok()?, uplink.clone()));
    let sockets: Vec<(usize, Uplink)> = uplinks.iter().filter_map(open).collect();
    let mut asks = candidates(named, port, &sockets);
    asker.ask(&mut asks)?;
    let mut addresses = named.to_vec();
    let found = asks.iter().position(Ask::is_answered);
    let first = found.or_else(|| nearest(&asks, &sockets));
    let Some(first) = first.map(|index| &asks[index]) else {
        return Ok(Reached { addresses, behind_nat: Vec::new(), paths: Vec::new() });
    };
    let mut behind_nat = Vec::new();
    if let Outcome::Answered(_, answer) = &first.outcome {
        let more: Vec<_> =
            answer.addresses.iter().copied().filter(|it| !named.contains(it)).collect();
        addresses.extend(&more);
        if !answer.addresses.contains(&first.remote.ip()) {
            behind_nat = more;
        }
    }
    let mut pairs = self::pairs(&asker, first, &sockets, &addresses);
    if !behind_nat.is_empty() {
        let others = self::pairs(&asker, first, &sockets, named);
        let new = others.into_iter().filter(|pair| !pairs.contains(pair));
        pairs.extend(new.collect::<Vec<_>>());
    }
    let plain = |pair: &Pair| Ask::new(pair.0, pair.1, Form::Plain);
    let mut asks: Vec<Ask> = pairs.iter().map(plain).collect();
    asker.ask(&mut asks)?;
    let answered = asks.iter().filter(|ask| ask.is_answered());
    let mut more: Vec<Ask> = answered.flat_map(|ask| questions(ask, &sockets)).collect();
    asker.ask(&mut more)?;
    asks.append(&mut more);
    search_mtu(&mut asker, &pairs, &mut asks)?;
    let path = |pair: &Pair| path(&asker, *pair, &sockets, &asks);
    Ok(Reached { addresses, behind_nat, paths: pairs.iter().map(path).collect() })
}

/// Whether a manypath answers at this port of one of the addresses.
pub(super) fn answers(
    named: &[IpAddr],
    (port, keys): (u16, bool),
    uplinks: &[Uplink],
) -> Result<bool, Failure> {
    let mut asker = Asker::new(keys)?;
    let open = |uplink: &Uplink| Some((asker.open(uplink).ok()?, uplink.clone()));
    let sockets: Vec<(usize, Uplink)> = uplinks.iter().filter_map(open).collect();
    let mut asks = candidates(named, port, &sockets);
    asker.ask(&mut asks)?;
    Ok(asks.iter().any(|ask| matches!(udp(ask), Udp::Answered { manypath: true, .. })))
}

/// A socket and an address of the peer.
type Pair = (usize, SocketAddr);

fn candidates(named: &[IpAddr], port: u16, sockets: &[(usize, Uplink)]) -> Vec<Ask> {
    let ask = |remote: &IpAddr| {
        let remote = SocketAddr::new(*remote, port);
        let fitting =
            sockets.iter().filter(move |it| it.1.interface.addr.is_ipv4() == remote.is_ipv4());
        fitting.map(move |(socket, _)| Ask::new(*socket, remote, Form::Plain))
    };
    named.iter().flat_map(ask).collect()
}

/// Where nothing answers: a pair on one link if there is one.
fn nearest(asks: &[Ask], sockets: &[(usize, Uplink)]) -> Option<usize> {
    let near = |ask: &Ask| on_link(uplink(sockets, ask.socket), ask.remote.ip());
    asks.iter().position(near).or(if asks.is_empty() { None } else { Some(0) })
}

/// The paths of an association whose handshake goes where `first` went.
fn pairs(
    asker: &Asker,
    first: &Ask,
    sockets: &[(usize, Uplink)],
    addresses: &[IpAddr],
) -> Vec<Pair> {
    let locals: Vec<_> =
        sockets.iter().map(|(socket, uplink)| local(uplink, asker.probes.local(*socket))).collect();
    let handshake = PathAddr { local: asker.probes.local(first.socket), remote: first.remote };
    let socket_of = |pair: PathAddr| {
        let own = sockets.iter().find(|(socket, _)| asker.probes.local(*socket) == pair.local);
        own.map(|(socket, _)| (*socket, pair.remote))
    };
    path_pairs(handshake, &locals, addresses).into_iter().filter_map(socket_of).collect()
}

/// What else is asked where a plain question is answered.
fn questions(ask: &Ask, sockets: &[(usize, Uplink)]) -> Vec<Ask> {
    let (socket, remote) = (ask.socket, ask.remote);
    let sizes = mtu::first(interface_mtu(uplink(sockets, socket)), headers(remote));
    let forms = [Form::EcnCapable, Form::Run].into_iter().chain(sizes.into_iter().map(Form::Sized));
    forms.map(|form| Ask::new(socket, remote, form)).collect()
}

/// Tries more sizes on paths that let small packets pass but not the largest.
fn search_mtu(asker: &mut Asker, pairs: &[Pair], asks: &mut Vec<Ask>) -> io::Result<()> {
    for round in 0..MTU_ROUNDS {
        let sizes = |pair: &Pair| {
            let (passes, fails) = sizes(*pair, asks);
            let more = passes.zip(fails).map(|(passes, fails)| mtu::between(passes, fails));
            // On a path that loses much the largest may only have had bad luck.
            let again = fails.and(largest(*pair, asks)).filter(|_| round == 0);
            let (socket, remote) = *pair;
            let ask = move |size| Ask::new(socket, remote, Form::Sized(size));
            more.unwrap_or_default().into_iter().chain(again).map(ask)
        };
        let mut more: Vec<Ask> = pairs.iter().flat_map(sizes).collect();
        if more.is_empty() {
            break;
        }
        asker.ask(&mut more)?;
        asks.append(&mut more);
    }
    Ok(())
}

/// The largest size that passes, and the smallest above it that does not.
fn sizes(pair: Pair, asks: &[Ask]) -> (Option<u16>, Option<u16>) {
    let passes = tried(pair, asks).filter(|(_, passes)| *passes).map(|(size, _)| size).max();
    let above = tried(pair, asks).map(|(size, _)| size).filter(|size| Some(*size) > passes);
    (passes, above.min())
}

/// The largest size that was tried.
fn largest(pair: Pair, asks: &[Ask]) -> Option<u16> {
    tried(pair, asks).map(|(size, _)| size).max()
}

/// Sizes, and whether they pass.
fn tried(pair: Pair, asks: &[Ask]) -> impl Iterator<Item = (u16, bool)> {
    of(pair, asks).filter_map(|ask| match ask.form {
        Form::Sized(size) => Some((size, ask.is_answered())),
        Form::Plain | Form::EcnCapable | Form::Run => None,
    })
}

fn of(pair: Pair, asks: &[Ask]) -> impl Iterator<Item = &Ask> {
    asks.iter().filter(move |ask| (ask.socket, ask.remote) == pair)
}

fn path(asker: &Asker, pair: Pair, sockets: &[(usize, Uplink)], asks: &[Ask]) -> PathFinding {
    let (socket, remote) = pair;
    let uplink = uplink(sockets, socket);
    let local = uplink.interface.addr;
    let with = |form| of(pair, asks).find(|ask| ask.form == form);
    let passes = |form| with(form).map(Ask::is_answered);
    let answer = with(Form::Plain).and_then(|ask| match &ask.outcome {
        Outcome::Answered(_, answer) => Some(answer.as_ref()),
        Outcome::Silent | Outcome::Said(_) | Outcome::Refused(_) => None,
    });
    let outside = answer.and_then(|answer| answer.outside);
    let largest = mtu::fitting(interface_mtu(uplink), headers(remote));
    let interface_mtu = interface_mtu(uplink);
    let mtu = sizes(pair, asks).0.map(|size| if size == largest { interface_mtu } else { size });
    let reached = answer.is_some_and(|answer| !answer.aborted);
    let seen = of(pair, asks).any(|ask| ask.seen);
    PathFinding {
        local,
        interface: uplink.interface.name.clone(),
        remote,
        link: uplink.link,
        route: routes::finding(uplink, remote.ip()),
        udp: with(Form::Plain).map_or(Udp::Silent, udp),
        tcp: None,
        dropped_here: asker.sees_all().then_some(seen && answer.is_none()),
        outside,
        nat: outside.map(|outside| outside != asker.probes.local(socket)),
        rebinding: None,
        mtu,
        interface_mtu,
        mtu_told: of(pair, asks).filter_map(told).min(),
        ecn: Ecn {
            peer: answer.map(|it| it.ecn),
            passes: passes(Form::EcnCapable).filter(|_| reached),
        },
        gso: Gso {
            kernel: asker.probes.can_segment(socket),
            passes: passes(Form::Run).filter(|_| reached),
        },
        wanted: Wanted::default(),
        receive_buffer: asker.probes.receive_buffer(socket),
        unbound: asker.probes.device_error(socket).map(str::to_owned),
        stacks: Vec::new(),
    }
}

/// What became of the plain question.
fn udp(ask: &Ask) -> Udp {
    match &ask.outcome {
        Outcome::Silent => Udp::Silent,
        Outcome::Answered(_, answer) if answer.aborted => {
            Udp::Aborted { wants_encryption: answer.wants_keys }
        }
        Outcome::Answered(rtt, answer) => answered(rtt.as_secs_f64() * 1e3, answer),
        Outcome::Said(ReportKind::PortClosed) => Udp::PortClosed,
        Outcome::Said(ReportKind::Unreachable | ReportKind::TooBig(_)) => Udp::Unreachable,
        Outcome::Said(ReportKind::Other) => Udp::Silent,
        Outcome::Refused(error) => {
            Udp::Refused { errno: error.raw_os_error().unwrap_or(0), why: error.to_string() }
        }
    }
}

fn answered(rtt_ms: f64, answer: &Answer) -> Udp {
    // Thousandths are more than enough.
    Udp::Answered { rtt_ms: (rtt_ms * 1e3).round() / 1e3, manypath: answer.manypath }
}

fn told(ask: &Ask) -> Option<u16> {
    match ask.outcome {
        Outcome::Said(ReportKind::TooBig(mtu)) => Some(mtu),
        Outcome::Silent | Outcome::Answered(..) | Outcome::Said(_) | Outcome::Refused(_) => None,
    }
}

fn uplink(sockets: &[(usize, Uplink)], socket: usize) -> &Uplink {
    // In the order of their numbers, of which some may have failed.
    let index = sockets.partition_point(|it| it.0 < socket);
    &sockets[index].1
}

fn interface_mtu(uplink: &Uplink) -> u16 {
    u16::try_from(uplink.interface.mtu).unwrap_or(u16::MAX).min(mtu::MOST)
}

/// Whether an address is in the network of an uplink.
pub(super) fn on_link(uplink: &Uplink, remote: IpAddr) -> bool {
    local(uplink, SocketAddr::new(uplink.interface.addr, 0)).is_on_link(remote)
}

/// As the engine would know a socket's address.
fn local(uplink: &Uplink, addr: SocketAddr) -> LocalAddress {
    let Interface { prefix_len, index, mtu, .. } = uplink.interface;
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    LocalAddress { addr, prefix_len, interface: index, mtu }
}
