//! A TUN device: packets that the kernel routes to it are read, and packets that are written to it arrive in the kernel
//! (Documentation/networking/tuntap.rst).

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// Fails if there is such a device already (linux/if_tun.h).
const IFF_TUN_EXCL: libc::c_int = 0x8000;

/// A device, which is gone when this is dropped, however its process ends.
#[derive(Debug)]
pub struct Tun(File);

impl Tun {
    /// Makes the device `name`, which is down.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is too long, and those of open(2) and ioctl(2): `PermissionDenied` without
    /// CAP_NET_ADMIN, `ResourceBusy` if there is such a device.
    pub fn create(name: &str) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open("/dev/net/tun")?;
        // SAFETY: ifreq is plain data, for which all zeroes is a legal value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.is_empty() || name.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = byte as libc::c_char;
        }
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | IFF_TUN_EXCL;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: the request is a live ifreq, which is what this call reads and writes.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(file)) }
    }

    /// Has `registry` report packets under `token`.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut SourceFd(&self.0.as_raw_fd()), token, Interest::READABLE)
    }

    /// Reads one packet into `room`; its length.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, and those of read(2).
    pub fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(room)
    }

    /// Hands one packet to the kernel.
    ///
    /// # Errors
    /// Those of write(2).
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.0).write(packet).map(drop)
    }
}
