//! Sends that connect (`MSG_FASTOPEN`).
//!
//! Where the socket does not wait, such a send is a connect: the kernel too says `EINPROGRESS` and
//! takes no byte as long as it holds no cookie of the server. Where it waits, the launcher sends
//! the bytes once the connection stands.

use super::Supervisor;
use super::attempt::Attempt;
use crate::memory::Memory;
use crate::seccomp::Answer;
use crate::table::{Caller, Payload, Purpose};
use crate::trap::Trap;
use socket2::SockRef;
use std::io;
use std::os::fd::AsFd;

/// At most so many bytes are sent; a program must expect that a send takes less than it offers.
const MAX_BYTES: usize = 256 * 1024;
/// `UIO_MAXIOV`.
const MAX_PIECES: usize = 1024;

impl Supervisor {
    pub(super) fn on_sendto(&mut self, trap: &Trap) -> Option<Answer> {
        let [_, buffer, length, flags, address, address_length] = trap.args;
        let pieces = vec![(buffer, usize::try_from(length).unwrap_or(MAX_BYTES))];
        let payload = Payload { pieces, flags: flags as i32, count_at: None };
        self.on_attempt(trap, attempt(address, address_length as u32, payload))
    }

    pub(super) fn on_sendmsg(&mut self, trap: &Trap) -> Option<Answer> {
        self.on_message(trap, trap.args[1], trap.args[2] as i32, None)
    }

    /// Only the first message: a program must expect that fewer are taken than it offers.
    pub(super) fn on_sendmmsg(&mut self, trap: &Trap) -> Option<Answer> {
        let header = trap.args[1];
        let count_at = header + std::mem::size_of::<libc::msghdr>() as u64;
        self.on_message(trap, header, trap.args[3] as i32, Some(count_at))
    }

    fn on_message(
        &mut self,
        trap: &Trap,
        header: u64,
        flags: i32,
        count_at: Option<u64>,
    ) -> Option<Answer> {
        let Ok(header) = read_header(&trap.memory, header) else { return Some(Answer::Continue) };
        let payload = Payload { pieces: header.pieces, flags, count_at };
        self.on_attempt(trap, attempt(header.address, header.length, payload))
    }

    /// Sends what the program offered; its socket is connected.
    pub(super) fn send_payload(&self, trap: &Trap, caller: &Caller, payload: &Payload) -> Answer {
        let Ok(bytes) = gather(&trap.memory, &payload.pieces) else {
            return Answer::Error(libc::EFAULT);
        };
        if !self.listener.is_waiting(trap.id) {
            return Answer::Continue;
        }
        let kept = payload.flags & (libc::MSG_MORE | libc::MSG_OOB | libc::MSG_EOR);
        let flags = kept | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let socket = caller.socket.as_fd();
        match SockRef::from(&socket).send_with_flags(&bytes, flags) {
            Ok(sent) => count(trap, payload, sent),
            Err(e) => Answer::Error(e.raw_os_error().unwrap_or(libc::EIO)),
        }
    }
}

fn attempt(address: u64, length: u32, payload: Payload) -> Attempt {
    let nonblocking = payload.flags & libc::MSG_DONTWAIT != 0;
    Attempt { address, length, nonblocking, purpose: Purpose::Send(payload) }
}

fn count(trap: &Trap, payload: &Payload, sent: usize) -> Answer {
    let Some(at) = payload.count_at else { return Answer::Value(sent as i64) };
    match trap.memory.write_int(at, sent as i32) {
        Ok(()) => Answer::Value(1),
        Err(_) => Answer::Error(libc::EFAULT),
    }
}

/// What a `msghdr` says.
pub(super) struct Header {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) pieces: Vec<(u64, usize)>,
}

pub(super) fn read_header(memory: &Memory, at: u64) -> io::Result<Header> {
    let address = read_word(memory, at + std::mem::offset_of!(libc::msghdr, msg_name) as u64)?;
    let length = std::mem::offset_of!(libc::msghdr, msg_namelen) as u64;
    let length = memory.read_int(at + length)?;
    let vector = read_word(memory, at + std::mem::offset_of!(libc::msghdr, msg_iov) as u64)?;
    let count = read_word(memory, at + std::mem::offset_of!(libc::msghdr, msg_iovlen) as u64)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > MAX_PIECES {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    let pieces = (0..count as u64).map(|i| {
        let base = read_word(memory, vector + 16 * i)?;
        let length = read_word(memory, vector + 16 * i + 8)?;
        Ok((base, usize::try_from(length).unwrap_or(MAX_BYTES)))
    });
    Ok(Header {
        address,
        length: length.cast_unsigned(),
        pieces: pieces.collect::<io::Result<_>>()?,
    })
}

pub(super) fn read_word(memory: &Memory, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    memory.read(at, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

pub(super) fn gather(memory: &Memory, pieces: &[(u64, usize)]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for &(address, length) in pieces {
        let start = bytes.len();
        bytes.resize(start + length.min(MAX_BYTES - start), 0);
        memory.read(address, bytes.get_mut(start..).unwrap_or_default())?;
    }
    Ok(bytes)
}
