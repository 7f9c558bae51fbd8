//! dcsctp, which knows neither sockets nor clocks, as one end of a transfer in UDP. Command line and result are those of
//! `../sockets/peer.c`, as far as dcsctp has what they ask for.

mod checksum;
mod end;
mod options;

use dcsctp::api::{DcSctpSocket, SocketEvent, SocketTime};
use end::End;
use options::Options;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// SCTP in UDP (RFC 6951).
const ENCAPSULATION: u16 = 9899;
/// After its end it answers a SHUTDOWN ACK that comes again because SHUTDOWN COMPLETE was lost.
const LINGER: Duration = Duration::from_millis(1200);
const PAUSE: Duration = Duration::from_millis(20);

/// Leaves with a reason.
pub(crate) fn fail(what: &str) -> ! {
    eprintln!("peer: {what}");
    std::process::exit(1)
}

/// What carries the packets of one association.
struct Wire {
    udp: UdpSocket,
    far: Option<SocketAddr>,
    sctp: Option<Box<dyn DcSctpSocket>>,
    start: Instant,
}

impl Wire {
    fn open(options: &Options) -> Self {
        let own = format!("{}:{ENCAPSULATION}", options.own);
        let udp = UdpSocket::bind(&own).unwrap_or_else(|error| fail(&format!("{own}: {error}")));
        Self { udp, far: None, sctp: None, start: Instant::now() }
    }

    fn connect(&mut self, options: &Options, far: &str) {
        let far = format!("{far}:{ENCAPSULATION}");
        self.far = Some(far.parse().unwrap_or_else(|_| fail(&far)));
        let mut sctp = dcsctp::new_socket("peer", &options.of_client());
        sctp.connect();
        self.sctp = Some(sctp);
    }

    fn now(&self) -> SocketTime {
        SocketTime::zero() + self.start.elapsed()
    }

    /// Gives packets and the time to dcsctp, waiting for either, but not long.
    fn wait(&mut self, options: &Options) {
        let now = self.now();
        let due = self.sctp.as_ref().map_or(PAUSE, |sctp| sctp.poll_timeout() - now);
        let limit = Some(due.clamp(Duration::from_micros(100), PAUSE));
        self.udp.set_read_timeout(limit).unwrap_or_else(|error| fail(&error.to_string()));
        let mut packet = [0; 65536];
        let got = match self.udp.recv_from(&mut packet) {
            Ok((len, from)) => Some((&packet[..len], from)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                None
            }
            // An ICMP message came back: the other end is not there yet, or no more.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => None,
            Err(error) => fail(&error.to_string()),
        };
        let now = self.now();
        if let Some((packet, from)) = got {
            self.far = Some(from);
            let sctp = self.sctp.get_or_insert_with(|| {
                // Only the first packet says which port the peer has.
                dcsctp::new_socket("peer", &options.of_server(packet))
            });
            sctp.advance_time(now);
            sctp.handle_input(packet);
        } else if let Some(sctp) = &mut self.sctp {
            sctp.advance_time(now);
        }
    }

    /// Sends what dcsctp has to send, and returns what else has happened.
    fn drain(&mut self) -> Vec<SocketEvent> {
        let mut others = Vec::new();
        while let Some(event) = self.sctp.as_mut().and_then(|sctp| sctp.poll_event()) {
            match (event, self.far) {
                (SocketEvent::SendPacket(packet), Some(far)) => {
                    // A packet that the kernel refuses is as good as lost.
                    let _lost = self.udp.send_to(&packet, far);
                }
                (event, _) => others.push(event),
            }
        }
        others
    }
}

fn main() {
    let options = Options::parse(std::env::args().skip(1));
    let mut wire = Wire::open(&options);
    match &options.far {
        Some(far) => wire.connect(&options, far),
        None => eprintln!("ready"),
    }
    let mut end = End::new(&options);
    while !end.is_over() {
        if wire.start.elapsed() > options.seconds() {
            fail(&format!("gave up: {}", end.progress()));
        }
        wire.wait(&options);
        if let Some(sctp) = &mut wire.sctp {
            end.proceed(sctp.as_mut());
        }
        for event in wire.drain() {
            end.on_event(event);
        }
    }
    println!("{}", end.result());
    let until = Instant::now() + LINGER;
    while Instant::now() < until {
        wire.wait(&options);
        wire.drain();
    }
}
