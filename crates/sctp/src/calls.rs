//! What calls do, once their arguments are known to be sound.

use crate::descriptor::{set_owned, stranger};
use crate::inherited;
use crate::process::{start, wait_until};
use crate::request::{self, How, Request, Sending, decode_received, split_size};
use crate::stack::{Shared, State, running};
use crate::system;
use libc::c_int;
use manypath_sockets::{Errno, Host, Received, SocketId, Sockets, Style};
use manypath_sockets::{address, structures::sctp_assoc_t};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Whether `socket` asks for one of ours.
pub(crate) fn is_sctp(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    let style = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].contains(&(kind & 0xf));
    [libc::AF_INET, libc::AF_INET6].contains(&domain) && style && protocol == libc::IPPROTO_SCTP
}

pub(crate) fn socket(domain: c_int, kind: c_int) -> Result<RawFd, Errno> {
    let style = if kind & 0xf == libc::SOCK_STREAM { Style::OneToOne } else { Style::OneToMany };
    start()?.with(|state| {
        let id = state.sockets.open(style, domain == libc::AF_INET6);
        state.describe(id, kind & !0xf)
    })
}

/// Does something with the socket that a descriptor stands for.
pub(crate) fn with<T>(
    fd: RawFd,
    act: impl FnOnce(&mut Sockets, &mut Host<'_>, SocketId) -> Result<T, Errno>,
) -> Result<T, Errno> {
    with_open(fd, |_| (), act)
}

/// Does something with the socket, which may bind it to these addresses.
pub(crate) fn with_local<T>(
    fd: RawFd,
    addresses: &[SocketAddr],
    act: impl FnOnce(&mut Sockets, &mut Host<'_>, SocketId) -> Result<T, Errno>,
) -> Result<T, Errno> {
    with_open(fd, |state| state.open_own(addresses), act)
}

/// Does something with the socket, which may send it to these addresses.
fn with_peer<T>(
    fd: RawFd,
    to: &[SocketAddr],
    act: impl FnOnce(&mut Sockets, &mut Host<'_>, SocketId) -> Result<T, Errno>,
) -> Result<T, Errno> {
    with_open(fd, |state| state.open_towards(to), act)
}

fn with_open<T>(
    fd: RawFd,
    open: impl FnOnce(&mut State),
    act: impl FnOnce(&mut Sockets, &mut Host<'_>, SocketId) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let stack = running().ok_or_else(|| stranger(fd))?;
    stack.with(|state| {
        let id = state.socket(fd)?;
        open(state);
        let (sockets, mut host) = state.parts();
        act(sockets, &mut host, id)
    })
}

/// Asks for something that is done at once, here or in the process that has the socket.
pub(crate) fn ask(fd: RawFd, request: Request) -> Result<Vec<u8>, Errno> {
    match inherited::of(fd) {
        Some((parent, id)) => parent.ask(id, &request),
        None => {
            let asked = request.clone();
            let open = |state: &mut State| state.open_for(&asked);
            with_open(fd, open, |sockets, host, id| request.perform(sockets, host, id))
        }
    }
}

/// What a call waits for that cannot be done yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    Input,
    Room,
}

/// Does something as soon as it can be done, or only tries if the descriptor or the flags say so.
pub(crate) fn when_ready<T>(
    fd: RawFd,
    wait: Wait,
    flags: c_int,
    mut act: impl FnMut(&mut Sockets, &mut Host<'_>, SocketId) -> Result<T, Errno>,
) -> Result<T, Errno> {
    patiently(fd, wait, flags, || with(fd, &mut act))
}

/// Whether a call waits that cannot be done yet.
fn waits(fd: RawFd, flags: c_int) -> bool {
    flags & libc::MSG_DONTWAIT == 0 && !system::is_nonblocking(fd)
}

/// Tries again whenever the descriptor says that it may be worth it.
fn patiently<T>(
    fd: RawFd,
    wait: Wait,
    flags: c_int,
    mut attempt: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    loop {
        match attempt() {
            Err(Errno::AGAIN) => {}
            other => return other,
        }
        if !waits(fd, flags) {
            return Err(Errno::AGAIN);
        }
        match wait {
            Wait::Input => system::wait_readable(fd)?,
            Wait::Room => system::wait_writable(fd)?,
        }
    }
}

pub(crate) fn accept(fd: RawFd, flags: c_int) -> Result<(RawFd, Vec<u8>), Errno> {
    if let Some((parent, id)) = inherited::of(fd) {
        return patiently(fd, Wait::Input, 0, || parent.accept(id, flags));
    }
    let new = when_ready(fd, Wait::Input, 0, |sockets, _, id| sockets.accept(id))?;
    describe(new, flags)
}

pub(crate) fn peel_off(fd: RawFd, number: sctp_assoc_t, flags: c_int) -> Result<RawFd, Errno> {
    let new = with(fd, |sockets, _, id| sockets.peel_off(id, number))?;
    describe(new, flags).map(|(fd, _)| fd)
}

/// A descriptor for a socket that has just come about, and the address of its peer.
fn describe(id: SocketId, flags: c_int) -> Result<(RawFd, Vec<u8>), Errno> {
    let stack = running().ok_or(Errno::BADF)?;
    stack.with(|state| {
        let fd = state.describe(id, flags)?;
        let (sockets, host) = state.parts();
        let peer = sockets.peer_addresses(&host, id, 0).unwrap_or_default();
        let mapped = sockets.maps_addresses(id);
        Ok((fd, peer.first().map_or(Vec::new(), |peer| address::encode(*peer, mapped))))
    })
}

/// Begins an association, and waits until it is established unless the descriptor says not to. `number` is set as soon as
/// there is one, also where the call fails with `EINPROGRESS`.
pub(crate) fn connect(
    fd: RawFd,
    to: &[SocketAddr],
    number: &mut sctp_assoc_t,
) -> Result<(), Errno> {
    let waits = !system::is_nonblocking(fd);
    with_peer(fd, to, |sockets, host, id| {
        *number = sockets.connect(host, id, to)?;
        // Under the same lock: whoever does not wait hears that it has begun, however fast the peer answers.
        if waits { Ok(()) } else { sockets.connection(id, *number) }
    })?;
    if !waits {
        return Ok(());
    }
    let one_to_one = with(fd, |sockets, _, id| Ok(sockets.is_one_to_one(id)))?;
    loop {
        match with(fd, |sockets, _, id| sockets.connection(id, *number)) {
            Err(Errno::IN_PROGRESS) if one_to_one => system::wait_writable(fd)?,
            Err(Errno::IN_PROGRESS) => pause(running().ok_or(Errno::BADF)?),
            other => return other,
        }
    }
}

/// Waits for anything to happen, but not long.
fn pause(stack: &'static Shared) {
    let mut first = true;
    let until = Instant::now() + Duration::from_secs(1);
    wait_until(stack, until, |_| !std::mem::take(&mut first));
}

pub(crate) fn send(
    fd: RawFd,
    to: Vec<SocketAddr>,
    data: impl Into<bytes::Bytes>,
    flags: c_int,
    how: How,
) -> Result<usize, Errno> {
    let (data, ends) = (data.into(), flags & libc::MSG_EOR != 0);
    let some = |data: bytes::Bytes| {
        let sending = Sending { to: to.clone(), how: how.clone(), ends, data };
        match inherited::of(fd) {
            None => patiently(fd, Wait::Room, flags, || {
                with_peer(fd, &to, |sockets, host, id| sending.perform(sockets, host, id))
            }),
            Some((parent, id)) => {
                let request = Request::Send(sending);
                let answer = patiently(fd, Wait::Room, flags, || parent.ask(id, &request))?;
                split_size(&answer).map(|(len, _)| len).ok_or(Errno::BADF)
            }
        }
    };
    let mut sent = some(data.clone());
    // Of a part of a message less may be taken at first (SCTP_EXPLICIT_EOR).
    while let Ok(taken) = sent
        && taken < data.len()
        && waits(fd, flags)
    {
        match some(data.slice(taken..)) {
            Ok(more) => sent = Ok(taken + more),
            Err(_) => break,
        }
    }
    if sent == Err(Errno::PIPE) && flags & libc::MSG_NOSIGNAL == 0 {
        system::raise_broken_pipe();
    }
    sent
}

/// Receives, with the sender's address as it stands in memory.
pub(crate) fn receive(fd: RawFd, room: usize, flags: c_int) -> Result<(Received, Vec<u8>), Errno> {
    let peek = flags & libc::MSG_PEEK != 0;
    match inherited::of(fd) {
        None => when_ready(fd, Wait::Input, flags, |sockets, host, id| {
            match request::receive(sockets, host, id, (room, peek)) {
                Err(Errno::AGAIN) if sockets.waits_in_vain(id) && waits(fd, flags) => {
                    Err(Errno::NOT_CONNECTED)
                }
                other => other,
            }
        }),
        Some((parent, id)) => {
            let request = Request::Receive { room, peek };
            let answer = patiently(fd, Wait::Input, flags, || parent.ask(id, &request))?;
            decode_received(&answer).ok_or(Errno::BADF)
        }
    }
}

pub(crate) fn close(fd: RawFd) -> Result<(), Errno> {
    give_up(fd, || system::close(fd))
}

/// As [`close`], but the number stays in use: another descriptor takes its place (`dup2`). If it were free in between,
/// another thread could be given it.
pub(crate) fn leave(fd: RawFd) -> Result<(), Errno> {
    give_up(fd, || Ok(()))
}

fn give_up(fd: RawFd, close: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
    if let Some((parent, id)) = inherited::of(fd) {
        parent.close(fd, id);
        set_owned(fd, false)?;
        return close();
    }
    let left = running().map(|stack| stack.with(|state| forget(state, fd)));
    set_owned(fd, false)?;
    let closed = close();
    if let Some(Some((associations, seconds))) = left
        && seconds > 0
        && let Some(stack) = running()
    {
        let until = Instant::now() + Duration::from_secs(seconds.into());
        wait_until(stack, until, |state| !state.has_any(&associations));
    }
    closed
}

/// A descriptor is closed. If it was the last one of its socket, that is too.
fn forget(state: &mut State, fd: RawFd) -> Option<(Vec<manypath_engine::AssociationId>, u16)> {
    let id = state.descriptors.remove(&fd)?;
    let signal = state.signals.get_mut(&id)?;
    signal.fds.retain(|other| *other != fd);
    if !signal.fds.is_empty() {
        return None;
    }
    if state.holders.contains_key(&id) {
        signal.keep(fd);
        return None;
    }
    state.signals.remove(&id);
    let (sockets, mut host) = state.parts();
    sockets.close(&mut host, id).ok()
}

/// A duplicate stands for the same socket.
pub(crate) fn duplicate(
    fd: RawFd,
    dup: impl FnOnce() -> Result<RawFd, Errno>,
) -> Result<RawFd, Errno> {
    if let Some((parent, id)) = inherited::of(fd) {
        return parent.duplicate(dup()?, id);
    }
    let stack = running().ok_or(Errno::BADF)?;
    stack.with(|state| {
        let id = state.socket(fd)?;
        let new = dup()?;
        set_owned(new, true)?;
        state.descriptors.insert(new, id);
        if let Some(signal) = state.signals.get_mut(&id) {
            signal.fds.push(new);
        }
        Ok(new)
    })
}
