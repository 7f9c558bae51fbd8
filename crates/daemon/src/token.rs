//! Names of everything that the poll watches, packed into mio's tokens.

use mio::Token;

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A UDP socket of the driver.
    Local(u64),
    /// The socket of a relay.
    Relay(u64),
    /// The launcher's end of a plain TCP relay.
    Near(u64),
    /// The plain TCP connection of a relay or of an attempt that may become one.
    Far(u64),
    /// A connection that the server side is making to a local service.
    Dial(u64),
    /// A control connection.
    Control(u64),
    /// The listening control socket.
    ControlListener,
    /// The same under its second name.
    Door,
    /// A socket at which TCP clients of a gateway are taken in.
    Clients(u64),
    /// A TCP client of a gateway that waits.
    Caller(u64),
    /// A socket at which a door takes clients in.
    DoorListener(u64),
    /// A client of a door that waits.
    DoorClient(u64),
    /// A socket of a door's client for datagrams, or of one of its destinations.
    DoorDatagrams(u64),
    /// The local socket of a flow of datagrams.
    Datagrams(u64),
    /// A TCP connection of the driver that carries packets, or a socket where it accepts them.
    Carrier(u64),
    /// The line over which datagrams come from a redirector, by its control connection.
    Line(u64),
    /// A socket for packets of peers, or the near end of a flow of them.
    Ping(u64),
    /// What the kernel says about addresses, links and routes.
    Network,
    /// The system's clock was set, perhaps because the machine was suspended.
    Clock,
    /// Signals.
    Signal,
    /// Somebody has called [`Stopper::stop`](crate::Stopper::stop).
    Wake,
}

const KIND_BITS: u32 = 5;

impl Source {
    const fn parts(self) -> (u64, u64) {
        match self {
            Self::Local(id) => (0, id),
            Self::Relay(id) => (1, id),
            Self::Near(id) => (2, id),
            Self::Far(id) => (3, id),
            Self::Dial(id) => (4, id),
            Self::Control(id) => (5, id),
            Self::ControlListener => (6, 0),
            Self::Signal => (7, 0),
            Self::Wake => (8, 0),
            Self::Door => (9, 0),
            Self::Clients(index) => (10, index),
            Self::Caller(id) => (11, id),
            Self::Datagrams(id) => (12, id),
            Self::Network => (13, 0),
            Self::Line(id) => (14, id),
            Self::Clock => (15, 0),
            Self::DoorListener(index) => (16, index),
            Self::DoorClient(id) => (17, id),
            Self::DoorDatagrams(id) => (18, id),
            Self::Carrier(id) => (19, id),
            Self::Ping(id) => (20, id),
        }
    }

    pub(crate) fn token(self) -> Token {
        let (kind, id) = self.parts();
        // Identifiers count up from one: 2^59 of them are never reached, and pointers are 64 bits
        // wide wherever the launcher runs.
        Token((id << KIND_BITS | kind) as usize)
    }

    pub(crate) fn of(token: Token) -> Option<Self> {
        let value = token.0 as u64;
        let id = value >> KIND_BITS;
        Some(match value & ((1 << KIND_BITS) - 1) {
            0 => Self::Local(id),
            1 => Self::Relay(id),
            2 => Self::Near(id),
            3 => Self::Far(id),
            4 => Self::Dial(id),
            5 => Self::Control(id),
            6 => Self::ControlListener,
            7 => Self::Signal,
            8 => Self::Wake,
            9 => Self::Door,
            10 => Self::Clients(id),
            11 => Self::Caller(id),
            12 => Self::Datagrams(id),
            13 => Self::Network,
            14 => Self::Line(id),
            15 => Self::Clock,
            16 => Self::DoorListener(id),
            17 => Self::DoorClient(id),
            18 => Self::DoorDatagrams(id),
            19 => Self::Carrier(id),
            20 => Self::Ping(id),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_lead_back_to_their_source() {
        let sources = [
            Source::Local(0),
            Source::Relay(1),
            Source::Near(7),
            Source::Far(1 << 40),
            Source::Dial(3),
            Source::Control(9),
            Source::ControlListener,
            Source::Door,
            Source::Clients(1),
            Source::Caller(5),
            Source::DoorListener(2),
            Source::DoorClient(8),
            Source::DoorDatagrams(4),
            Source::Ping(6),
            Source::Datagrams(6),
            Source::Line(2),
            Source::Carrier(4),
            Source::Clock,
            Source::Network,
            Source::Signal,
            Source::Wake,
        ];
        for source in sources {
            assert_eq!(Source::of(source.token()), Some(source));
        }
        assert_eq!(Source::of(Token(31)), None);
    }
}
