//! A stack for one measurement, connections through it to the peer's stack, and what both ends say meanwhile.

use super::super::probes::trial;
use manypath_control::status::{AssociationStatus, FallbackReason, PathStatus, StackStatus};
use manypath_control::{ControlClient, Reply, Request, Role, runtime};
use manypath_daemon::speed::{self, Measured, Meter, Report};
use manypath_gate::stack_link::StackLink;
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the stack may take to start, and the peer to answer.
const LIMIT: Duration = Duration::from_secs(6);
/// How long the peer may be silent in a test.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes that are read at a time, and the most of a report.
const PIECE: usize = 64 << 10;
/// Of a second of processor time, as the kernel counts it for programs (`USER_HZ`, proc(5)).
const TICKS: f64 = 100.0;

/// A stack that uses one uplink, or all.
pub(super) struct Session {
    link: StackLink,
    peer: SocketAddr,
    last_id: u64,
}

/// What the stack of this host says of its association with the peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    pub(super) paths: Vec<PathStatus>,
    pub(super) encrypted: bool,
    /// Seconds of processor time of the stack so far.
    pub(super) busy: f64,
}

impl Session {
    pub(super) fn new(
        peer: SocketAddr,
        peer_port: u16,
        uplink: Option<&str>,
    ) -> Result<Self, String> {
        let local: Vec<&str> = uplink.iter().flat_map(|name| ["--local", name]).collect();
        // Queues of the last test may hold the first packets up.
        let usual = ["--step-aside", "never", "--fallback-timeout", "3000"];
        let choice = trial::stack(peer_port, &[&usual[..], &local].concat())?;
        let link = StackLink::new(&choice, Role::Launcher).map_err(|error| error.to_string())?;
        Ok(Self { link, peer, last_id: 0 })
    }

    /// A connection to the stack of the peer.
    pub(super) fn connect(&mut self) -> Result<TcpStream, String> {
        self.last_id += 1;
        let (id, destination) = (self.last_id, self.peer);
        let (own, near) = pair().map_err(|error| error.to_string())?;
        let port = own.local_addr().map_err(|error| error.to_string())?.port();
        // A program that has bound its port: no plain TCP is tried beside SCTP, which nobody answers at this port.
        let unspecified: IpAddr = match destination {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let source = Some(SocketAddr::new(unspecified, port));
        self.link.send(Request::Open { id, destination, source, blocking: true }, None);
        self.await_answer(id)?;
        self.link.send(Request::Attach { id }, Some(near));
        Ok(own)
    }

    fn await_answer(&mut self, wanted: u64) -> Result<(), String> {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            match self.link.receive() {
                Some(Reply::Accepted { id, .. }) if id == wanted => return Ok(()),
                Some(Reply::Direct { id, reason }) if id == wanted => return Err(refusal(reason)),
                Some(Reply::Failed { id, errno }) if id == wanted => {
                    return Err(io::Error::from_raw_os_error(errno).to_string());
                }
                Some(_) => {}
                None if self.link.flush_and_is_lost() => {
                    return Err("the stack has ended".to_owned());
                }
                None => thread::sleep(PAUSE),
            }
        }
        Err("no answer in time".to_owned())
    }

    /// The queue of the line to the stack is sent, and what it says is taken.
    pub(super) fn turn(&mut self) {
        while self.link.receive().is_some() {}
        self.link.flush_and_is_lost();
    }

    /// What the peer's stack says of the association now.
    pub(super) fn ask_peer(&mut self) -> Option<Report> {
        let mut stream = self.connect().ok()?;
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        stream.write_all(speed::Request::Report.line().as_bytes()).ok()?;
        read_report(&mut stream).ok()
    }

    /// What the stack of this host says; none if it cannot be asked.
    pub(super) fn look(&self) -> Option<Look> {
        runtime::stacks().into_iter().find_map(|stack| {
            let client = ControlClient::connect(&stack.path, Role::Cli, LIMIT).ok()?;
            let status = client.status::<StackStatus>().ok()?;
            let one = status.associations.iter().find(|one| self.is_own(one))?;
            let encrypted = one.encryption.as_ref().is_some_and(|it| it.state == "encrypted");
            Some(Look { paths: one.paths.clone(), encrypted, busy: busy(status.pid) })
        })
    }

