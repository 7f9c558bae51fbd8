//! The kernel's multipath TCP in the place of the live stack, to compare with: one connection, whose
//! byte stream carries messages of one length, sent as fast as it takes them.

use super::host::Times;
use super::receiver;
use super::report::Report;
use super::sender::STAMP;
use crate::failure::Failure;
use manypath_engine::Instant;
use manypath_lab::Host;
use manypath_net::Clock;
use manypath_sim::scenario::Scenario;
use manypath_sim::simulation::Ledger;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const PORT: u16 = 5001;
/// The congestion control: the kernel's default differs between machines.
const CONGESTION: &[u8] = b"cubic";
/// Longest time in a call, so that the end is not missed.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long the receiver goes on after the end, so that it does not cut the sender off.
const OVERTIME: Duration = Duration::from_millis(300);

/// A socket of `side`; on the right it listens. Its buffers have the scenario's sizes, or those that
/// the kernel finds right.
pub(super) fn open(scenario: &Scenario, side: Host, autotuned: bool) -> Result<Socket, Failure> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP))?;
    prepare(&socket, scenario, autotuned)?;
    if side == Host::Right {
        // Bound to one address, the kernel would refuse subflows to the others.
        socket.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT))))?;
        socket.listen(1)?;
    }
    Ok(socket)
}

fn prepare(socket: &Socket, scenario: &Scenario, autotuned: bool) -> Result<(), Failure> {
    socket.set_tcp_congestion(CONGESTION)?;
    if !autotuned {
        let config = &scenario.config;
        manypath_lab::force_buffers(socket, config.send_buffer, config.receive_buffer).map_err(
            |e| Failure::new(format!("buffer sizes: {e}")).hint("MPTCP with set sizes needs root"),
        )?;
    }
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(())
}

/// Sends until the end. A message exists from the call that hands it to the kernel, so that waiting
/// for room in the send buffer is part of its delay.
pub(super) fn send(
    mut socket: Socket,
    scenario: &Scenario,
    times: Times,
) -> Result<Report, Failure> {
    let clock = Clock::of_machine();
    std::thread::sleep(times.start.since(clock.now()));
    socket.set_write_timeout(None)?;
    socket.connect(&SockAddr::from(SocketAddr::from((Host::Right.address(0), PORT))))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut message = vec![0; message_len(scenario)];
    let mut sent = message.len();
    while clock.now() < times.end {
        if sent == message.len() {
            message[..STAMP].copy_from_slice(&clock.now().as_nanos().to_be_bytes());
            sent = 0;
        }
        sent += patient(socket.write(&message[sent..]))?.unwrap_or(0);
    }
    Ok(Report::default())
}

/// Receives until the end.
pub(super) fn receive(
    listener: &Socket,
    scenario: &Scenario,
    times: Times,
    autotuned: bool,
) -> Result<Report, Failure> {
    let clock = Clock::of_machine();
    let ledger = || Ledger::new(scenario.config.streams, (times.from, times.end));
    let (mut forth, back) = (ledger(), ledger());
    let Some(mut socket) = accept(listener, &clock, times.end)? else {
        return Err(Failure::new("nobody connected"));
    };
    prepare(&socket, scenario, autotuned)?;
    let len = message_len(scenario);
    let (mut buffer, mut filled) = (vec![0; 64 << 10], 0);
    while clock.now() < times.end + OVERTIME {
        match patient(socket.read(&mut buffer[filled..]))? {
            Some(0) if clock.now() >= times.end => break,
            Some(0) => return Err(Failure::new("the connection was closed")),
            read => filled += read.unwrap_or(0),
        }
        let now = clock.now();
        let whole = filled / len * len;
        for message in buffer[..whole].chunks_exact(len) {
            forth.note_delivery(now, 0, len, receiver::stamp(message));
        }
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
    Ok(receiver::report(scenario, times, forth, &back))
}

fn accept(listener: &Socket, clock: &Clock, end: Instant) -> Result<Option<Socket>, Failure> {
    while clock.now() < end {
        if let Some((socket, _)) = patient(listener.accept())? {
            return Ok(Some(socket));
        }
    }
    Ok(None)
}

/// `None` if the time for the call was over.
fn patient<T>(result: std::io::Result<T>) -> Result<Option<T>, Failure> {
    let over = [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted];
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if over.contains(&error.kind()) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn message_len(scenario: &Scenario) -> usize {
    scenario.apps.first().map_or(STAMP, |app| app.message)
}
