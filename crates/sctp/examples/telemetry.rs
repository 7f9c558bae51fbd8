//! One one-to-many socket: a collector that many senders report to, with news of associations, messages that
//! may get lost, and a descriptor that is polled.
//!
//! ```text
//! telemetry collect ADDRESS:PORT SENDERS   ends when so many have come and gone
//! telemetry report ADDRESS:PORT SAMPLES
//! ```

use manypath_sctp::{
    AssociationState, Kind, Notification, Options, Outgoing, Received, Reliability, Socket, To,
};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Payload protocol identifiers: of samples that may get lost, and of the last one.
const SAMPLE: u32 = 1;
const LAST: u32 = 2;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, address, count] = &words[..] else {
        return Err(io::Error::other("usage: telemetry collect|report ADDRESS:PORT COUNT"));
    };
    let address = address.parse().map_err(io::Error::other)?;
    let count = count.parse().map_err(io::Error::other)?;
    if what == "collect" { collect(address, count) } else { report(address, count) }
}

fn collect(at: SocketAddr, senders: u32) -> io::Result<()> {
    let socket = Options::new().notify(&[Kind::Association]).socket(at)?;
    socket.set_nonblocking(true)?;
    println!("ready");
    let (mut gone, mut samples, mut last) = (0, 0, 0);
    while gone < senders {
        match socket.recv() {
            Ok(Received::Message(message)) => {
                samples += u32::from(message.ppid == SAMPLE && message.unordered);
                last += u32::from(message.ppid == LAST);
            }
            Ok(Received::Notification(Notification::Association { state, .. })) => {
                gone += u32::from(state != AssociationState::Up);
            }
            Ok(Received::Notification(_)) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&socket)?,
            Err(error) => return Err(error),
        }
    }
    println!("{senders} senders, {samples} samples, {last} ends");
    Ok(())
}

/// Waits until something can be read.
fn wait(socket: &Socket) -> io::Result<()> {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel reads and writes one pollfd.
    match unsafe { libc::poll(&raw mut poll, 1, 20_000) } {
        0 => Err(ErrorKind::TimedOut.into()),
        found if found < 0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn report(to: SocketAddr, samples: u32) -> io::Result<()> {
    let any = SocketAddr::from(([0; 4], 0));
    let socket = Options::new().notify(&[Kind::SenderDry]).socket(any)?;
    let association = socket.connect(to)?;
    for number in 0..samples {
        let sample = Outgoing {
            stream: 1,
            ppid: SAMPLE,
            unordered: true,
            reliability: Some(Reliability::Lifetime(Duration::from_secs(5))),
            ..Outgoing::new(number.to_be_bytes().to_vec())
        };
        socket.send(To::Association(association), &sample)?;
    }
    socket.send(To::Address(to), &Outgoing { ppid: LAST, ..Outgoing::new("end") })?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    while socket.recv()? != Received::Notification(Notification::SenderDry(association)) {}
    socket.shutdown(association)?;
    println!("{samples} samples sent");
    Ok(())
}