    fn is_own(&self, one: &AssociationStatus) -> bool {
        one.initiated && one.flows.iter().any(|flow| flow.destination == self.peer)
    }

    pub(super) fn end(mut self) {
        self.link.send(Request::Stop, None);
        trial::end(self.link);
    }
}

fn refusal(reason: FallbackReason) -> String {
    match () {
        () if reason == FallbackReason::NotAllowed => {
            "the peer tests only hosts in its file of --authorized, or for whom a rule opens the port: \
             manypath rules add local enable port 9899 peer=NAME"
                .to_owned()
        }
        () if reason == FallbackReason::Busy => "the peer is busy with other tests".to_owned(),
        () => reason.to_string(),
    }
}

/// Why a test has come to nothing.
pub(super) fn why(error: &io::Error) -> String {
    use io::ErrorKind as K;
    let is = |kinds: &[K]| kinds.contains(&error.kind());
    match () {
        () if is(&[K::WouldBlock, K::TimedOut]) => {
            format!("nothing moved for {} s", PATIENCE.as_secs())
        }
        () if is(&[K::UnexpectedEof, K::ConnectionReset, K::BrokenPipe]) => {
            "the connection has ended".to_owned()
        }
        () => error.to_string(),
    }
}

/// Two ends of a connection at loopback: ours, and the stack's.
fn pair() -> io::Result<(TcpStream, OwnedFd)> {
    let (own, near) = manypath_net::loopback_pair()?;
    near.set_nonblocking(true)?;
    SockRef::from(&near).set_linger(Some(Duration::ZERO))?;
    Ok((own, near.into()))
}

/// A test that runs.
pub(super) struct Running {
    /// Bytes so far.
    pub(super) bytes: Arc<AtomicU64>,
    pub(super) thread: thread::JoinHandle<io::Result<(Measured, Report)>>,
}

/// Begins a test over `stream`.
pub(super) fn begin(mut stream: TcpStream, request: speed::Request) -> Running {
    let bytes = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&bytes);
    let thread = thread::spawn(move || {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(request.line().as_bytes())?;
        match request {
            speed::Request::Download(time) => download(&mut stream, time, &told),
            speed::Request::Upload(time) => upload(&mut stream, time, &told),
            speed::Request::Report => Ok((Measured::default(), read_report(&mut stream)?)),
        }
    });
    Running { bytes, thread }
}

fn download(
    stream: &mut TcpStream,
    time: Duration,
    told: &AtomicU64,
) -> io::Result<(Measured, Report)> {
    let (mut meter, mut buffer) = (Meter::new(time), vec![0; PIECE]);
    // What was under way when the time was over may need as long as a test.
    let until = Instant::now() + time + speed::MAX_TIME;
    while Instant::now() < until {
        let count = stream.read(&mut buffer)?;
        let end = buffer[..count].iter().position(|byte| *byte != 0);
        meter.take(end.unwrap_or(count));
        told.store(meter.bytes(), Ordering::Relaxed);
        match end {
            None if count == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => {}
            Some(at) => {
                let rest = &buffer[at..count];
                return Ok((meter.measured(), read_report(&mut rest.chain(stream))?));
            }
        }
    }
    Err(io::Error::other("the peer does not end it in time"))
}

fn upload(
    stream: &mut TcpStream,
    time: Duration,
    told: &AtomicU64,
) -> io::Result<(Measured, Report)> {
    speed::send(stream, time, |sent| told.store(sent, Ordering::Relaxed))?;
    stream.shutdown(Shutdown::Write)?;
    // What is under way, and in buffers, arrives first.
    stream.set_read_timeout(Some(speed::MAX_TIME))?;
    let report = read_report(stream)?;
    Ok((report.taken, report))
}

fn read_report(from: &mut impl Read) -> io::Result<Report> {
    let mut text = String::new();
    from.take(PIECE as u64).read_to_string(&mut text)?;
    match serde_json::from_str(text.trim()) {
        Ok(report) => Ok(report),
        Err(_) if text.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

/// Seconds of processor time of a process.
fn busy(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().skip(11);
    fields.take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS
}
