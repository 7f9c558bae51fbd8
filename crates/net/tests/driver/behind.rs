//! TLS ports that a server shares with another one, and connections that are wrapped.

use crate::support::host;
use host::{Host, LIMIT, SCTP_PORT, drive, loopback, pair, text, transfer_on};
use manypath_net::{Behind, Carrier, Wrap, Wrapper};
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

const PROTOCOL: &[u8] = b"other";

/// Wraps by turning bits over, behind a ClientHello of the client and nothing else.
#[derive(Debug)]
struct Turned;

#[derive(Debug)]
struct Turns {
    hello: usize,
    came: Vec<u8>,
    leaves: Vec<u8>,
}

impl Wrapper for Turned {
    fn dial(&self) -> io::Result<Box<dyn Wrap>> {
        Ok(Box::new(Turns { hello: 0, came: Vec::new(), leaves: hello(PROTOCOL) }))
    }

    fn accept(&self) -> io::Result<Box<dyn Wrap>> {
        let hello = hello(PROTOCOL).len();
        Ok(Box::new(Turns { hello, came: Vec::new(), leaves: Vec::new() }))
    }

    fn protocol(&self) -> &[u8] {
        PROTOCOL
    }
}

impl Wrap for Turns {
    fn read_wire(&mut self, wire: &mut dyn Read) -> io::Result<usize> {
        let mut bytes = [0; 1000];
        let count = wire.read(&mut bytes)?;
        let first = self.hello.min(count);
        self.hello -= first;
        self.came.extend(bytes[first..count].iter().map(|byte| !byte));
        Ok(count)
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.came.len().min(into.len());
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        into[..count].copy_from_slice(&self.came[..count]);
        self.came.drain(..count);
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = &bytes[..bytes.len().min(1000)];
        self.leaves.extend(taken.iter().map(|byte| !byte));
        Ok(taken.len())
    }

    fn write_wire(&mut self, wire: &mut dyn Write) -> io::Result<bool> {
        while !self.leaves.is_empty() {
            match wire.write(&self.leaves) {
                Ok(count) => drop(self.leaves.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// A ClientHello that names one protocol and nothing else.
fn hello(protocol: &[u8]) -> Vec<u8> {
    let with_len = |width: usize, content: &[u8]| {
        [&content.len().to_be_bytes()[8 - width..], content].concat()
    };
    let alpn = with_len(2, &with_len(2, &with_len(1, protocol)));
    let extensions = with_len(2, &[&[0, 16][..], &alpn].concat());
    let body = [&[3, 3][..], &[0; 32], &[0], &[0, 2, 19, 1], &[1, 0], &extensions].concat();
    let message = [&[1][..], &with_len(3, &body)].concat();
    [&[22, 3, 1][..], &with_len(2, &message)].concat()
}

/// A client and a server that listens at a TLS port and has another server behind it: where that port is.
fn hosts(client: &str, server: &str, behind: Option<Behind>) -> (Host, Host, SocketAddr) {
    let (mut a, mut b) = pair(&loopback(&[client]), &loopback(&[server]));
    let port = TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    a.wrapper = Some(Arc::new(Turned));
    b.wrapper = Some(Arc::new(Turned));
    b.carry_by("off", 9, None);
    b.driver.pass_to(behind);
    b.driver.listen(Carrier::Tls(port)).unwrap();
    (a, b, SocketAddr::new(server.parse().unwrap(), port))
}

/// A web server of a kind: it says what has come, to its end, and how many connections there were.
fn echoes() -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut back = near.try_clone().unwrap();
        std::io::copy(&mut near, &mut back).unwrap();
        back.shutdown(Shutdown::Write).unwrap();
    });
    (addr, thread)
}

#[test]
fn wrapped_connections_carry_in_both_directions() {
    let (mut a, mut b, at) = hosts("127.7.30.1", "127.7.30.2", None);
    let usual = UdpSocket::bind("127.7.30.2:0").unwrap();
    let remote = usual.local_addr().unwrap();
    a.carry_by(&format!("tls:{}", at.port()), remote.port(), None);
    let id = a.connect(remote, SCTP_PORT);
    let text = text(4 << 20);
    transfer_on(&mut a, &mut b, id, &text, 16 << 10, || ());
    let path = manypath_engine::PathAddr { local: a.locals[0], remote };
    assert_eq!(a.driver.carrier_of(&path), Some(Carrier::Tls(at.port())));
    let back = b.events[0].0;
    transfer_on(&mut b, &mut a, back, &text, 16 << 10, || ());
    let status = b.driver.endpoint().status(b.clock.now(), back).unwrap();
    assert_eq!(b.driver.carrier_of(&status.paths[0].addr), Some(Carrier::Tls(at.port())));
    let counters = b.driver.counters();
    assert_eq!((counters.carrier_streams_accepted, counters.carrier_passes), (1, 0));
}

/// What a client at the port says and hears, to its end.
fn speaks(at: SocketAddr, bytes: Vec<u8>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(at).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let sent = std::thread::spawn(move || {
            writer.write_all(&bytes).and_then(|()| writer.shutdown(Shutdown::Write))
        });
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        let _ = sent.join().unwrap();
        heard
    })
}

