//! A whole stack that is driven turn by turn on a clock of the test's, its launcher, and its network.
//!
//! Its sockets are the kernel's, on loopback addresses, where what is sent has arrived when the call returns; a
//! path is cut by a filter on the socket that it leads to.

use manypath_control::{ControlSocket, Incoming, Reply, Request, Role, VERSION};
use manypath_daemon::{
    Allow, Carrying, DEFAULT_UDP_PORT, Level, Limits, Locals, ProcessConfig, Stack, StackConfig,
};
use manypath_engine::Instant;
use manypath_rules::{Protocol, RulesFile, StepAside};
use socket2::{SockFilter, SockRef};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

pub(crate) const PATHS: usize = 2;
/// A service that is open, one that is not, one at which nobody listens, and one that is reached over SCTP alone.
pub(crate) const PORTS: [u16; 4] = [7001, 7002, 7003, 7004];
/// A service for datagrams.
pub(crate) const UDP_PORT: u16 = 7005;
/// At which services somebody listens.
pub(crate) const LISTENING: [usize; 3] = [0, 1, 3];

const RULES: &str = "remote enable port 7004 sctp-only=on\nremote enable udp port 7005\n";
/// BPF_RET | BPF_K: takes so many bytes of a packet.
const RETURN: u16 = 0x06;

/// The address of a host on a path. No other process has it.
pub(crate) fn address(host: usize, path: usize) -> IpAddr {
    let process = std::process::id();
    let network = (process / 30 % 120) as u8 * 2 + path as u8;
    Ipv4Addr::new(127, 220 + (process % 30) as u8, network, 1 + host as u8).into()
}

/// A service of a host.
pub(crate) fn service(host: usize, number: usize) -> SocketAddr {
    SocketAddr::new(address(host, 0), PORTS[number % PORTS.len()])
}

#[derive(Debug)]
pub(crate) struct Host {
    number: usize,
    stack: Stack,
    launcher: ControlSocket,
    sockets: Vec<UdpSocket>,
}

impl Host {
    pub(crate) fn start(number: usize, seed: u8) -> Self {
        let (launcher, control) = ControlSocket::pair().unwrap();
        launcher.set_nonblocking(true).unwrap();
        let bind = |path| UdpSocket::bind((address(number, path), DEFAULT_UDP_PORT)).unwrap();
        let sockets: Vec<UdpSocket> = (0..PATHS).map(bind).collect();
        let rules = std::env::temp_dir().join(format!("manypath-fuzz-{}", std::process::id()));
        std::fs::write(&rules, RULES).unwrap();
        let stack = Stack::new(StackConfig {
            locals: Locals::List((0..PATHS).map(|path| address(number, path)).collect()),
            udp_port: DEFAULT_UDP_PORT,
            // The same on every machine.
            limits: Limits { receive_memory: 256 << 20, ..Limits::default() },
            privileged_port: 0,
            accept: true,
            allow: open_services(number),
            rules: Some(RulesFile::named(rules.clone())),
            carrying: Carrying { step_aside: StepAside::Never, ..Carrying::default() },
            process: ProcessConfig {
                control: Some(OwnedFd::from(control)),
                sockets: sockets.iter().map(|one| one.try_clone().unwrap().into()).collect(),
                ..ProcessConfig::default()
            },
            loopback_paths: true,
            log: Level::Silent.into(),
            seed: Some([seed; 32]),
            ..StackConfig::default()
        });
        let _ = std::fs::remove_file(rules);
        let host = Self { number, stack: stack.unwrap(), launcher, sockets };
        host.tell(&Request::Hello { version: VERSION, role: Role::Launcher });
        host
    }

    /// Ends as a process does that is killed, and begins anew.
    pub(crate) fn restart(self, seed: u8) -> Self {
        let number = self.number;
        drop(self);
        Self::start(number, seed)
    }

    /// One turn, if there is something to do; whether there was.
    pub(crate) fn turn(&mut self, now: Instant) -> bool {
        let due = self.next_turn().is_some_and(|at| at <= now);
        self.stack.turn_at(now).unwrap() || due
    }

    pub(crate) fn next_turn(&self) -> Option<Instant> {
        self.stack.next_turn()
    }

    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Says something to the stack, which may be ending and hear nothing any more.
    pub(crate) fn tell(&self, request: &Request) {
        let _ = self.launcher.send(request, None);
    }

    /// Hands over the stack's end of a program's connection.
    pub(crate) fn attach(&self, id: u64, end: &TcpStream) {
        let _ = self.launcher.send(&Request::Attach { id }, Some(end.as_fd()));
    }

    /// What the stack says next.
    pub(crate) fn reply(&self) -> Option<Reply> {
        match self.launcher.receive() {
            Ok(Incoming::Message(reply, _)) => Some(reply),
            Ok(Incoming::Closed) | Err(_) => None,
        }
    }

    /// Lets nothing come in over a path any more, or again.
    pub(crate) fn cut(&self, path: usize, cut: bool) {
        let socket = SockRef::from(&self.sockets[path % PATHS]);
        if cut {
            socket.attach_filter(&[SockFilter::new(RETURN, 0, 0, 0)]).unwrap();
        } else {
            // There may be none.
            let _ = socket.detach_filter();
        }
    }
}

fn open_services(host: usize) -> Vec<Allow> {
    let entry = |port, protocol| Allow { addr: Some(address(host, 0)), port, protocol };
    let tcp = [PORTS[0], PORTS[2], PORTS[3]].map(|port| entry(port, Protocol::Tcp));
    tcp.into_iter().chain([entry(UDP_PORT, Protocol::Udp)]).collect()
}
