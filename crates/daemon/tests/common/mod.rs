//! What the tests of whole stacks need: hosts on loopback addresses of their own, a launcher that
//! speaks the control protocol, and local services.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod peer;

use manypath_control::status::{FallbackReason, StackStatus};
use manypath_control::{
    Assembler, ControlError, ControlSocket, Incoming, Reply, Request, Role, Transport, VERSION,
};
use manypath_daemon::{Allow, Carrying, Level, Locals, Stack, StackConfig, Stopper};
use manypath_engine::Instant as VirtualInstant;
use manypath_rules::{Protocol, RulesFile, StepAside};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than anything that a test waits for takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

static NETWORKS: AtomicU8 = AtomicU8::new(0);

/// Two networks of loopback addresses that no other test uses: two hosts, two paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    process: u8,
    first: u8,
}

impl Network {
    pub(crate) fn new() -> Self {
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let process = 16 + (std::process::id() % 100) as u8 * 2 + number / 127;
        Self { process, first: number % 127 * 2 + 1 }
    }

    fn addr(self, path: u8, host: u8) -> IpAddr {
        Ipv4Addr::new(127, self.process, self.first + path, host).into()
    }

    pub(crate) fn client(self) -> [IpAddr; 2] {
        [self.addr(0, 1), self.addr(1, 1)]
    }

    pub(crate) fn server(self) -> [IpAddr; 2] {
        [self.addr(0, 2), self.addr(1, 2)]
    }

    pub(crate) fn client_config(self) -> StackConfig {
        StackConfig {
            locals: Locals::List(self.client().to_vec()),
            loopback_paths: true,
            log: Level::Silent.into(),
            // Most tests are about SCTP, however short its paths are.
            carrying: Carrying {
                step_aside: StepAside::Never,
                tcp_race: false,
                ..Carrying::default()
            },
            ..StackConfig::default()
        }
    }

    pub(crate) fn server_config(self, allow: &[SocketAddr]) -> StackConfig {
        let entry = |addr: &SocketAddr| Allow {
            addr: Some(addr.ip()),
            port: addr.port(),
            protocol: Protocol::Tcp,
        };
        StackConfig {
            locals: Locals::List(self.server().to_vec()),
            udp_port: manypath_daemon::DEFAULT_UDP_PORT,
            accept: true,
            allow: allow.iter().map(entry).collect(),
            loopback_paths: true,
            log: Level::Silent.into(),
            ..StackConfig::default()
        }
    }
}

/// A table in a file of its own.
pub(crate) struct Table(PathBuf);

impl Table {
    pub(crate) fn new(network: Network, text: &str) -> Self {
        let name = format!("manypath-test-rules-{}", network.server()[0]);
        let table = Self(std::env::temp_dir().join(name));
        table.write(text);
        table
    }

