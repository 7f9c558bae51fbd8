//! What a stack and `manypath doctor --speed` say to each other. TCP port 9899 of a host stands for its stack there.
//!
//! ```text
//! "manypath-speed 1 download MS\n" ──▶ zeros for so long, then a report
//! "manypath-speed 1 upload MS\n", zeros for so long, end ──▶ a report
//! "manypath-speed 1 report\n" ──▶ a report
//! ```
//!
//! A report is a line of JSON behind a line feed. A thread for each test sends and takes the bytes at loopback, as a
//! service would, so that what is measured is what connections get.

use manypath_control::path::IdleReason;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The TCP port that stands for the stack of a host: 9899 is registered for nothing but tunnels of SCTP.
pub const PORT: u16 = 9899;
/// For how long a test may run in one direction.
pub const MAX_TIME: Duration = Duration::from_secs(20);
/// Most bytes of a test.
const MAX_BYTES: u64 = 16 << 30;
/// How long the other side may be silent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest request.
const MAX_REQUEST: usize = 64;
/// The part of the time during which windows grow, and which does not count.
const WARM_UP_PART: u32 = 4;
/// Bytes that are read or written at a time.
const PIECE: usize = 64 << 10;
const MAGIC: &str = "manypath-speed 1";

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Bytes towards the client for so long.
    Download(Duration),
    /// Bytes from the client for so long.
    Upload(Duration),
    /// How the association stands.
    Report,
}

impl Request {
    /// The line that says it.
    #[must_use]
    pub fn line(self) -> String {
        match self {
            Self::Download(time) => format!("{MAGIC} download {}\n", time.as_millis()),
            Self::Upload(time) => format!("{MAGIC} upload {}\n", time.as_millis()),
            Self::Report => format!("{MAGIC} report\n"),
        }
    }
}

impl FromStr for Request {
    type Err = ();

    /// The line without its end.
    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.strip_prefix(MAGIC).ok_or(())?.split_whitespace().collect();
        let time = |text: &str| {
            let time = text.parse().map(Duration::from_millis).map_err(|_| ())?;
            Some(time).filter(|time| *time <= MAX_TIME).ok_or(())
        };
        match words[..] {
            ["download", text] => time(text).map(Self::Download),
            ["upload", text] => time(text).map(Self::Upload),
            ["report"] => Ok(Self::Report),
            _ => Err(()),
        }
    }
}

/// What the peer's stack knows of a path, as sender.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathView {
    /// Where this end is, as the peer sees it.
    pub remote: IpAddr,
    /// Packets sent.
    pub packets_sent: u64,
    /// Chunks sent again after a loss or a timeout.
    pub retransmits: u64,
    /// Why nothing is sent at this moment.
    pub idle: Option<IdleReason>,
}

/// How a test went, as the peer has seen it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Bytes that it has taken, and how fast.
    pub taken: Measured,
    /// Processor time that its stack has used meanwhile, in microseconds; none with several loops, of which each has a
    /// processor.
    pub busy_us: Option<u64>,
    /// Microseconds that the test took.
    pub time_us: u64,
    /// The paths of the association when the test began.
    pub paths: Vec<PathView>,
}

/// What was measured at the end that takes bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// All bytes.
    pub bytes: u64,
    /// Bits per second, once windows had had time to grow.
    pub bits_per_s: u64,
}

/// Counts bytes as they come.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    begun: Instant,
    warm_up: Duration,
    steady: Option<(Instant, u64)>,
    last: Instant,
    bytes: u64,
}

impl Meter {
    /// For a test of so long that begins now.
    #[must_use]
    pub fn new(time: Duration) -> Self {
        let now = Instant::now();
        Self { begun: now, warm_up: time / WARM_UP_PART, steady: None, last: now, bytes: 0 }
    }

    /// So many bytes have come.
    pub fn take(&mut self, bytes: usize) {
        (self.last, self.bytes) = (Instant::now(), self.bytes + bytes as u64);
        if self.steady.is_none() && self.last - self.begun >= self.warm_up {
            self.steady = Some((self.last, self.bytes));
        }
    }

    /// All bytes so far.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What has been measured.
    #[must_use]
    pub fn measured(&self) -> Measured {
        let whole = (self.begun, 0);
        let steady = self.steady.filter(|(since, _)| self.last - *since >= self.warm_up / 2);
        let (since, before) = steady.unwrap_or(whole);
        let nanos = (self.last - since).as_nanos().max(1);
        let bits = u128::from(self.bytes - before) * 8 * 1_000_000_000 / nanos;
        let bits_per_s = u64::try_from(bits).unwrap_or(u64::MAX);
        Measured { bytes: self.bytes, bits_per_s }
    }
}

/// Sends zeros until the time is over, and tells how many so far.
///
/// # Errors
/// When the other side has gone, or takes nothing.
pub fn send(stream: &mut impl Write, time: Duration, mut tell: impl FnMut(u64)) -> io::Result<()> {
    let (until, zeros, mut sent) = (Instant::now() + time, [0; PIECE], 0);
    while Instant::now() < until && sent < MAX_BYTES {
        sent += stream.write(&zeros)? as u64;
        tell(sent);
    }
    Ok(())
}

/// A connection that ends at the latest at `until`, and as soon as the other side has been silent for [`PATIENCE`].
struct Bounded {
    stream: TcpStream,
    until: Instant,
}

