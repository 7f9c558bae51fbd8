//! Sockets come and go.

use super::options;
use crate::api::arguments::{Arguments, int};
use crate::api::constants::constant;
use crate::api::descriptor::LinkId;
use crate::api::descriptor::{Socket, error_of};
use crate::api::errno::{Called, Errno, Outcome};
use crate::api::filled::{Filled, address_of, fits};
use crate::api::notification::ASSOCIATION;
use crate::language::Why;
use crate::language::ast::Value;
use crate::world::World;
use manypath_engine::ConnectError;
use std::net::SocketAddr;

/// `socket(domain, type, protocol)`.
pub(super) fn socket(world: &mut World, args: &Arguments<'_>) -> Called {
    if args.name(2)? != "IPPROTO_SCTP" {
        return Err(Why::gap("only SCTP sockets are known"));
    }
    let many = match args.name(1)? {
        "SOCK_STREAM" => false,
        "SOCK_SEQPACKET" => true,
        other => return Err(Why::gap(format!("sockets of type {other} are not known"))),
    };
    let config = world.config.clone();
    Ok(Outcome::Returns(world.sockets.open(Socket::new(many, config))))
}

/// `bind` and `sctp_bindx`: the addresses are those of the world, whatever is asked for.
pub(super) fn bind(world: &mut World, args: &Arguments<'_>) -> Called {
    world.sockets.get(args.int(0)?)?;
    Ok(Outcome::OK)
}

/// `listen(fd, backlog)`. A backlog of 0 ends it.
pub(super) fn listen(world: &mut World, args: &Arguments<'_>) -> Called {
    let (fd, accept) = (args.int(0)?, args.int(1)? > 0);
    let socket = world.sockets.get(fd)?;
    socket.listening = accept;
    socket.config.accept = accept;
    world.sockets.set_connecting(false);
    ensure_stack(world, fd)?;
    Ok(Outcome::OK)
}

/// Makes the stack of a socket, or gives it the options of the socket.
pub(super) fn ensure_stack(world: &mut World, fd: i64) -> Result<usize, Why> {
    let socket = world.sockets.get(fd)?;
    let config = socket.config.clone();
    if let Some(stack) = socket.stack {
        world.stacks[stack].endpoint.configure(|old| *old = config);
        return Ok(stack);
    }
    let stack = world.add_stack(config)?;
    world.sockets.get(fd)?.stack = Some(stack);
    Ok(stack)
}

/// `accept(fd, address, length)`.
pub(super) fn accept(world: &mut World, args: &Arguments<'_>) -> Called {
    let listener = world.sockets.get(args.int(0)?)?.clone();
    let (true, Some(stack)) = (listener.listening, listener.stack) else {
        return Ok(Outcome::Fails("EINVAL"));
    };
    let Some(association) = world.stacks[stack].waiting() else {
        return Ok(Outcome::Waits("EAGAIN"));
    };
    let link = LinkId { stack, association };
    world.link(link)?.taken = true;
    let socket = Socket { link: Some(link), listening: false, nonblocking: false, ..listener };
    Ok(Outcome::Returns(world.sockets.open(socket)))
}

/// `sctp_peeloff(fd, id)`: the association gets a socket of its own.
pub(super) fn peel_off(world: &mut World, args: &Arguments<'_>) -> Called {
    let id = args.int(1)?;
    let socket = world.sockets.get(args.int(0)?)?;
    if socket.link.is_none() {
        return Ok(Outcome::Fails("EINVAL"));
    }
    if id != ASSOCIATION {
        return Ok(Outcome::Fails("ENOENT"));
    }
    let peeled = Socket { many: false, listening: false, ..socket.clone() };
    if socket.many {
        socket.link = None;
    }
    Ok(Outcome::Returns(world.sockets.open(peeled)))
}

/// `sctp_connectx(fd, addresses, count, id)`. With the id to be filled in, FreeBSD's library returns
/// it as soon as the association is begun.
pub(super) fn sctp_connectx(world: &mut World, args: &Arguments<'_>) -> Called {
    let outcome = connect(world, args)?;
    let nonblocking = world.sockets.get(args.int(0)?)?.nonblocking;
    match outcome {
        Outcome::Waits(_) if nonblocking && args.0.args.len() > 3 => Ok(Outcome::OK),
        other => Ok(other),
    }
}

/// `sctp_getpaddrs(fd, id, addresses)` and `sctp_getladdrs`: how many there are.
pub(super) fn addresses(world: &mut World, args: &Arguments<'_>, peers: bool) -> Called {
    let Some(link) = world.sockets.get(args.int(0)?)?.link else {
        return Ok(Outcome::Fails("EINVAL"));
    };
    let status = world.stacks[link.stack].endpoint.status(world.now, link.association);
    let mut found: Vec<SocketAddr> = Vec::new();
    for path in status.map(|status| status.paths).unwrap_or_default() {
        let ip = if peers { path.addr.remote.ip() } else { path.addr.local.ip() };
        let address = SocketAddr::new(ip, crate::world::PORT);
        if !found.contains(&address) {
            found.push(address);
        }
    }
    let count = found.len();
    let expected = args.value(2)?;
    let open = matches!(expected, Value::List(list) if list.as_slice() == [Value::Any]);
    if !open {
        let found = found.into_iter().map(Filled::Address).collect();
        fits("the addresses", expected, &Filled::List(found))?;
    }
    Ok(Outcome::bytes(count))
}

