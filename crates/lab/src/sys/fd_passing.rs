//! File descriptors over a unix socket (SCM_RIGHTS).

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Most descriptors in one message: 26 devices and the namespaces of two hosts fit.
pub(crate) const MAX_FDS: usize = 64;

/// Sends `bytes` with `fds` attached, at most [`MAX_FDS`].
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = &fds[..fds.len().min(MAX_FDS)];
    if !fds.is_empty() {
        let _has_room = control.push(SendAncillaryMessage::ScmRights(fds));
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives into `bytes`; returns their number and the descriptors that came along.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(bytes)];
    let received = recvmsg(socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let rights = control.drain().filter_map(|message| {
        if let RecvAncillaryMessage::ScmRights(fds) = message { Some(fds) } else { None }
    });
    Ok((received.bytes, rights.flatten().collect()))
}

/// Receives one byte without descriptors and without allocating; 0 at the end of the stream.
pub(crate) fn receive_byte(socket: BorrowedFd<'_>, byte: &mut [u8; 1]) -> io::Result<usize> {
    Ok(rustix::io::read(socket, byte)?)
}
