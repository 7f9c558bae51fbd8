//! What all sockets can do.

use crate::{calls, system};
use manypath_sockets::constants::SCTP_STATUS;
use manypath_sockets::layout::Structure;
use manypath_sockets::structures::{sctp_assoc_t, sctp_status};
use manypath_sockets::{Errno, Host, SocketId, Sockets};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::RawFd;
use std::time::Duration;

/// A descriptor that stands for a socket, which is closed with it.
#[derive(Debug)]
pub(super) struct Descriptor(pub(super) RawFd);

pub(super) fn failure(error: Errno) -> io::Error {
    io::Error::from_raw_os_error(error.0)
}

/// The addresses that somebody has given; an error if there are none.
pub(super) fn addresses(given: impl ToSocketAddrs) -> io::Result<Vec<SocketAddr>> {
    let all: Vec<_> = given.to_socket_addrs()?.collect();
    if all.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no address was given"));
    }
    Ok(all)
}

impl Descriptor {
    /// Does something with the socket, which may bind it to these addresses.
    pub(super) fn with_local<T>(
        &self,
        addresses: &[SocketAddr],
        act: impl FnOnce(&mut Sockets, &mut Host<'_>, SocketId) -> Result<T, Errno>,
    ) -> io::Result<T> {
        calls::with_local(self.0, addresses, act).map_err(failure)
    }

    pub(super) fn with<T>(
        &self,
        act: impl FnOnce(&mut Sockets, &mut Host<'_>, SocketId) -> Result<T, Errno>,
    ) -> io::Result<T> {
        calls::with(self.0, act).map_err(failure)
    }

    pub(super) fn get<S: Structure>(&self, name: i32, asked: &S) -> io::Result<S> {
        let (level, asked) = (libc::IPPROTO_SCTP, asked.encode());
        let value = self.with(|sockets, host, id| sockets.option(host, id, (level, name), &asked));
        S::decode(&value?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    pub(super) fn set_bytes(&self, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
        self.with(|sockets, host, id| sockets.set_option(host, id, (level, name), value))
    }

    pub(super) fn status(&self, number: sctp_assoc_t) -> io::Result<sctp_status> {
        self.get(SCTP_STATUS, &sctp_status { sstat_assoc_id: number, ..Default::default() })
    }

    pub(super) fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        let flags = system::control(self.0, libc::F_GETFL, 0).map_err(failure)?;
        let others = flags & !libc::O_NONBLOCK;
        let wanted = if on { others | libc::O_NONBLOCK } else { others };
        system::control(self.0, libc::F_SETFL, wanted).map(drop).map_err(failure)
    }

    /// `SO_RCVTIMEO` or `SO_SNDTIMEO`.
    pub(super) fn set_timeout(&self, name: i32, limit: Option<Duration>) -> io::Result<()> {
        if limit == Some(Duration::ZERO) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a time-out of nothing"));
        }
        let limit = limit.unwrap_or_default();
        let seconds = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
        // Less than a microsecond would mean no limit.
        let micros = i64::from(limit.subsec_nanos().div_ceil(1000)).min(999_999);
        let value = [seconds, micros].map(i64::to_ne_bytes).concat();
        system::set_option(self.0, name, &value).map_err(failure)
    }

    pub(super) fn duplicate(&self) -> io::Result<Self> {
        calls::duplicate(self.0, || system::dup(self.0)).map(Self).map_err(failure)
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // Nobody is left who could be told.
        let _closed = calls::close(self.0);
    }
}

/// What the three kinds of sockets have in common. Each has its descriptor as its only field.
macro_rules! common {
    ($($kind:ident)*) => { $(
        impl $kind {
            /// Makes calls that would have to wait fail with [`std::io::ErrorKind::WouldBlock`], or wait again.
            ///
            /// # Errors
            /// None that a program could bring about.
            pub fn set_nonblocking(&self, on: bool) -> std::io::Result<()> {
                self.0.set_nonblocking(on)
            }

            /// Another descriptor for the same socket, which is closed with the last of them.
            ///
            /// # Errors
            /// The process has as many descriptors as it may have.
            pub fn try_clone(&self) -> std::io::Result<Self> {
                self.0.duplicate().map(Self)
            }

            /// Reads an option of RFC 6458 section 8. `asked` names what it is asked for: an association, an address.
            ///
            /// # Errors
            /// There is no such option (`ENOPROTOOPT`), it cannot be read for what was asked (`EINVAL`), or its value
            /// is another structure.
            pub fn get<S: $crate::Structure>(&self, name: i32, asked: &S) -> std::io::Result<S> {
                self.0.get(name, asked)
            }

            /// Sets an option of RFC 6458 section 8.
            ///
            /// # Errors
            /// There is no such option (`ENOPROTOOPT`), or the value makes no sense (`EINVAL`).
            pub fn set<S: $crate::Structure>(&self, name: i32, value: &S) -> std::io::Result<()> {
                self.0.set_bytes(libc::IPPROTO_SCTP, name, &value.encode())
            }

            /// Sets an option whose value is an int.
            ///
            /// # Errors
            /// As [`set`](Self::set).
            pub fn set_number(&self, name: i32, value: i32) -> std::io::Result<()> {
                self.0.set_bytes(libc::IPPROTO_SCTP, name, &value.to_ne_bytes())
            }

            /// Adds addresses of this host (`sctp_bindx`, RFC 6458 section 9.1). Peers of associations that there
            /// are must allow it (RFC 5061).
            ///
            /// # Errors
            /// An address is not one of this host (`EADDRNOTAVAIL`), or a peer cannot be told (`EOPNOTSUPP`).
            pub fn add_addresses(&self, addresses: &[std::net::SocketAddr]) -> std::io::Result<()> {
                self.0.with_local(addresses, |sockets, host, id| sockets.bind_more(host, id, addresses))
            }

            /// Leaves addresses of this host (`sctp_bindx`, RFC 6458 section 9.1).
            ///
            /// # Errors
            /// An address is not one of the socket's, or is the last one (`EINVAL`); or a peer cannot be told
            /// (`EOPNOTSUPP`).
            pub fn remove_addresses(&self, addresses: &[std::net::SocketAddr]) -> std::io::Result<()> {
                self.0.with(|sockets, host, id| sockets.unbind(host, id, addresses))
            }
        }

        impl std::os::fd::AsRawFd for $kind {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.0.0
            }
        }

        impl std::os::fd::AsFd for $kind {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                // SAFETY: it is open until the socket is dropped.
                unsafe { std::os::fd::BorrowedFd::borrow_raw(self.0.0) }
            }
        }
    )* };
}
pub(super) use common;

/// Time-outs of the kinds that send and receive.
macro_rules! timeouts {
    ($($kind:ident)*) => { $(
        impl $kind {
            /// How long receiving waits before it fails with [`std::io::ErrorKind::WouldBlock`]; none: for ever.
            ///
            /// # Errors
            /// The time is zero.
            pub fn set_read_timeout(&self, limit: Option<std::time::Duration>) -> std::io::Result<()> {
                self.0.set_timeout(libc::SO_RCVTIMEO, limit)
            }

            /// How long sending and connecting wait for room or for the peer; none: for ever.
            ///
            /// # Errors
            /// The time is zero.
            pub fn set_write_timeout(&self, limit: Option<std::time::Duration>) -> std::io::Result<()> {
                self.0.set_timeout(libc::SO_SNDTIMEO, limit)
            }
        }
    )* };
}
pub(super) use timeouts;