/// `connect(fd, address, length)`.
pub(super) fn connect(world: &mut World, args: &Arguments<'_>) -> Called {
    let fd = args.int(0)?;
    let to = match args.value(1)? {
        Value::Struct(fields) => address_of(fields, crate::world::PORT)?,
        _ => None,
    };
    let socket = world.sockets.get(fd)?;
    let Some(link) = socket.link else { return begin(world, fd, to) };
    if !socket.nonblocking {
        return progress(world, fd, link);
    }
    let connected = world.link(link)?.streams.is_some();
    Ok(Outcome::Fails(if connected { "EISCONN" } else { "EALREADY" }))
}

/// Starts an association with the peer.
pub(super) fn begin(world: &mut World, fd: i64, to: Option<SocketAddr>) -> Called {
    let stack = ensure_stack(world, fd)?;
    let (ip, port) =
        to.map_or((world.network.remote, crate::world::PORT), |to| (to.ip(), to.port()));
    let remote = SocketAddr::new(ip, world.network.udp.1);
    world.sockets.set_connecting(true);
    let now = world.now;
    match world.stacks[stack].endpoint.connect(now, remote, port) {
        Ok(association) => {
            let link = world.stacks[stack].links.entry(association).or_default();
            link.initiated = true;
            world.sockets.get(fd)?.link = Some(LinkId { stack, association });
            options::fix_mtu(world, fd)?;
            Ok(Outcome::Waits("EINPROGRESS"))
        }
        Err(ConnectError::NoLocalAddress) => Ok(Outcome::Fails("EADDRNOTAVAIL")),
        Err(ConnectError::InvalidPort) => Ok(Outcome::Fails("EINVAL")),
        Err(ConnectError::TooMany) => Ok(Outcome::Fails("ENOBUFS")),
        Err(ConnectError::AlreadyConnected) => Ok(Outcome::Fails("EADDRINUSE")),
    }
}

fn progress(world: &mut World, fd: i64, link: LinkId) -> Called {
    if world.link(link)?.streams.is_some() {
        return Ok(Outcome::OK);
    }
    Ok(take_error(world, fd)?.map_or(Outcome::Waits("EINPROGRESS"), Outcome::Fails))
}

/// The error that ended the association of `fd`, told once.
pub(super) fn take_error(world: &mut World, fd: i64) -> Result<Option<Errno>, Why> {
    let socket = world.sockets.get(fd)?;
    let (Some(link), false) = (socket.link, socket.reported) else { return Ok(None) };
    let link = world.link(link)?;
    let Some(reason) = &link.closed else { return Ok(None) };
    let error = error_of(reason, link.streams.is_some());
    world.sockets.get(fd)?.reported = true;
    Ok(error)
}

/// `shutdown(fd, how)`.
pub(super) fn shutdown(world: &mut World, args: &Arguments<'_>) -> Called {
    let (fd, how) = (args.int(0)?, args.int(1)?);
    let socket = world.sockets.get(fd)?;
    let Some(link) = socket.link else { return Ok(Outcome::Fails("ENOTCONN")) };
    if Some(how) != constant("SHUT_RD") {
        socket.shut = true;
        end(world, link);
    }
    Ok(Outcome::OK)
}

/// Ends an association: when everything is delivered, or at once if a message has no end, which cannot be.
pub(super) fn end(world: &mut World, link: LinkId) {
    let (now, endpoint) = (world.now, &mut world.stacks[link.stack].endpoint);
    if endpoint.is_unfinished(link.association, None) {
        endpoint.abort(now, link.association, &[]);
    } else {
        endpoint.shutdown(now, link.association);
    }
}

/// `close(fd)`: a graceful end. Associations that nobody has accepted end with their listener.
pub(super) fn close(world: &mut World, args: &Arguments<'_>) -> Called {
    let fd = args.int(0)?;
    let socket = world.sockets.get(fd)?.clone();
    world.sockets.close(fd);
    let now = world.now;
    match socket.link {
        Some(link) if socket.linger == Some(0) => {
            world.stacks[link.stack].endpoint.abort(now, link.association, &[]);
        }
        Some(link) => end(world, link),
        None => {}
    }
    if let (true, Some(stack)) = (socket.listening, socket.stack) {
        let stack = &mut world.stacks[stack];
        stack.endpoint.configure(|config| config.accept = false);
        while let Some(association) = stack.waiting() {
            stack.endpoint.abort(now, association, &[]);
            stack.links.remove(&association);
        }
    }
    Ok(Outcome::OK)
}

/// `fcntl(fd, F_GETFL)` and `fcntl(fd, F_SETFL, flags)`.
pub(super) fn fcntl(world: &mut World, args: &Arguments<'_>) -> Called {
    let nonblock = |value: &Value| -> Result<bool, Why> {
        Ok(int(value)? & constant("O_NONBLOCK").unwrap_or(0) != 0)
    };
    let socket = world.sockets.get(args.int(0)?)?;
    match args.name(1)? {
        "F_GETFL" => {
            let flags = if socket.nonblocking { "O_NONBLOCK" } else { "NULL" };
            let all = ["O_RDWR", flags].into_iter().filter_map(constant);
            Ok(Outcome::Returns(all.fold(0, |all, flag| all | flag)))
        }
        "F_SETFL" => {
            socket.nonblocking = nonblock(args.value(2)?)?;
            Ok(Outcome::OK)
        }
        other => Err(Why::gap(format!("fcntl {other} is not known"))),
    }
}