#[test]
fn everybody_else_reaches_the_server_behind_the_port() {
    let others = [hello(b"h2"), b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![22, 3, 1, 0, 9, 2]];
    for (first, proxy_line) in others.into_iter().zip([false, true, false]) {
        let (addr, thread) = echoes();
        let behind = Some(Behind { addr, proxy_line });
        let (mut a, mut b, at) = hosts("127.7.31.1", "127.7.31.2", behind);
        let said = [&first[..], &text(3 << 20)].concat();
        let client = speaks(at, said.clone());
        drive(&mut a, &mut b, LIMIT, |_, _| client.is_finished());
        let heard = client.join().unwrap();
        let line = heard.len() - said.len();
        assert!(heard[line..] == said, "{} of {} bytes", heard.len(), said.len());
        let line = String::from_utf8_lossy(&heard[..line]);
        let told = line.starts_with("PROXY TCP4 127.0.0.1 127.7.31.2 ");
        assert!(told && line.ends_with(&format!(" {}\r\n", at.port())) || !proxy_line, "{line}");
        thread.join().unwrap();
        let counters = b.driver.counters();
        assert_eq!((counters.carrier_passes, counters.carrier_streams_accepted), (1, 0));
    }
}

#[test]
fn half_a_client_hello_and_its_end_are_passed_on() {
    let (addr, thread) = echoes();
    let (mut a, mut b, at) =
        hosts("127.7.36.1", "127.7.36.2", Some(Behind { addr, proxy_line: false }));
    let said = hello(PROTOCOL)[..30].to_vec();
    let client = speaks(at, said.clone());
    drive(&mut a, &mut b, LIMIT, |_, _| client.is_finished());
    assert_eq!(client.join().unwrap(), said);
    thread.join().unwrap();
    assert_eq!(b.driver.counters().carrier_streams_expired, 0);
}

/// As a web server does that refuses an upload.
#[test]
fn what_a_server_says_before_it_resets_a_connection_is_passed_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let behind = Some(Behind { addr: listener.local_addr().unwrap(), proxy_line: false });
    let server = std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        near.read_exact(&mut [0; 100]).unwrap();
        near.write_all(b"too large").unwrap();
        // Whatever it has not read resets the connection.
    });
    let (mut a, mut b, at) = hosts("127.7.37.1", "127.7.37.2", behind);
    let client = speaks(at, text(8 << 20).to_vec());
    drive(&mut a, &mut b, LIMIT, |_, _| client.is_finished());
    assert_eq!(client.join().unwrap(), b"too large");
    server.join().unwrap();
}

#[test]
fn without_a_server_behind_the_port_strangers_hear_nothing() {
    let (mut a, mut b, at) = hosts("127.7.32.1", "127.7.32.2", None);
    let client = speaks(at, hello(b"h2"));
    drive(&mut a, &mut b, LIMIT, |_, _| client.is_finished());
    assert_eq!(client.join().unwrap(), b"");
    assert_eq!(b.driver.counters().carrier_streams_foreign, 1);
}

#[test]
fn a_server_that_is_not_there_is_counted() {
    let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let behind = Some(Behind { addr, proxy_line: false });
    let (mut a, mut b, at) = hosts("127.7.33.1", "127.7.33.2", behind);
    let client = speaks(at, hello(b"h2"));
    drive(&mut a, &mut b, LIMIT, |_, _| client.is_finished());
    assert_eq!(client.join().unwrap(), b"");
    assert_eq!(b.driver.counters().carrier_passes_failed, 1);
}

/// They say nothing, or their ClientHello byte by byte; those who do neither are served meanwhile.
#[test]
fn slow_strangers_at_a_tls_port_are_few_and_not_for_long() {
    let (mut a, mut b, at) = hosts("127.7.34.1", "127.7.34.2", None);
    let mut strangers: Vec<_> = (0..140).map(|_| TcpStream::connect(at).unwrap()).collect();
    drive(&mut a, &mut b, LIMIT, |_, b| b.driver.counters().carrier_streams_refused == 12);
    for stranger in &mut strangers[..20] {
        stranger.write_all(&hello(PROTOCOL)[..30]).unwrap();
    }
    drive(&mut a, &mut b, LIMIT, |_, b| b.driver.counters().carrier_streams_expired == 128);
    for stranger in &mut strangers {
        assert_eq!(stranger.read(&mut [0]).unwrap_or(0), 0, "they hear nothing");
    }
    assert_eq!(b.driver.counters().carrier_streams_accepted, 0);
}

/// Whoever connected last has the best claim to be somebody who says something.
#[test]
fn silent_strangers_of_many_hosts_keep_nobody_out() {
    manypath_net::raise_descriptor_limit().unwrap();
    let (mut a, mut b, at) = hosts("127.7.38.1", "127.7.38.2", None);
    let connect = |host: u8| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 7, 38, host], 0)).into()).unwrap();
        socket.connect(&at.into()).unwrap();
        TcpStream::from(socket)
    };
    let mut strangers = Vec::new();
    for host in 100..105 {
        strangers.extend((0..120).map(|_| connect(host)));
        (0..20).for_each(|_| b.turn(Duration::from_millis(2)));
    }
    let mut last = connect(200);
    last.write_all(&hello(PROTOCOL)).unwrap();
    drive(&mut a, &mut b, LIMIT, |_, b| b.driver.counters().carrier_streams_accepted == 1);
    let counters = b.driver.counters();
    assert_eq!(counters.carrier_streams_refused, 0);
    assert!(counters.carrier_streams_expired >= 601 - 512, "{counters:?}");
}

/// Handshakes that lead to nothing are bounded as connections to a TCP carrier are.
#[test]
fn strangers_who_name_the_protocol_are_bounded_too() {
    let (mut a, mut b, at) = hosts("127.7.35.1", "127.7.35.2", None);
    let ours = |_| {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(&hello(PROTOCOL)).unwrap();
        stream
    };
    let _strangers: Vec<_> = (0..40).map(ours).collect();
    drive(&mut a, &mut b, LIMIT, |_, b| {
        let counters = b.driver.counters();
        counters.carrier_streams_accepted + counters.carrier_streams_refused == 40
    });
    assert_eq!(b.driver.counters().carrier_streams_refused, 24, "those of one host are few");
}
