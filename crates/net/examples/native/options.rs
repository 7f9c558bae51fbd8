//! The command line.

use manypath_engine::{Config, Duration, Reliability};
use std::net::{IpAddr, SocketAddr};

/// What the program shall do.
pub(crate) struct Options {
    pub(crate) config: Config,
    pub(crate) own: Vec<IpAddr>,
    /// Where to connect to; nowhere: listen.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) udp: u16,
    /// The peer's SCTP port, or ours when listening.
    pub(crate) port: u16,
    pub(crate) send: u64,
    pub(crate) receive: u64,
    pub(crate) message: usize,
    pub(crate) streams: u16,
    pub(crate) unordered: bool,
    pub(crate) reset: bool,
    pub(crate) wait: bool,
    pub(crate) seconds: u64,
    pub(crate) json: bool,
    /// Remain after the end until standard input ends, instead of for a moment.
    pub(crate) attended: bool,
    pub(crate) reliability: Reliability,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let role = words.next().ok_or("listen or connect?")?;
        let own = words.next().ok_or("no address of this side")?;
        let own = own.split(',').map(number).collect::<Result<_, _>>()?;
        let peer = match role.as_str() {
            "listen" => None,
            "connect" => Some(number(&words.next().ok_or("no address of the peer")?)?),
            other => return Err(format!("'{other}' is neither listen nor connect")),
        };
        let mut options = Self::new(own);
        let mut peer_udp = 9899;
        for word in words {
            match word.split_once('=') {
                Some(("peer-udp", value)) => peer_udp = number(value)?,
                Some((name, value)) => options.set(name, value)?,
                None if word == "json" => options.json = true,
                None if word == "attended" => options.attended = true,
                None => return Err(format!("'{word}' has no value")),
            }
        }
        options.peer = peer.map(|ip: IpAddr| SocketAddr::new(ip, peer_udp));
        options.config.accept = options.peer.is_none();
        options.config.port = if options.config.accept { options.port } else { 0 };
        Ok(options)
    }

    fn new(own: Vec<IpAddr>) -> Self {
        let config = Config {
            streams: 1,
            inbound_streams: Some(64),
            max_streams: 64,
            accept_stream_resets: true,
            accept_association_resets: true,
            accept_added_streams: true,
            ..Config::production()
        };
        Self {
            config,
            own,
            peer: None,
            udp: 9899,
            port: 5001,
            send: 0,
            receive: 0,
            message: 16 << 10,
            streams: 1,
            unordered: false,
            reset: false,
            wait: false,
            seconds: 60,
            json: false,
            attended: false,
            reliability: Reliability::Reliable,
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "udp" => self.udp = number(value)?,
            "port" => self.port = number(value)?,
            "send" => self.send = number(value)?,
            "receive" => self.receive = number(value)?,
            "message" => self.message = number(value)?,
            "buffer" => {
                (self.config.receive_buffer, self.config.send_buffer) =
                    (number(value)?, number(value)?);
            }
            "seconds" => self.seconds = number(value)?,
            "streams" => (self.streams, self.config.streams) = (number(value)?, number(value)?),
            "unordered" => self.unordered = yes(value)?,
            "reset" => self.reset = yes(value)?,
            "wait" => self.wait = yes(value)?,
            "pr" => self.reliability = reliability(value)?,
            "multipath" => self.config.multipath = yes(value)?,
            "interleaving" => self.config.interleaving = yes(value)?,
            "partial-reliability" => self.config.partial_reliability = yes(value)?,
            "reconfiguration" => self.config.reconfiguration = yes(value)?,
            "path-mtu" => {
                self.config.path_mtu = value.parse().map_err(|error| format!("{error}"))?;
            }
            "ecn" => {
                self.config.ecn = value.parse().map_err(|error| format!("{error}"))?;
            }
            "nr-sack" => {
                self.config.nr_sack = value.parse().map_err(|error| format!("{error}"))?;
            }
            _ => return Err(format!("there is no option '{name}'")),
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is not what is expected here"))
}

fn yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        other => Err(format!("'{other}' is neither yes nor no")),
    }
}

fn reliability(text: &str) -> Result<Reliability, String> {
    match text.split_once(':') {
        Some(("lifetime", millis)) => {
            Ok(Reliability::Lifetime(Duration::from_millis(number(millis)?)))
        }
        Some(("retransmissions", count)) => Ok(Reliability::Retransmissions(number(count)?)),
        _ => Err(format!("'{text}' is no reliability: lifetime:MS or retransmissions:N")),
    }
}
