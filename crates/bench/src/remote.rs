//! Two real hosts: one serves, the other measures. They talk by lines of JSON over TCP.

use crate::job::{Answer, Question};
use crate::local::LocalSide;
use crate::place::Place;
use crate::side::{Carried, Launch, Outcome, Side};
use crate::usage::Usage;
use manypath_lab::Host;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Both sides must have the same.
const VERSION: u32 = 1;
/// Longest line.
const LINE: usize = 1 << 20;
/// Largest write that a client may ask for.
const LENGTH: u32 = 16 << 20;
/// How often those who wait look whether they shall end.
const LOOK: Duration = Duration::from_millis(100);
/// How long the other side may take for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Request {
    Hello { version: u32 },
    Launch(Launch),
    Ask(usize, Question),
    Look,
    Usage,
    Stop,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Response {
    Hello { locals: Vec<IpAddr> },
    Launched(usize),
    Answer(Answer),
    Looked,
    Usage(Usage),
    Stopped(Option<Carried>),
    Failed(String),
}

/// Serves clients one after the other until `interrupted`, or with `once` until the first has gone.
///
/// # Errors
/// The port cannot be listened at.
pub fn serve(
    manypath: &Path,
    bind: Option<IpAddr>,
    port: u16,
    once: bool,
    interrupted: &AtomicBool,
    say: &mut dyn FnMut(&str),
) -> Outcome<()> {
    let listener = listen(bind, port).map_err(|e| format!("cannot listen at port {port}: {e}"))?;
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    say(&format!("manypath-lab bench: server listening at port {port}"));
    while !interrupted.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, from)) => {
                say(&format!("client {from}"));
                match session(manypath, stream, port, interrupted) {
                    Ok(()) => say(&format!("client {from} has finished")),
                    Err(reason) => say(&format!("client {from}: {reason}")),
                }
                if once {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(LOOK),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

fn listen(bind: Option<IpAddr>, port: u16) -> std::io::Result<TcpListener> {
    match bind {
        Some(address) => TcpListener::bind((address, port)),
        // Takes IPv4 as well, where there is IPv6.
        None => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))),
    }
}

/// Does what one client asks for.
fn session(manypath: &Path, stream: TcpStream, port: u16, interrupted: &AtomicBool) -> Outcome<()> {
    stream.set_nonblocking(false).map_err(|e| e.to_string())?;
    let own = stream.local_addr().map_err(|e| e.to_string())?.ip().to_canonical();
    let place = Place::between_hosts(own, own);
    let mut side = LocalSide::new(&place, Host::Right, manypath)?;
    let mut line = Line::new(stream, LOOK)?;
    let mut greeted = false;
    while let Some(text) = line.next(&|| interrupted.load(Ordering::Relaxed))? {
        let request: Request = serde_json::from_str(&text)
            .map_err(|_| "not a manypath-lab bench server".to_owned())?;
        let hello = matches!(request, Request::Hello { .. });
        let response = match greeted || hello {
            true => answer(&mut side, request, port),
            false => Err("greet first".to_owned()),
        };
        greeted |= hello;
        line.say(&response.unwrap_or_else(Response::Failed))?;
    }
    side.stop().map(drop)
}

fn answer(side: &mut LocalSide<'_>, request: Request, port: u16) -> Outcome<Response> {
    match request {
        Request::Hello { version: VERSION } => Ok(Response::Hello { locals: side.locals() }),
        Request::Hello { version } => {
            Err(format!("the server speaks version {VERSION}, the client {version}"))
        }
        Request::Launch(launch) => {
            permit(&launch, port)?;
            side.launch(&launch).map(Response::Launched)
        }
        Request::Ask(number, question) => side.ask(number, question).map(Response::Answer),
        Request::Look => side.look().map(|()| Response::Looked),
        Request::Usage => side.usage().map(Response::Usage),
        Request::Stop => side.stop().map(Response::Stopped),
    }
}

/// Whoever reaches the port can have sources and sinks at the ports beside it, and nothing else.
fn permit(launch: &Launch, port: u16) -> Outcome<()> {
    let beside = |asked: u16| (1..=3).any(|step| port.checked_add(step) == Some(asked));
    let permitted = match launch {
        Launch::Worker { job, manypath } => {
            let harmless = |part: &crate::job::Part| {
                part.listen
                    && beside(part.address.port())
                    && part.length <= LENGTH
                    && part.congestion.as_ref().is_none_or(|name| name.len() < 16)
            };
            manypath.is_none()
                && (1..=2).contains(&job.parts.len())
                && job.parts.iter().all(harmless)
        }
        Launch::Serve { allow, port } => {
            beside(*port) && !allow.is_empty() && allow.iter().all(|port| beside(*port))
        }
        Launch::IperfServer { port } => beside(*port),
        Launch::IperfClient(_) => false,
    };
    permitted.then_some(()).ok_or_else(|| "the server does not do that for others".to_owned())
}

/// The other host, where `manypath-lab bench -s` runs.
#[derive(Debug)]
pub struct Remote {
    line: Line,
    address: IpAddr,
    own: IpAddr,
    locals: Vec<IpAddr>,
}

