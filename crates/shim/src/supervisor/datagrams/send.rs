//! Calls that name the destination of each datagram.

use super::super::Supervisor;
use super::connect::Called;
use super::message::{Message, without_source};
use super::{Phase, system};
use crate::address::{self, MAX_SOCKADDR, ProgramAddress};
use crate::seccomp::Answer;
use crate::supervisor::send::gather;
use crate::trap::Trap;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// The longest payload of a UDP datagram over IPv4.
const MAX_DATAGRAM: usize = 65_507;
/// Messages of one `sendmmsg` that are sent at a time.
pub(in super::super) const MAX_MESSAGES: u64 = 64;

/// A datagram in the program's memory.
struct Datagram {
    pieces: Vec<(u64, usize)>,
    control: Vec<u8>,
    flags: i32,
}

/// What is to be done with a datagram.
enum Course {
    /// It goes to the stack's end there.
    Carried(SocketAddr),
    /// The call waits for the stack's decision.
    Held,
    /// It is the kernel's.
    Plain,
}

impl Supervisor {
    /// `sendto` with an address.
    pub(in super::super) fn on_sendto_address(&mut self, trap: &Trap) -> Option<Answer> {
        let [_, buffer, length, flags, name, name_length] = trap.args;
        let Some((called, written)) = self.addressed(trap, name, name_length as u32) else {
            return Some(Answer::Continue);
        };
        let pieces = vec![(buffer, usize::try_from(length).unwrap_or(usize::MAX))];
        let datagram = Datagram { pieces, control: Vec::new(), flags: flags as i32 };
        match self.course(trap, &called, written) {
            Course::Carried(relay) => self.send_datagram(trap, &called, relay, &datagram),
            Course::Held => self.begin_waiting(trap, called, written),
            Course::Plain => Some(Answer::Continue),
        }
    }

    pub(in super::super) fn on_sendmsg_address(&mut self, trap: &Trap) -> Option<Answer> {
        let Ok(message) = Message::read(&trap.memory, trap.args[1]) else {
            return Some(Answer::Continue);
        };
        let (name, length) = (message.header.address, message.header.length);
        let Some((called, written)) = self.addressed(trap, name, length) else {
            return Some(Answer::Continue);
        };
        let Ok(datagram) = datagram(trap, message, trap.args[2] as i32) else {
            return Some(Answer::Error(libc::EFAULT));
        };
        match self.course(trap, &called, written) {
            Course::Carried(relay) => self.send_datagram(trap, &called, relay, &datagram),
            Course::Held => self.begin_waiting(trap, called, written),
            Course::Plain => Some(Answer::Continue),
        }
    }

    /// As many messages from the first on as are carried; a program must expect that fewer are taken
    /// than it offers. If the first one is not, the kernel sends all of them.
    pub(in super::super) fn on_sendmmsg_address(&mut self, trap: &Trap) -> Option<Answer> {
        let size = std::mem::size_of::<libc::mmsghdr>() as u64;
        let count_at = std::mem::offset_of!(libc::mmsghdr, msg_len) as u64;
        let mut sent = 0;
        while sent < (trap.args[2] & 0xffff_ffff).min(MAX_MESSAGES) {
            let at = trap.args[1] + sent * size;
            let Ok(message) = Message::read(&trap.memory, at) else { break };
            let (name, length) = (message.header.address, message.header.length);
            let Some((called, written)) = self.addressed(trap, name, length) else { break };
            let relay = match self.course(trap, &called, written) {
                Course::Carried(relay) => relay,
                Course::Held if sent == 0 => return self.begin_waiting(trap, called, written),
                Course::Held | Course::Plain => break,
            };
            let Ok(datagram) = datagram(trap, message, trap.args[3] as i32) else { break };
            match self.send_datagram(trap, &called, relay, &datagram) {
                Some(Answer::Value(bytes)) => {
                    if trap.memory.write_int(at + count_at, bytes as i32).is_err() {
                        return Some(Answer::Error(libc::EFAULT));
                    }
                }
                other if sent == 0 => return other,
                _ => break,
            }
            sent += 1;
        }
        Some(if sent == 0 { Answer::Continue } else { Answer::Value(sent as i64) })
    }

    /// The UDP socket and the address that the call names, unless that is nothing to be carried.
    fn addressed(&self, trap: &Trap, name: u64, length: u32) -> Option<(Called, SocketAddr)> {
        let length = length as usize;
        if name == 0 || length > MAX_SOCKADDR {
            return None;
        }
        let mut bytes = [0; MAX_SOCKADDR];
        let bytes = bytes.get_mut(..length)?;
        trap.memory.read(name, bytes).ok()?;
        let ProgramAddress::Ip(written) = address::parse(bytes) else { return None };
        let destination = address::unmapped(written);
        let unsuitable = address::unsuitable(destination, self.loopback_paths).is_some();
        if unsuitable || self.datagrams.is_left_alone(destination) {
            return None;
        }
        self.called(trap).map(|called| (called, written))
    }

    fn course(&mut self, trap: &Trap, called: &Called, written: SocketAddr) -> Course {
        let destination = address::unmapped(written);
        if let Some(flow) = self.datagrams.towards(called.cookie, destination) {
            let id = flow.id;
            if let Phase::Carried { relay, .. } = flow.phase {
                return Course::Carried(relay);
            }
            self.hold_call(id, trap);
            return Course::Held;
        }
        match self.check_datagrams(called, written) {
            Ok(()) => Course::Held,
            Err(reason) => {
                self.report.leave(reason);
                Course::Plain
            }
        }
    }

    /// The call waits; the stack is asked unless it has been.
    fn begin_waiting(&mut self, trap: &Trap, called: Called, to: SocketAddr) -> Option<Answer> {
        let destination = address::unmapped(to);
        if self.datagrams.towards(called.cookie, destination).is_some() {
            return None;
        }
        match self.ask_for_datagrams(trap, called, destination, false) {
            Ok(()) => None,
            Err(reason) => {
                self.report.leave(reason);
                Some(Answer::Continue)
            }
        }
    }

    fn send_datagram(
        &self,
        trap: &Trap,
        called: &Called,
        relay: SocketAddr,
        datagram: &Datagram,
    ) -> Option<Answer> {
        let length: usize =
            datagram.pieces.iter().map(|(_, length)| *length).fold(0, usize::saturating_add);
        if length > MAX_DATAGRAM {
            return Some(Answer::Error(libc::EMSGSIZE));
        }
        let Ok(bytes) = gather(&trap.memory, &datagram.pieces) else {
            return Some(Answer::Error(libc::EFAULT));
        };
        if !self.listener.is_waiting(trap.id) {
            return None;
        }
        let relay = if called.v6 { address::mapped(relay) } else { relay };
        let flags = datagram.flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let sent = system::send(called.socket.as_fd(), &bytes, &datagram.control, relay, flags);
        Some(match sent {
            Ok(sent) => Answer::Value(sent as i64),
            Err(e) => Answer::Error(e.raw_os_error().unwrap_or(libc::EIO)),
        })
    }
}

fn datagram(trap: &Trap, message: Message, flags: i32) -> std::io::Result<Datagram> {
    let control = without_source(&message.control(&trap.memory)?);
    Ok(Datagram { pieces: message.header.pieces, control, flags })
}
