//! The test stack: speaks the control protocol and relays to plain TCP.
//!
//! Where the real stack has an association, this one has a delay. What it answers depends on the
//! destination's last byte: .3 is `Direct` at once, .4 is `Direct` after a while (relayed TCP for
//! those who cannot wait), all others are "SCTP". With `deaf` it answers nothing at all.

use manypath_control::status::FallbackReason;
use manypath_control::{ControlSocket, Incoming, Reply, Request, Transport, VERSION, runtime};
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What the attempts have in common.
struct Shared {
    control: ControlSocket,
    delay: Duration,
    /// Accepted and not attached yet; `None` while the attempt runs.
    upstream: Mutex<HashMap<u64, Option<TcpStream>>>,
}

pub(crate) fn main(args: &[String]) -> ExitCode {
    let fd = value(args, "--control-fd").expect("launcher").parse().expect("number");
    // SAFETY: the launcher gave us this descriptor and told us so; nobody else uses it.
    let control = ControlSocket::adopt(unsafe { OwnedFd::from_raw_fd(fd) }).expect("control");
    let delay = value(args, "--delay").map_or(20, |ms| ms.parse().expect("milliseconds"));
    let delay = Duration::from_millis(delay);
    let shared = Arc::new(Shared { control, delay, upstream: Mutex::default() });
    if let Some(path) = value(args, "--pid-file") {
        std::fs::write(path, std::process::id().to_string()).expect("pid file");
    }
    let deaf = args.iter().any(|arg| arg == "deaf");
    while let Ok(Incoming::Message(request, fd)) = shared.control.receive() {
        if !deaf {
            handle(&shared, request, fd);
        }
    }
    ExitCode::SUCCESS
}

fn value<'a>(args: &'a [String], name: &str) -> Option<&'a str> {
    let at = args.iter().position(|arg| arg == name)?;
    args.get(at + 1).map(String::as_str)
}

fn handle(shared: &Arc<Shared>, request: Request, fd: Option<OwnedFd>) {
    match request {
        Request::Hello { .. } => {
            let namespace = runtime::network_namespace().expect("proc");
            let pid = std::process::id();
            shared.say(&Reply::Welcome { version: VERSION, pid, namespace, counts_traffic: false });
        }
        Request::Open { id, destination, source, blocking } => {
            open(shared, id, destination, source, (blocking, false));
        }
        Request::Cancel { id } => drop(shared.upstream.lock().expect("lock").remove(&id)),
        Request::Attach { id } => {
            let upstream = shared.upstream.lock().expect("lock").remove(&id).flatten();
            let near = TcpStream::from(fd.expect("descriptor"));
            near.set_nonblocking(false).expect("blocking");
            if let Some(upstream) = upstream {
                let shared = Arc::clone(shared);
                thread::spawn(move || relay(&shared, id, near, upstream));
            }
        }
        // What it stands for is real TCP: the kernel's own answer is right.
        Request::Way { id } => shared.say(&Reply::Way { id, way: None }),
        Request::OpenWaiting { id, destination, source } => {
            open_waiting(shared, id, destination, source);
        }
        // Said by redirectors.
        Request::Expect { .. }
        | Request::DatagramLine
        | Request::Looked { .. }
        | Request::Resign
        | Request::Noted { .. } => {}
        Request::Listen { .. }
        | Request::WayFrom { .. }
        | Request::Withdraw { .. }
        | Request::Tally { .. }
        | Request::Watch
        | Request::Options { .. }
        | Request::OpenDatagrams { .. }
        | Request::AttachDatagrams { .. }
        | Request::Told { .. }
        | Request::Status
        | Request::Reload
        | Request::ForgetPeers { .. }
        | Request::TakeOver
        | Request::Line { .. }
        | Request::TakenOver
        | Request::Traffic
        | Request::Stop => {}
    }
}

/// For a socket that cannot go back.
fn open_waiting(
    shared: &Arc<Shared>,
    id: u64,
    destination: SocketAddr,
    source: Option<SocketAddr>,
) {
    if destination.ip() == IpAddr::from([10, 99, 0, 3]) {
        shared.say(&Reply::Plain { destination, for_ms: 0 });
    }
    open(shared, id, destination, source, (false, true));
}