impl Remote {
    /// Connects to it.
    ///
    /// # Errors
    /// No such host, nobody there, or something else than `manypath-lab bench -s`.
    pub fn connect(host: &str, port: u16) -> Outcome<Self> {
        let addresses = (host, port).to_socket_addrs().map_err(|e| format!("{host}: {e}"))?;
        let mut failure = format!("{host}: no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
                Ok(stream) => return Self::greet(stream, address),
                Err(error) => {
                    failure = format!("cannot reach manypath-lab bench -s at {address}: {error}")
                }
            }
        }
        Err(failure)
    }

    fn greet(stream: TcpStream, address: SocketAddr) -> Outcome<Self> {
        let own = stream.local_addr().map_err(|e| e.to_string())?.ip();
        let mut line = Line::new(stream, PATIENCE)?;
        let response = line.call(&Request::Hello { version: VERSION })?;
        let Response::Hello { locals } = response else { return Err(unexpected(&response)) };
        let address = Place::between_hosts(own, address.ip()).address(Host::Right);
        Ok(Self { line, address, own, locals })
    }

    /// The network between here and there.
    pub(crate) fn place(&self) -> Place {
        Place::between_hosts(self.own, self.address)
    }
}

impl Side for Remote {
    fn launch(&mut self, launch: &Launch) -> Outcome<usize> {
        let response = self.line.call(&Request::Launch(launch.clone()))?;
        let Response::Launched(number) = response else { return Err(unexpected(&response)) };
        Ok(number)
    }

    fn ask(&mut self, number: usize, question: Question) -> Outcome<Answer> {
        let response = self.line.call(&Request::Ask(number, question))?;
        let Response::Answer(answer) = response else { return Err(unexpected(&response)) };
        Ok(answer)
    }

    fn output(&mut self, _: usize) -> Outcome<String> {
        Err("nothing on the server ends by itself".to_owned())
    }

    fn look(&mut self) -> Outcome<()> {
        self.line.call(&Request::Look).map(drop)
    }

    fn usage(&mut self) -> Outcome<Usage> {
        let response = self.line.call(&Request::Usage)?;
        let Response::Usage(usage) = response else { return Err(unexpected(&response)) };
        Ok(usage)
    }

    fn stop(&mut self) -> Outcome<Option<Carried>> {
        self.line.call(&Request::Stop).map(|_| None)
    }

    fn address(&self) -> IpAddr {
        self.address
    }

    fn locals(&self) -> Vec<IpAddr> {
        self.locals.clone()
    }
}

fn unexpected(response: &Response) -> String {
    if let Response::Failed(reason) = response {
        return format!("the server says: {reason}");
    }
    format!("the server gave an answer that does not fit: {response:?}")
}

/// A connection with lines of JSON.
#[derive(Debug)]
struct Line {
    reader: BufReader<TcpStream>,
    text: Vec<u8>,
}

impl Line {
    fn new(stream: TcpStream, patience: Duration) -> Outcome<Self> {
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        stream.set_read_timeout(Some(patience)).map_err(|e| e.to_string())?;
        Ok(Self { reader: BufReader::new(stream), text: Vec::new() })
    }

    /// The next line; none when the other side has gone, or `ends` says so.
    fn next(&mut self, ends: &dyn Fn() -> bool) -> Outcome<Option<String>> {
        loop {
            let available = match self.reader.fill_buf() {
                Ok([]) => return Ok(None),
                Ok(available) => available,
                Err(error) if is_timeout(&error) => match ends() {
                    true => return Ok(None),
                    false => continue,
                },
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error.to_string()),
            };
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            self.text.extend_from_slice(&available[..taken]);
            self.reader.consume(taken);
            if self.text.len() > LINE {
                return Err("a line without an end".to_owned());
            }
            if end.is_some() {
                let line = std::mem::take(&mut self.text);
                return String::from_utf8(line).map(Some).map_err(|e| e.to_string());
            }
        }
    }

    fn say(&mut self, message: &impl Serialize) -> Outcome<()> {
        let mut text = serde_json::to_vec(message).map_err(|e| e.to_string())?;
        text.push(b'\n');
        self.reader.get_mut().write_all(&text).map_err(|e| format!("the other side: {e}"))
    }

    fn call(&mut self, request: &Request) -> Outcome<Response> {
        self.say(request)?;
        let text = self.next(&|| true)?.ok_or("the server no longer answers")?;
        match serde_json::from_str(&text) {
            Ok(Response::Failed(reason)) => Err(format!("the server says: {reason}")),
            Ok(response) => Ok(response),
            Err(_) => Err("not a manypath-lab bench server".to_owned()),
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Carrier, Job, Part, Task};

    fn worker(listen: bool, port: u16) -> Launch {
        let part = Part {
            listen,
            address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            locals: Vec::new(),
            carrier: Carrier::Tcp,
            task: Task::Receive,
            flows: 1,
            length: 1000,
            limit: None,
            congestion: None,
        };
        Launch::Worker { job: Job { parts: vec![part] }, manypath: None }
    }

    #[test]
    fn strangers_get_services_beside_the_port_and_nothing_else() {
        assert!(permit(&worker(true, 5202), 5201).is_ok());
        assert!(permit(&worker(true, 22), 5201).is_err());
        assert!(permit(&worker(false, 5202), 5201).is_err(), "no connections to others");
        assert!(permit(&Launch::Serve { allow: vec![5202], port: 5204 }, 5201).is_ok());
        assert!(permit(&Launch::Serve { allow: vec![22], port: 5204 }, 5201).is_err());
        assert!(permit(&Launch::IperfClient(Vec::new()), 5201).is_err());
    }
}
