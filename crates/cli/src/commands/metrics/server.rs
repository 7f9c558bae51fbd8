//! Figures over HTTP: one request for each connection, one resource.

use super::ledger::Ledger;
use super::stacks;
use crate::failure::Failure;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a client may take to ask; and to take the answer, each part of it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that a request may have.
const MAX_REQUEST: u64 = 8 << 10;
/// Clients at a time; others are turned away.
const MAX_CLIENTS: usize = 8;
/// What OpenMetrics says of itself.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Serves until interrupted.
pub(super) fn serve(addr: SocketAddr, all: bool) -> Result<u8, Failure> {
    let listener = TcpListener::bind(addr)
        .map_err(|e| Failure::new(format!("--listen {addr}: {e}")).hint(instead(e.kind())))?;
    eprintln!("manypath: http://{}/metrics", listener.local_addr()?);
    let clients = AtomicUsize::new(0);
    let ledger = Mutex::new(Ledger::default());
    std::thread::scope(|scope| {
        loop {
            let Ok((client, _)) = listener.accept() else {
                // Out of descriptors, most likely: those of other clients come free.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if clients.load(Ordering::Relaxed) >= MAX_CLIENTS {
                let _ = answer(&client, "503 Service Unavailable", PLAIN, "too many clients\n");
                continue;
            }
            clients.fetch_add(1, Ordering::Relaxed);
            scope.spawn(|| {
                // Whoever goes away early gets nothing; the next one is not concerned.
                let _ = serve_client(client, all, &ledger);
                clients.fetch_sub(1, Ordering::Relaxed);
            });
        }
    })
}

/// What to do when it cannot be listened there.
fn instead(why: io::ErrorKind) -> &'static str {
    if why == io::ErrorKind::AddrNotAvailable {
        "`ip address` shows the addresses of this host"
    } else if why == io::ErrorKind::PermissionDenied {
        "ports below 1024 need root: choose a higher one"
    } else {
        "choose another port"
    }
}

fn serve_client(client: TcpStream, all: bool, ledger: &Mutex<Ledger>) -> io::Result<()> {
    client.set_write_timeout(Some(PATIENCE))?;
    let until = Instant::now() + PATIENCE;
    let mut request = BufReader::new(Hurried { client: &client, until }.take(MAX_REQUEST));
    let mut first = String::new();
    request.read_line(&mut first)?;
    skip_headers(&mut request)?;
    match wanted(&first) {
        Wanted::Figures => match figures(all, ledger) {
            Ok(text) => answer(&client, "200 OK", FORMAT, &text),
            Err(why) => answer(&client, "500 Internal Server Error", PLAIN, &format!("{why}\n")),
        },
        Wanted::Other => answer(&client, "404 Not Found", PLAIN, "try /metrics\n"),
        Wanted::Unknown => answer(&client, "405 Method Not Allowed", PLAIN, "GET only\n"),
    }
}

/// One look after the other: an earlier one must not be taken for news after a later one.
fn figures(all: bool, ledger: &Mutex<Ledger>) -> Result<String, Failure> {
    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    super::text(&mut ledger, &stacks::query(all)?)
}

/// Reads as long as there is time: a byte now and then does not buy more of it.
struct Hurried<'a> {
    client: &'a TcpStream,
    until: Instant,
}

impl Read for Hurried<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.client.set_read_timeout(Some(left))?;
        self.client.read(buffer)
    }
}

/// Up to the empty line, or to the limit: what they say makes no difference.
fn skip_headers(request: &mut impl BufRead) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if request.read_until(b'\n', &mut line)? == 0 || line == b"\r\n" || line == b"\n" {
            return Ok(());
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Figures,
    Other,
    Unknown,
}

fn wanted(request: &str) -> Wanted {
    let mut words = request.split_whitespace();
    match (words.next(), words.next()) {
        (Some("GET"), Some(target)) if target.split('?').next() == Some("/metrics") => {
            Wanted::Figures
        }
        (Some("GET"), Some(_)) => Wanted::Other,
        _ => Wanted::Unknown,
    }
}

fn answer(mut client: &TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{Wanted, wanted};

    #[test]
    fn one_resource_is_there() {
        assert_eq!(wanted("GET /metrics HTTP/1.1\r\n"), Wanted::Figures);
        assert_eq!(wanted("GET /metrics?a=b HTTP/1.0\r\n"), Wanted::Figures);
        assert_eq!(wanted("GET / HTTP/1.1\r\n"), Wanted::Other);
        assert_eq!(wanted("POST /metrics HTTP/1.1\r\n"), Wanted::Unknown);
        assert_eq!(wanted("\r\n"), Wanted::Unknown);
    }
}