    pub(crate) fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    pub(crate) fn file(&self) -> Option<RulesFile> {
        Some(RulesFile::named(self.0.clone()))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A stack that the test itself turns, in virtual time, and its launcher: no turn comes late.
pub(crate) struct VirtualHost {
    stack: Stack,
    launcher: ControlSocket,
}

impl VirtualHost {
    pub(crate) fn new(config: StackConfig) -> Self {
        Self::with_role(config, Role::Launcher)
    }

    pub(crate) fn with_role(mut config: StackConfig, role: Role) -> Self {
        let (launcher, control) = ControlSocket::pair().unwrap();
        launcher.set_nonblocking(true).unwrap();
        config.process.control = Some(control.into());
        config.seed.get_or_insert([1; 32]);
        let stack = Stack::new(config).unwrap();
        let mut host = Self { stack, launcher };
        host.send(&Request::Hello { version: VERSION, role });
        assert!(matches!(host.replies(0)[..], [Reply::Welcome { .. }]));
        host
    }

    /// Asks for a connection that does not block.
    pub(crate) fn open(&self, id: u64, destination: SocketAddr) {
        self.send(&Request::Open { id, destination, source: None, blocking: false });
    }

    /// What the stack says in a turn so many milliseconds after the begin.
    pub(crate) fn replies(&mut self, at: u64) -> Vec<Reply> {
        self.stack.turn_at(VirtualInstant::from_nanos(at * 1_000_000)).unwrap();
        std::iter::from_fn(|| match self.launcher.receive() {
            Ok(Incoming::Message(reply, _)) => Some(reply),
            Ok(Incoming::Closed) | Err(_) => None,
        })
        .collect()
    }

    /// What the stack says of itself to a launcher that asks before the turn at this time.
    pub(crate) fn status_at(&mut self, at: u64) -> StackStatus {
        self.send(&Request::Status);
        let mut assembler = Assembler::default();
        let parts = self.replies(at).into_iter().filter_map(|reply| match reply {
            Reply::StatusPart(part) => assembler.add(part).unwrap(),
            _ => None,
        });
        serde_json::from_str(&parts.last().unwrap()).unwrap()
    }

    /// Hands over one end of a fresh connection.
    pub(crate) fn attach(&self, id: u64) -> TcpStream {
        let (near, far) = tcp_pair();
        self.launcher.send(&Request::Attach { id }, Some(far.as_fd())).unwrap();
        near
    }

    /// The same, but the connection's end is lost on the way.
    pub(crate) fn attach_nothing(&self, id: u64) {
        self.send(&Request::Attach { id });
    }

    pub(crate) fn status(&self) -> StackStatus {
        self.stack.status()
    }

    pub(crate) fn send(&self, request: &Request) {
        self.launcher.send(request, None).unwrap();
    }
}

/// A stack in a thread of its own, stopped when the test is done with it.
#[derive(Debug)]
pub(crate) struct Host {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    pub(crate) fn start(config: StackConfig) -> Self {
        let stack = Stack::new(config).expect("the stack starts");
        let stopper = stack.stopper();
        let thread = std::thread::spawn(move || stack.run().expect("the stack runs"));
        Self { stopper, thread: Some(thread) }
    }

    /// A stack and the launcher that controls it.
    pub(crate) fn with_launcher(config: StackConfig) -> (Self, Launcher) {
        Self::with(config, Role::Launcher)
    }

    /// A stack and the redirector that controls it.
    pub(crate) fn with_redirector(config: StackConfig) -> (Self, Launcher) {
        Self::with(config, Role::Redirector)
    }

    fn with(mut config: StackConfig, role: Role) -> (Self, Launcher) {
        let (ours, theirs) = ControlSocket::pair().unwrap();
        config.process.control = Some(OwnedFd::from(theirs));
        (Self::start(config), Launcher::new(ours, role))
    }

    /// Waits for the stack to end by itself.
    pub(crate) fn wait(mut self) -> Duration {
        let begun = Instant::now();
        let thread = self.thread.take().unwrap();
        while !thread.is_finished() {
            assert!(begun.elapsed() < LIMIT, "the stack does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        thread.join().unwrap();
        begun.elapsed()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Twice: flows that a failed test has left behind are reset at once.
            let _ = self.stopper.stop();
            std::thread::sleep(Duration::from_millis(20));
            let _ = self.stopper.stop();
            let _ = thread.join();
        }
    }
}

/// The asking side of a control connection.
#[derive(Debug)]
pub(crate) struct Launcher {
    socket: ControlSocket,
    last: u64,
}

impl Launcher {
    pub(crate) fn new(socket: ControlSocket, role: Role) -> Self {
        socket.set_receive_timeout(Some(LIMIT)).unwrap();
        let launcher = Self { socket, last: 0 };
        launcher.send(&Request::Hello { version: VERSION, role });
        assert!(matches!(launcher.receive(), Reply::Welcome { version: VERSION, .. }));
        launcher
    }

    pub(crate) fn send(&self, request: &Request) {
        self.socket.send(request, None).unwrap();
    }

    pub(crate) fn receive(&self) -> Reply {
        match self.socket.receive() {
            Ok(Incoming::Message(reply, _)) => reply,
            other => panic!("no reply: {other:?}"),
        }
    }

    /// Whether the stack has closed the connection.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.socket.receive::<Reply>(), Ok(Incoming::Closed) | Err(ControlError::Closed))
    }

    /// Asks for a connection; the stack's first answer.
    pub(crate) fn open(&mut self, destination: SocketAddr, blocking: bool) -> (u64, Reply) {
        self.last += 1;
        let id = self.last;
        self.send(&Request::Open { id, destination, source: None, blocking });
        (id, self.answer(id))
    }

    /// What the stack says next of connection `id`. Earlier ones may end meanwhile.
    pub(crate) fn answer(&self, id: u64) -> Reply {
        loop {
            match self.receive() {
                Reply::Closed { id: ended } if ended < id => {}
                reply => return reply,
            }
        }
    }

    /// The number of the latest connection that was asked for.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// Asks for a connection of a socket that waits; its number.
    pub(crate) fn open_waiting(&mut self, destination: SocketAddr) -> u64 {
        self.last += 1;
        self.send(&Request::OpenWaiting { id: self.last, destination, source: None });
        self.last
    }

    /// Connects, over whatever the stack finds; the program's end of the connection.
    pub(crate) fn connect(
        &mut self,
        destination: SocketAddr,
        blocking: bool,
    ) -> (Transport, TcpStream) {
        let (id, first) = self.open(destination, blocking);
        assert_eq!(first, Reply::Pending { id });
        match self.answer(id) {
            Reply::Accepted { id: accepted, transport, peer, .. } if accepted == id => {
                assert_eq!(peer, destination);
                (transport, self.attach(id))
            }
            other => panic!("not accepted: {other:?}"),
        }
    }

    /// Connects over SCTP.
    pub(crate) fn connect_sctp(&mut self, destination: SocketAddr) -> TcpStream {
        let (transport, stream) = self.connect(destination, true);
        assert_eq!(transport, Transport::Sctp);
        stream
    }

    /// Hands over one end of a fresh connection.
    pub(crate) fn attach(&self, id: u64) -> TcpStream {
        let (near, far) = tcp_pair();
        self.hand_over(id, &far);
        near
    }

    /// Hands over the stack's end of a connection.
    pub(crate) fn hand_over(&self, id: u64, far: &TcpStream) {
        self.socket.send(&Request::Attach { id }, Some(far.as_fd())).unwrap();
    }

    /// What the stack does with a connection that it does not carry, and how soon it says so.
    pub(crate) fn direct(&mut self, destination: SocketAddr) -> (FallbackReason, Duration) {
        let begun = Instant::now();
        let (id, mut reply) = self.open(destination, true);
        while reply == (Reply::Pending { id })
            || matches!(reply, Reply::Closed { id: ended } if ended < id)
        {
            reply = self.receive();
        }
        match reply {
            Reply::Direct { reason, .. } => (reason, begun.elapsed()),
            other => panic!("not direct: {other:?}"),
        }
    }

    /// Asks for datagrams to be carried; what the stack says once that is known.
    pub(crate) fn open_datagrams(&mut self, destination: SocketAddr) -> (u64, Reply) {
        self.last += 1;
        let (id, source) = (self.last, SocketAddr::from(([0; 4], 0)));
        self.send(&Request::OpenDatagrams { id, destination, source });
        match self.answer(id) {
            Reply::Pending { id: pending } if pending == id => (id, self.answer(id)),
            reply => (id, reply),
        }
    }

    /// The program's socket for datagrams that are carried.
    pub(crate) fn attach_datagrams(&self, id: u64) -> UdpSocket {
        let [program, stack] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let addr = program.local_addr().unwrap();
        program.connect(stack.local_addr().unwrap()).unwrap();
        stack.connect(addr).unwrap();
        program.set_read_timeout(Some(LIMIT)).unwrap();
        let inode = std::fs::metadata(format!("/proc/self/fd/{}", program.as_raw_fd()));
        let inode = Some(std::os::unix::fs::MetadataExt::ino(&inode.unwrap()));
        let attach = Request::AttachDatagrams { id, program: addr, inode, connected: true };
        self.socket.send(&attach, Some(stack.as_fd())).unwrap();
        program
    }

    pub(crate) fn status(&self) -> StackStatus {
        self.send(&Request::Status);
        let mut assembler = Assembler::default();
        loop {
            match self.receive() {
                Reply::StatusPart(part) => {
                    if let Some(text) = assembler.add(part).unwrap() {
                        return serde_json::from_str(&text).unwrap();
                    }
                }
                // Connections of the test end when they do.
                Reply::Closed { .. } => {}
                other => panic!("not a status: {other:?}"),
            }
        }
    }

    /// Asks for the status until it is as expected.
    pub(crate) fn wait_for(
        &self,
        what: &str,
        mut expected: impl FnMut(&StackStatus) -> bool,
    ) -> StackStatus {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if expected(&status) {
                return status;
            }
            assert!(begun.elapsed() < LIMIT, "{what} did not come about: {status:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Looks again and again until there is something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Some(found) => return found,
            None => assert!(begun.elapsed() < LIMIT, "{what} did not come about"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn counter(status: &StackStatus, name: &str) -> u64 {
    status.counters.get(name).copied().unwrap_or_default()
}

/// Two connected TCP sockets on 127.0.0.1.
pub(crate) fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    near.set_read_timeout(Some(LIMIT)).unwrap();
    near.set_write_timeout(Some(LIMIT)).unwrap();
    (near, far)
}

/// A service on an address of the server, handled by `serve` in a thread per connection. The
/// threads end with their connections, the listener with the test program. It waits for its clients
/// without a limit: some of a thousand are idle for long.
pub(crate) fn service(
    addr: IpAddr,
    serve: impl Fn(TcpStream) + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind((addr, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    addr
}

/// Gives back what it gets, until the end.
pub(crate) fn echo(mut stream: TcpStream) {
    let mut other = stream.try_clone().unwrap();
    let _ = std::io::copy(&mut stream, &mut other);
    let _ = other.shutdown(Shutdown::Write);
}

/// A port of `addr` at which nobody listens.
pub(crate) fn unused_port(addr: IpAddr) -> SocketAddr {
    TcpListener::bind((addr, 0)).unwrap().local_addr().unwrap()
}

/// Bytes that differ at every position of any stretch that matters.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&next());
    }
    bytes.truncate(len);
    bytes
}

/// Sends, half-closes and reads to the end.
pub(crate) fn exchange(mut stream: TcpStream, sent: Vec<u8>) -> Vec<u8> {
    let mut writer = stream.try_clone().unwrap();
    let thread = std::thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    thread.join().unwrap();
    received
}

/// Closes with a reset.
pub(crate) fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}