fn open(
    shared: &Arc<Shared>,
    id: u64,
    destination: SocketAddr,
    source: Option<SocketAddr>,
    (blocking, waiting): (bool, bool),
) {
    let host = match destination.ip() {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    };
    if host == 3 && !waiting {
        return shared.say(&Reply::Direct { id, reason: FallbackReason::Remembered });
    }
    if let Err(errno) = has_route(destination) {
        return shared.say(&Reply::Failed { id, errno });
    }
    shared.upstream.lock().expect("lock").insert(id, None);
    shared.say(&Reply::Pending { id });
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        thread::sleep(shared.delay);
        if host == 4 && blocking {
            shared.upstream.lock().expect("lock").remove(&id);
            return shared.say(&Reply::Direct { id, reason: FallbackReason::Silent });
        }
        let transport = if host == 3 || host == 4 { Transport::TcpRelay } else { Transport::Sctp };
        shared.decided(id, destination, transport, dial(destination, source));
    });
}

impl Shared {
    fn say(&self, reply: &Reply) {
        // The launcher may have gone; we hear of that when we read.
        let _ = self.control.send(reply, None);
    }

    fn decided(
        &self,
        id: u64,
        peer: SocketAddr,
        transport: Transport,
        dialled: io::Result<TcpStream>,
    ) {
        let mut upstream = self.upstream.lock().expect("lock");
        // Cancelled meanwhile?
        let Some(place) = upstream.get_mut(&id) else { return };
        match dialled {
            Ok(stream) => {
                let local = stream.local_addr().expect("connected");
                *place = Some(stream);
                self.say(&Reply::Accepted { id, transport, local, peer });
            }
            Err(e) => {
                upstream.remove(&id);
                let errno = e.raw_os_error().unwrap_or(libc::EIO);
                self.say(&Reply::Failed { id, errno });
            }
        }
    }
}

fn has_route(destination: SocketAddr) -> Result<(), i32> {
    let probe = Socket::new(Domain::for_address(destination), Type::DGRAM, None);
    let connected = probe.and_then(|probe| probe.connect(&destination.into()));
    connected.map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))
}

fn dial(destination: SocketAddr, source: Option<SocketAddr>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(destination), Type::STREAM, None)?;
    if let Some(source) = source {
        // The program's own socket has the port already.
        socket.bind(&SockAddr::from(SocketAddr::new(source.ip(), 0)))?;
    }
    socket.connect(&destination.into())?;
    Ok(socket.into())
}

/// Both directions, each until its end; a reset on one side is a reset on the other.
fn relay(shared: &Shared, id: u64, near: TcpStream, far: TcpStream) {
    let upward = (near.try_clone().expect("clone"), far.try_clone().expect("clone"));
    let up = thread::spawn(move || pump(upward.0, upward.1));
    let down = pump(far.try_clone().expect("clone"), near.try_clone().expect("clone"));
    let up = up.join().expect("pump");
    let linger = (!(up && down)).then_some(Duration::ZERO);
    for side in [near, far] {
        Socket::from(side).set_linger(linger).expect("linger");
    }
    shared.say(&Reply::Closed { id });
}

/// True when the end was orderly.
fn pump(mut from: TcpStream, mut to: TcpStream) -> bool {
    let mut buffer = vec![0; 65536];
    let outcome = loop {
        match from.read(&mut buffer) {
            Ok(0) => break to.shutdown(Shutdown::Write).is_ok(),
            Ok(n) => match buffer.get(..n).map(|bytes| to.write_all(bytes)) {
                Some(Ok(())) => {}
                Some(Err(_)) | None => break false,
            },
            Err(_) => break false,
        }
    };
    if !outcome {
        // Wakes the other direction, and sends nothing: a reset shall be the last word.
        let _ = from.shutdown(Shutdown::Read);
        let _ = to.shutdown(Shutdown::Read);
    }
    outcome
}
