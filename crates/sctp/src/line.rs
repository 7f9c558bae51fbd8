//! What goes over the line between a process and a child of its fork.

use crate::request::Request;
use manypath_sockets::{Errno, SocketId};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// Largest request or answer in bytes: longer than any message that a socket takes.
const MOST: u64 = 1 << 30;

/// What the child has sent: the number of the socket, and what is asked of it.
pub(crate) fn read_request(line: &mut UnixStream) -> io::Result<(u64, Request)> {
    let id = read_number(line)?;
    let bytes = read_frame(line)?;
    Ok((id, Request::decode(&bytes).ok_or(io::ErrorKind::InvalidData)?))
}

/// What the child sends.
pub(crate) fn write_request(
    line: &mut UnixStream,
    id: SocketId,
    request: &Request,
) -> io::Result<()> {
    let bytes = request.encode();
    let head = [id.0.to_ne_bytes(), (bytes.len() as u64).to_ne_bytes()].concat();
    line.write_all(&[head, bytes].concat())
}

/// What the parent sends.
pub(crate) fn write_answer(
    line: &mut UnixStream,
    result: Result<Vec<u8>, Errno>,
) -> io::Result<()> {
    let (error, bytes) = match result {
        Ok(bytes) => (0, bytes),
        Err(Errno(error)) => (error.unsigned_abs().into(), Vec::new()),
    };
    let head = [u64::to_ne_bytes(error), (bytes.len() as u64).to_ne_bytes()].concat();
    line.write_all(&[head, bytes].concat())
}

/// What the child gets.
pub(crate) fn read_answer(line: &mut UnixStream) -> io::Result<Result<Vec<u8>, Errno>> {
    let error = i32::try_from(read_number(line)?).map_err(io::Error::other)?;
    let bytes = read_frame(line)?;
    Ok(if error == 0 { Ok(bytes) } else { Err(Errno(error)) })
}

fn read_number(line: &mut UnixStream) -> io::Result<u64> {
    let mut number = [0; 8];
    line.read_exact(&mut number)?;
    Ok(u64::from_ne_bytes(number))
}

fn read_frame(line: &mut UnixStream) -> io::Result<Vec<u8>> {
    let len = read_number(line)?;
    if len > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    line.take(len).read_to_end(&mut bytes)?;
    let whole = bytes.len() as u64 == len;
    if whole { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
