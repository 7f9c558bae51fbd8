//! File descriptors over a unix socket (SCM_RIGHTS).

use super::check_size;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Most descriptors in one message: 26 devices and the namespaces of two hosts fit.
pub(crate) const MAX_FDS: usize = 64;
const FD_BYTES: usize = MAX_FDS * size_of::<RawFd>();

/// Space for one control message, aligned as the kernel's macros expect.
#[repr(C)]
struct Control {
    align: [libc::cmsghdr; 0],
    bytes: [u8; FD_BYTES + 32],
}

/// Sends `bytes` with `fds` attached, at most [`MAX_FDS`].
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut control = Control { align: [], bytes: [0; FD_BYTES + 32] };
    let mut vector =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut message = header(&mut vector, &mut control);
    let fds = &fds[..fds.len().min(MAX_FDS)];
    let fd_bytes = size_of_val(fds) as libc::c_uint;
    if fds.is_empty() {
        message.msg_control = std::ptr::null_mut();
        message.msg_controllen = 0;
    } else {
        // SAFETY: CMSG_SPACE only computes.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(fd_bytes) } as _;
        // SAFETY: the control buffer is aligned and large enough for MAX_FDS descriptors, so that
        // the first header and its data lie inside. BorrowedFd is a transparent RawFd.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const message);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(fd_bytes) as _;
            let data = libc::CMSG_DATA(first);
            std::ptr::copy_nonoverlapping(fds.as_ptr().cast::<u8>(), data, fd_bytes as usize);
        }
    }
    // SAFETY: the message refers to live buffers of the stated sizes.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    check_size(sent)
}

/// Receives into `bytes`; returns their number and the descriptors that came along.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = Control { align: [], bytes: [0; FD_BYTES + 32] };
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut message = header(&mut vector, &mut control);
    // SAFETY: the message refers to live buffers of the stated sizes.
    let received =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let received = check_size(received)?;
    Ok((received, take_fds(&message)))
}

fn header(vector: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: msghdr is plain data, for which all zeros are valid.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = vector;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.as_mut_ptr().cast();
    message.msg_controllen = control.bytes.len() as _;
    message
}

fn take_fds(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: the kernel has filled the control buffer that `message` refers to; the macros stay
    // inside it. Each descriptor of SCM_RIGHTS is new and ours.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while !at.is_null() {
            if (*at).cmsg_level == libc::SOL_SOCKET && (*at).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(at).cast::<RawFd>();
                let bytes = (*at).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                for i in 0..bytes / size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    fds
}

/// Receives one byte without descriptors and without allocating; 0 at the end of the stream.
pub(crate) fn receive_byte(socket: BorrowedFd<'_>, byte: &mut [u8; 1]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    check_size(unsafe { libc::read(socket.as_raw_fd(), byte.as_mut_ptr().cast(), 1) })
}
