//! Looking at the program's socket, and touching it without being noticed.
//!
//! A copied descriptor shares the open file with the program: options and flags set here are set
//! there.

use crate::address;
use manypath_control::SocketOptions;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// What kind of socket a program connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// TCP, and whether the socket is of the IPv6 family.
    Tcp {
        /// `AF_INET6`, which may carry IPv4 too.
        v6: bool,
    },
    /// UDP.
    Udp {
        /// `AF_INET6`, which may carry IPv4 too.
        v6: bool,
    },
    /// None of our business, by name.
    Other(&'static str),
}

const IPPROTO_MPTCP: i32 = 262;
const TCP_SYN_SENT: u8 = 2;
const TCP_CLOSE: u8 = 7;
const SO_BUF_LOCK: i32 = 72;
const SOCK_RCVBUF_LOCK: i32 = 2;

/// What kind of socket this is, and its own address if it is one of TCP or UDP; an IPv4-mapped address as IPv4.
///
/// # Errors
/// When the descriptor is no socket.
pub fn look(socket: BorrowedFd<'_>) -> io::Result<(Kind, Option<SocketAddr>)> {
    let tcp = match option::<i32>(socket, libc::SOL_SOCKET, libc::SO_PROTOCOL)? {
        libc::IPPROTO_TCP => true,
        libc::IPPROTO_UDP => false,
        IPPROTO_MPTCP => return Ok((Kind::Other("mptcp"), None)),
        _ => return Ok((Kind::Other("not-tcp"), None)),
    };
    // The family of its name is that of the socket.
    let Some(own) = SockRef::from(&socket).local_addr()?.as_socket() else {
        return Ok((Kind::Other("not-tcp"), None));
    };
    let v6 = own.is_ipv6();
    let kind = if tcp { Kind::Tcp { v6 } } else { Kind::Udp { v6 } };
    Ok((kind, Some(address::unmapped(own))))
}

/// What kind of socket this is.
///
/// # Errors
/// When the descriptor is no socket.
pub fn kind(socket: BorrowedFd<'_>) -> io::Result<Kind> {
    look(socket).map(|(kind, _)| kind)
}

/// Whether this is a socket that TCP clients can be accepted at; a multipath TCP socket is one too.
pub fn is_tcp_listener(socket: BorrowedFd<'_>) -> bool {
    let is = |name, allowed: [i32; 2]| {
        option::<i32>(socket, libc::SOL_SOCKET, name).is_ok_and(|value| allowed.contains(&value))
    };
    is(libc::SO_PROTOCOL, [libc::IPPROTO_TCP, IPPROTO_MPTCP])
        && is(libc::SO_DOMAIN, [libc::AF_INET, libc::AF_INET6])
}

/// The socket's identity: the same for all its descriptors in all processes, never reused.
///
/// # Errors
/// When the descriptor is no socket.
pub fn cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    SockRef::from(&socket).cookie()
}

/// The user and the group to which the socket belongs.
///
/// # Errors
/// Never for an open descriptor.
pub fn owner(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    // SAFETY: all zeroes is a valid record, which the kernel fills.
    let (result, about) = unsafe {
        let mut about: libc::stat = mem::zeroed();
        (libc::fstat(socket.as_raw_fd(), &raw mut about), about)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok((about.st_uid, about.st_gid)) }
}

/// The identity of the network namespace in which the socket lives.
///
/// # Errors
/// When the descriptor is no socket, or the kernel is older than 5.14.
pub fn namespace(socket: BorrowedFd<'_>) -> io::Result<u64> {
    option(socket, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE)
}

/// Whether the socket is tied to an interface: loopback is out of its reach then.
pub fn is_bound_to_device(socket: BorrowedFd<'_>) -> bool {
    option::<i32>(socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX).is_ok_and(|index| index != 0)
}

/// Whether the socket has a mark (`SO_MARK`): routes and filters may go by it.
pub fn is_marked(socket: BorrowedFd<'_>) -> bool {
    option::<i32>(socket, libc::SOL_SOCKET, libc::SO_MARK).is_ok_and(|mark| mark != 0)
}

/// Whether connect would begin something new. A socket that is connected, listening, connecting,
/// or whose failed attempt has not been fetched yet has a history that only the kernel knows.
pub fn is_fresh(socket: BorrowedFd<'_>) -> bool {
    tcp_state(socket) == Some(TCP_CLOSE) && has_no_history(socket)
}