impl Bounded {
    /// How long the other side may be silent now.
    fn patience(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            Ok(Some(left.min(PATIENCE)))
        }
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.patience()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.patience()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A test that a peer has asked for, until it is over: `stream` leads to the stack. `one_loop`: the other threads of the
/// process have one processor for all that they do.
pub(crate) fn serve(stream: TcpStream, one_loop: bool, paths: Vec<PathView>) {
    // Whoever breaks it off learns no more of it.
    let _ = answer(stream, one_loop, paths);
}

fn answer(stream: TcpStream, one_loop: bool, paths: Vec<PathView>) -> io::Result<()> {
    let mut stream = Bounded { stream, until: Instant::now() + PATIENCE };
    let request = read_line(&mut stream)?.parse::<Request>();
    let (begun, busy) = (Instant::now(), others_busy());
    stream.until = begun + MAX_TIME + PATIENCE;
    let taken = match request.map_err(|()| io::ErrorKind::InvalidInput)? {
        Request::Download(time) => send(&mut stream, time, |_| {}).map(|()| Measured::default())?,
        Request::Upload(time) => take(&mut stream, time)?,
        Request::Report => Measured::default(),
    };
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let busy_us = one_loop.then(|| micros(others_busy().saturating_sub(busy)));
    let report = Report { taken, busy_us, time_us: micros(begun.elapsed()), paths };
    writeln!(stream, "\n{}", serde_json::to_string(&report)?)?;
    stream.stream.shutdown(Shutdown::Write)?;
    // An end with bytes that were not read would be a reset, which overtakes the report.
    let _ = stream.read(&mut [0; 1]);
    Ok(())
}

fn read_line(stream: &mut impl Read) -> io::Result<String> {
    let (mut line, mut byte) = (String::new(), [0]);
    loop {
        stream.read_exact(&mut byte)?;
        match byte[0] {
            b'\n' => return Ok(line),
            _ if line.len() == MAX_REQUEST => return Err(io::ErrorKind::InvalidData.into()),
            other => line.push(char::from(other)),
        }
    }
}

/// Takes bytes until they end. What is under way when the client's time is over may need as long again.
fn take(stream: &mut impl Read, time: Duration) -> io::Result<Measured> {
    let (mut meter, mut buffer) = (Meter::new(time), vec![0; PIECE]);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(meter.measured()),
            bytes => meter.take(bytes),
        }
        if meter.bytes() > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
    }
}

/// Processor time of the other threads of this process.
fn others_busy() -> Duration {
    let of = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    of(ClockId::ProcessCPUTime).saturating_sub(of(ClockId::ThreadCPUTime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_said_and_bounded() {
        for request in [
            Request::Download(Duration::from_millis(1500)),
            Request::Upload(MAX_TIME),
            Request::Report,
        ] {
            assert_eq!(request.line().trim_end().parse(), Ok(request));
        }
        for wrong in [
            "manypath-speed 1 download 20001",
            "manypath-speed 1 upload -5",
            "manypath-speed 1 upload",
            "manypath-speed 2 report",
            "manypath-speed 1",
            "GET / HTTP/1.1",
        ] {
            assert_eq!(wrong.parse::<Request>(), Err(()), "{wrong}");
        }
    }

    /// A client at loopback, and what it reads after it has said `words`.
    fn talk(words: &[u8]) -> String {
        let (mut client, stream) = manypath_net::loopback_pair().unwrap();
        let server = std::thread::spawn(move || serve(stream, true, Vec::new()));
        client.write_all(words).unwrap();
        let _ = client.shutdown(Shutdown::Write);
        let mut said = Vec::new();
        let _ = client.read_to_end(&mut said);
        drop(client);
        server.join().unwrap();
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn a_test_ends_with_a_report_and_a_stranger_hears_nothing() {
        let request = Request::Upload(Duration::from_millis(10)).line();
        let said = talk(&[request.as_bytes(), &[0; 300_000]].concat());
        let report: Report = serde_json::from_str(said.trim()).unwrap();
        assert_eq!(report.taken.bytes, 300_000);
        let said = talk(Request::Download(Duration::from_millis(10)).line().as_bytes());
        let (zeros, report) = said.split_once('\n').unwrap();
        assert!(zeros.len() >= PIECE && zeros.bytes().all(|byte| byte == 0));
        assert!(serde_json::from_str::<Report>(report).unwrap().time_us >= 10_000);
        assert_eq!(talk(b"GET / HTTP/1.1\r\n"), "");
        assert_eq!(talk(&[b'A'; 1000]), "");
    }

    #[test]
    fn a_client_that_says_its_request_slowly_is_let_go() {
        let (mut client, stream) = manypath_net::loopback_pair().unwrap();
        let slow = std::thread::spawn(move || {
            while client.write_all(b"m").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut stream = Bounded { stream, until: Instant::now() + Duration::from_millis(200) };
        let kind = read_line(&mut stream).unwrap_err().kind();
        assert!(matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{kind}");
        drop(stream);
        slow.join().unwrap();
    }

    #[test]
    fn what_comes_while_windows_grow_does_not_count() {
        let mut meter = Meter::new(Duration::from_millis(400));
        meter.take(1_000_000_000);
        std::thread::sleep(Duration::from_millis(110));
        meter.take(1);
        std::thread::sleep(Duration::from_millis(150));
        meter.take(1_000);
        let measured = meter.measured();
        assert!(measured.bits_per_s < 8_000_000, "{measured:?}");
        assert_eq!(measured.bytes, 1_000_001_001);
    }
}
