//! The servers on the far host. One thread per connection; they live as long as the process.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::thread;

/// Counts what it reads; at the client's half-close answers the count and a checksum.
pub(crate) const COUNT: u16 = 7001;
/// Says who the client is, and which address it came to, then closes.
pub(crate) const WHO: u16 = 7002;
/// Sends back what comes.
pub(crate) const ECHO: u16 = 7003;
/// Sends without end.
pub(crate) const SOURCE: u16 = 7004;
/// Minimal HTTP: `/N` is N bytes.
pub(crate) const HTTP: u16 = 7005;
/// Nobody is there.
pub(crate) const CLOSED: u16 = 7006;
/// Datagrams come back.
pub(crate) const UDP: u16 = 7007;
/// Waits for the client's end and says on the next connection whether it was a reset.
pub(crate) const ENDING: u16 = 7008;

/// Starts all servers in the calling thread's network.
pub(crate) fn start(addresses: &[IpAddr]) -> io::Result<()> {
    serve(COUNT, count)?;
    serve(WHO, who)?;
    serve(ECHO, echo)?;
    serve(SOURCE, source)?;
    serve(HTTP, http)?;
    // One socket per address: the answer must come from the address that was asked.
    for address in addresses {
        datagrams(UdpSocket::bind((*address, UDP))?);
    }
    ending()
}

fn serve(port: u16, handler: fn(TcpStream) -> io::Result<()>) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || handler(stream));
        }
    });
    Ok(())
}

fn datagrams(socket: UdpSocket) {
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((n, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..n], from);
        }
    });
}

fn count(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 65536];
    let (mut bytes, mut sum) = (0u64, 0u64);
    loop {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        bytes += n as u64;
        sum = buffer[..n].iter().fold(sum, |sum, b| sum.wrapping_mul(31) ^ u64::from(*b));
    }
    writeln!(stream, "{bytes} {sum:016x}")
}

fn who(mut stream: TcpStream) -> io::Result<()> {
    let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
    let text = |a: std::net::SocketAddr| format!("{} {}", a.ip().to_canonical(), a.port());
    writeln!(stream, "{} {}", text(peer), text(local))
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut out = stream.try_clone()?;
    io::copy(&mut stream, &mut out)?;
    stream.shutdown(Shutdown::Write)
}

fn source(mut stream: TcpStream) -> io::Result<()> {
    let block = vec![b'x'; 65536];
    loop {
        stream.write_all(&block)?;
    }
}

fn http(mut stream: TcpStream) -> io::Result<()> {
    let mut request = Vec::new();
    let mut byte = [0];
    loop {
        if stream.read(&mut byte)? == 0 {
            return Ok(());
        }
        request.push(byte[0]);
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        let path = text.split(' ').nth(1).unwrap_or("/0").trim_start_matches('/');
        let length = path.split('?').next().unwrap_or("0");
        let length: usize = length.parse().unwrap_or(0);
        let close = text.to_ascii_lowercase().contains("connection: close");
        let ending = if close { "close" } else { "keep-alive" };
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: {ending}\r\n\r\n"
        )?;
        stream.write_all(&vec![b'm'; length])?;
        if close {
            return stream.shutdown(Shutdown::Write);
        }
        request.clear();
    }
}

/// Odd connections are watched, even ones hear how the one before ended.
fn ending() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, ENDING))?;
    thread::spawn(move || {
        while let Ok((mut watched, _)) = listener.accept() {
            let mut sink = Vec::new();
            let how = match watched.read_to_end(&mut sink) {
                Ok(n) => format!("closed after {n}\n"),
                Err(e) => format!("{}\n", e.kind()),
            };
            drop(watched);
            if let Ok((mut asker, _)) = listener.accept() {
                let _ = asker.write_all(how.as_bytes());
            }
        }
    });
    Ok(())
}