/// Whether other sockets may have the same port, and get what comes there.
#[must_use]
pub fn is_port_shared(socket: BorrowedFd<'_>) -> bool {
    option::<i32>(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT).is_ok_and(|shared| shared != 0)
}

/// Whether an IPv6 socket refuses IPv4 in disguise.
pub fn is_v6_only(socket: BorrowedFd<'_>) -> bool {
    SockRef::from(&socket).only_v6().unwrap_or(false)
}

/// Whether this host has the address that a socket is bound to, if it is bound to one. The far
/// end could not reach another (`IP_TRANSPARENT`, `IP_FREEBIND`).
#[must_use]
pub fn is_own_source(local: SocketAddr) -> bool {
    if local.ip().is_unspecified() {
        return true;
    }
    let probe = Socket::new(Domain::for_address(local), Type::DGRAM, None);
    let mut address = local;
    address.set_port(0);
    probe.is_ok_and(|probe| probe.bind(&address.into()).is_ok())
}

/// Whether connect returns at once.
pub fn is_nonblocking(socket: BorrowedFd<'_>) -> bool {
    SockRef::from(&socket).nonblocking().unwrap_or(false)
}

/// How long a blocking connect may take at most.
pub fn connect_limit(socket: BorrowedFd<'_>) -> Option<Duration> {
    SockRef::from(&socket).write_timeout().ok().flatten()
}

/// The socket's own address; an IPv4 address without its IPv6 coat.
///
/// # Errors
/// When the descriptor is no socket.
pub fn local(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let own = SockRef::from(&socket).local_addr()?.as_socket();
    own.map(address::unmapped).ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

/// Takes the pending error, as `getsockopt(SO_ERROR)` does; 0 for none.
pub fn take_error(socket: BorrowedFd<'_>) -> i32 {
    match SockRef::from(&socket).take_error() {
        Ok(error) => error.and_then(|e| e.raw_os_error()).unwrap_or(0),
        Err(_) => 0,
    }
}

/// Connects a program's socket and returns at once, whatever mode the socket is in. The mode is
/// the program's again when this returns; it is changed only where the kernel would wait: other threads of the
/// program may be inside calls on the socket, and would be told `EAGAIN`.
///
/// # Errors
/// `EINPROGRESS` is success and not reported; all others as `connect` says.
pub fn connect(socket: BorrowedFd<'_>, to: SocketAddr, v6_socket: bool) -> io::Result<()> {
    let to = SockAddr::from(if v6_socket { address::mapped(to) } else { to });
    let flags = if connect_waits(socket) { flags(socket)? } else { libc::O_NONBLOCK };
    let blocking = flags & libc::O_NONBLOCK == 0;
    if blocking {
        set_flags(socket, flags | libc::O_NONBLOCK)?;
    }
    let result = SockRef::from(&socket).connect(&to);
    if blocking {
        set_flags(socket, flags)?;
    }
    match result {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other,
    }
}

/// Whether connect waits for an answer: on a TCP socket without a connection or an error of one.
fn connect_waits(socket: BorrowedFd<'_>) -> bool {
    match tcp_state(socket) {
        Some(TCP_SYN_SENT) => true,
        Some(TCP_CLOSE) => has_no_history(socket),
        _ => false,
    }
}

fn tcp_state(socket: BorrowedFd<'_>) -> Option<u8> {
    option(socket, libc::IPPROTO_TCP, libc::TCP_INFO).ok()
}

/// Of a socket that has no connection: whether it has not had one whose end nobody has heard of.
fn has_no_history(socket: BorrowedFd<'_>) -> bool {
    ready(socket, libc::POLLIN) & (libc::POLLIN | libc::POLLERR) == 0
}

fn flags(socket: BorrowedFd<'_>) -> io::Result<i32> {
    // SAFETY: plain numbers.
    let flags = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 { Err(io::Error::last_os_error()) } else { Ok(flags) }
}

fn set_flags(socket: BorrowedFd<'_>, flags: i32) -> io::Result<()> {
    // SAFETY: plain numbers.
    let result = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, flags) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Which of `events` (or error and hang-up) the socket has now.
pub fn ready(socket: BorrowedFd<'_>, events: i16) -> i16 {
    let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    // SAFETY: one valid entry; the call does not wait.
    let count = unsafe { libc::poll(&raw mut entry, 1, 0) };
    if count > 0 { entry.revents } else { 0 }
}

/// The address from which this host would reach `destination`, by its routes. Nothing is sent.
///
/// # Errors
/// `ENETUNREACH` when there is no route.
pub fn route_source(destination: SocketAddr) -> io::Result<SocketAddr> {
    let probe = Socket::new(Domain::for_address(destination), Type::DGRAM, None)?;
    probe.connect(&destination.into())?;
    let local = probe.local_addr()?.as_socket();
    local.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

/// Undoes `connect` of a socket for datagrams or packets. A port of its own stays.
pub fn dissolve(socket: BorrowedFd<'_>) {
    // SAFETY: all zeroes is a valid address of no family.
    let mut nothing: libc::sockaddr = unsafe { mem::zeroed() };
    nothing.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
    let length = mem::size_of_val(&nothing) as libc::socklen_t;
    // SAFETY: the kernel reads the address.
    unsafe { libc::connect(socket.as_raw_fd(), &raw const nothing, length) };
}

/// Sets an option that is one C int.
///
/// # Errors
/// As the kernel says.
pub fn set_int(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    let length = mem::size_of_val(&value) as libc::socklen_t;
    let value = (&raw const value).cast();
    // SAFETY: the kernel reads one int, which outlives the call.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Numbers only: every bit pattern the kernel may write must be a value.
trait Number: Copy + Default {}
impl Number for u8 {}
impl Number for i32 {}
impl Number for u64 {}

/// The options that mean something to the stack.
pub fn stack_options(socket: BorrowedFd<'_>, v6_socket: bool) -> SocketOptions {
    let (level, name) = match v6_socket {
        true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        false => (libc::IPPROTO_IP, libc::IP_TOS),
    };
    let class = option::<i32>(socket, level, name).unwrap_or_default();
    let timeout = option::<i32>(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT);
    SocketOptions {
        traffic_class: u8::try_from(class).unwrap_or_default(),
        user_timeout_ms: timeout.unwrap_or_default().cast_unsigned(),
    }
}

/// Bytes that a program's socket takes beyond what the stack's end has room for. Without a limit it would be
/// megabytes: a send buffer over loopback begins with room for twenty segments of 64 KiB.
const MOST_UNSENT: i32 = 128 << 10;

/// Lets a program's socket take little that the stack cannot take yet, unless the program has said how
/// much. It is told that it can write when half of that has gone.
pub fn keep_little_unsent(socket: BorrowedFd<'_>) {
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
    if option::<i32>(socket, level, name).is_ok_and(|own| own == 0) {
        // What cannot be limited holds more, and works.
        let _ = set_int(socket, level, name, MOST_UNSENT);
    }
}

/// Whether the program has chosen the size of the receive buffer, or may have: kernels before 5.16 do not tell.
pub fn has_own_receive_buffer(socket: BorrowedFd<'_>) -> bool {
    let locked = option::<i32>(socket, libc::SOL_SOCKET, SO_BUF_LOCK);
    locked.map_or(true, |locked| locked & SOCK_RCVBUF_LOCK != 0)
}

/// `SO_RCVBUF` as the kernel has it.
///
/// # Errors
/// When the descriptor is no socket.
pub fn receive_buffer(socket: BorrowedFd<'_>) -> io::Result<i32> {
    option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)
}

/// `TCP_INFO` as the kernel has it, at most `N` bytes.
///
/// # Errors
/// When the descriptor is no TCP socket.
pub fn info<const N: usize>(socket: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut value = [0_u8; N];
    let mut length = N as libc::socklen_t;
    let (to, fd) = (value.as_mut_ptr().cast(), socket.as_raw_fd());
    // SAFETY: the kernel writes at most `length` bytes into `value`.
    let result =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value.get(..length as usize).unwrap_or_default().to_vec())
}

fn option<T: Number>(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    let to = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `length` bytes into `value`, a number.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::Protocol;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    const CONNECTS: u32 = 20_000;

    #[test]
    fn a_thread_that_receives_does_not_hear_that_another_one_connects() {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (to, own) = (peer.local_addr().unwrap(), socket.local_addr().unwrap());
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    peer.send_to(b"x", own).unwrap();
                }
            });
            let receiving = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    socket.recv(&mut [0]).unwrap();
                }
            });
            for _ in 0..CONNECTS {
                connect(socket.as_fd(), to, false).unwrap();
            }
            over.store(true, Ordering::Relaxed);
            sending.join().unwrap();
            // It may have waited for one more.
            peer.send_to(b"x", own).unwrap();
            receiving.join().expect("no EAGAIN");
        });
    }

    #[test]
    fn a_connection_that_stands_keeps_its_mode_while_its_success_is_fetched() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let socket = TcpStream::connect(to).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    peer.write_all(b"x").unwrap();
                }
                peer.shutdown(std::net::Shutdown::Write).unwrap();
            });
            let receiving = scope.spawn(|| while (&socket).read(&mut [0; 64]).unwrap() > 0 {});
            for _ in 0..CONNECTS {
                let already = connect(socket.as_fd(), to, false).unwrap_err();
                assert_eq!(already.raw_os_error(), Some(libc::EISCONN));
            }
            over.store(true, Ordering::Relaxed);
            sending.join().unwrap();
            receiving.join().expect("no EAGAIN");
        });
    }

    fn written_unread(limit: impl Fn(&TcpStream)) -> usize {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut program = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _stack = listener.accept().unwrap();
        limit(&program);
        program.set_write_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        let mut written = 0;
        loop {
            match program.write(&[0; 16 << 10]) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return written,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_program_is_not_told_that_megabytes_have_gone() {
        let (much, little) =
            (written_unread(|_| ()), written_unread(|s| keep_little_unsent(s.as_fd())));
        assert!(little < much && little < 1 << 20, "{little} {much}");
    }

    #[test]
    fn a_limit_of_the_program_stays() {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
        written_unread(|socket| {
            set_int(socket.as_fd(), level, name, 5000).unwrap();
            keep_little_unsent(socket.as_fd());
            assert_eq!(option::<i32>(socket.as_fd(), level, name).unwrap(), 5000);
            set_int(socket.as_fd(), level, name, 0).unwrap();
            keep_little_unsent(socket.as_fd());
            assert_eq!(option::<i32>(socket.as_fd(), level, name).unwrap(), MOST_UNSENT);
        });
    }

    fn tcp(domain: Domain) -> Socket {
        Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).unwrap()
    }

    #[test]
    fn sockets_are_told_apart() {
        let udp = |domain| Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        let unix = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        assert_eq!(kind(unix.as_fd()).unwrap(), Kind::Other("not-tcp"));
        let families = [(Domain::IPV4, false), (Domain::IPV6, true)];
        // A host may have no IPv6.
        let has = |domain| Socket::new(domain, Type::DGRAM, None).is_ok();
        for (domain, v6) in families.into_iter().filter(|(domain, _)| has(*domain)) {
            assert_eq!(kind(tcp(domain).as_fd()).unwrap(), Kind::Tcp { v6 });
            assert_eq!(kind(udp(domain).as_fd()).unwrap(), Kind::Udp { v6 });
        }
        // SAFETY: a call without pointers.
        let user = unsafe { libc::geteuid() };
        assert_eq!(owner(tcp(Domain::IPV4).as_fd()).unwrap().0, user);
    }

    #[test]
    fn what_a_program_has_set_is_seen() {
        let socket = tcp(Domain::IPV4);
        let fd = socket.as_fd();
        let seen = || (is_port_shared(fd), connect_limit(fd), has_own_receive_buffer(fd));
        let device = || (is_bound_to_device(fd), is_marked(fd));
        assert_eq!((seen(), device()), ((false, None, false), (false, false)));
        set_int(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1).unwrap();
        socket.set_write_timeout(Some(Duration::from_secs(7))).unwrap();
        socket.set_recv_buffer_size(10_000).unwrap();
        assert_eq!(seen(), (true, Some(Duration::from_secs(7)), true));
        assert_eq!(receive_buffer(fd).unwrap(), 20_000, "the kernel doubles it");
        if socket.set_mark(5).is_ok() {
            assert!(is_marked(fd));
        }
        if socket.bind_device(Some(b"lo")).is_ok() {
            assert!(is_bound_to_device(fd));
        }
        let told = info::<8>(fd).unwrap();
        assert_eq!((told.len(), told.first()), (8, Some(&TCP_CLOSE)));
    }

    #[test]
    fn a_source_that_this_host_does_not_have_is_seen() {
        let socket = tcp(Domain::IPV4);
        assert!(is_own_source(local(socket.as_fd()).unwrap()), "any will do");
        set_int(socket.as_fd(), libc::IPPROTO_IP, libc::IP_FREEBIND, 1).unwrap();
        let foreign: SocketAddr = "192.0.2.1:0".parse().unwrap();
        socket.bind(&foreign.into()).unwrap();
        assert!(!is_own_source(local(socket.as_fd()).unwrap()));
        let own = tcp(Domain::IPV4);
        own.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        assert!(is_own_source(local(own.as_fd()).unwrap()));
    }
}
