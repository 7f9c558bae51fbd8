//! Calls on a socket that may come from a child of a fork: as values, which travel as bytes.

use bytes::Bytes;
use manypath_engine::{Duration, Reliability};
use manypath_sockets::layout::Structure;
use manypath_sockets::structures::{
    sctp_assoc_t, sctp_nxtinfo, sctp_rcvinfo, sctp_sndinfo, sctp_sndrcvinfo,
};
use manypath_sockets::{
    About, Control, Errno, Host, Outbound, Received, SendInfo, SocketId, Sockets, address,
};
use std::net::SocketAddr;

/// How a message is to be sent, as it was said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// By control messages.
    Controls(Vec<Control>),
    /// By a structure of this type, as `sctp_sendv` takes it.
    Vector(i32, Vec<u8>),
    /// By what is known to make sense.
    Info(sctp_sndinfo, Option<Reliability>),
}

impl How {
    /// Changes the defaults accordingly.
    fn say(&self, all: &mut SendInfo) -> Result<(), Errno> {
        match self {
            Self::Controls(controls) => controls.iter().try_for_each(|control| all.apply(control)),
            Self::Vector(kind, info) => all.apply_vector(*kind, info),
            Self::Info(info, reliability) => {
                (all.info, all.reliability) = (*info, reliability.or(all.reliability));
                Ok(())
            }
        }
    }
}

/// A message, where it is to go and how. `ends`: the call says that it is the end of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sending {
    pub(crate) to: Vec<SocketAddr>,
    pub(crate) how: How,
    pub(crate) ends: bool,
    pub(crate) data: Bytes,
}

impl Sending {
    /// Gives the socket what there is room for.
    pub(crate) fn perform(
        &self,
        sockets: &mut Sockets,
        host: &mut Host<'_>,
        id: SocketId,
    ) -> Result<usize, Errno> {
        let mut info =
            sockets.send_info(host, id, self.to.first().copied(), |all| self.how.say(all))?;
        if self.ends {
            info.info.snd_flags |= manypath_sockets::constants::SCTP_EOR as u16;
        }
        let Self { to, data, .. } = self.clone();
        sockets.send(host, id, Outbound { to, info, data })
    }
}

/// A call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    Receive {
        room: usize,
        peek: bool,
    },
    Send(Sending),
    SetOption {
        option: (i32, i32),
        value: Vec<u8>,
    },
    Option {
        option: (i32, i32),
        asked: Vec<u8>,
    },
    OwnName,
    PeerName,
    /// The addresses of the peer, or else our own.
    Addresses {
        of_peer: bool,
        number: sctp_assoc_t,
    },
    /// For reading and for writing.
    ShutDown(bool, bool),
    /// Bytes that could be read at once.
    Pending,
    /// The last descriptor of the process is closed.
    Close,
    /// The process forks: the line of its child comes after it.
    Fork,
    /// With flags of the new descriptor, which comes after the answer.
    Accept(i32),
}

impl Request {
    /// Does it. What comes of it, as bytes.
    pub(crate) fn perform(
        self,
        sockets: &mut Sockets,
        host: &mut Host<'_>,
        id: SocketId,
    ) -> Result<Vec<u8>, Errno> {
        match self {
            Self::Receive { room, peek } => {
                let (received, from) = receive(sockets, host, id, (room, peek))?;
                Ok(encode_received(&received, &from))
            }
            Self::Send(sending) => Ok(size(sending.perform(sockets, host, id)?)),
            Self::SetOption { option, value } => {
                sockets.set_option(host, id, option, &value).map(|()| Vec::new())
            }
            Self::Option { option, asked } => sockets.option(host, id, option, &asked),
            Self::OwnName => {
                let own = sockets.local_name(host, id)?;
                Ok(address::encode(own, sockets.maps_addresses(id)))
            }
            Self::PeerName => peer_name(sockets, host, id),
            Self::Addresses { of_peer, number } => {
                let all = match of_peer {
                    true => sockets.peer_addresses(host, id, number)?,
                    false => sockets.local_addresses(host, id, number)?,
                };
                let mapped = sockets.maps_addresses(id);
                let encoded = all.iter().flat_map(|one| address::encode(*one, mapped));
                Ok(size(all.len()).into_iter().chain(encoded).collect())
            }
            Self::ShutDown(reading, writing) => {
                sockets.shut_down(host, id, (reading, writing)).map(|()| Vec::new())
            }
            Self::Pending => Ok(size(sockets.pending(host, id))),
            Self::Close | Self::Fork | Self::Accept(_) => Err(Errno::BADF),
        }
    }
}

/// Receives, with the sender's address as it stands in memory.
pub(crate) fn receive(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    (room, peek): (usize, bool),
) -> Result<(Received, Vec<u8>), Errno> {
    let received = sockets.receive(host, id, room, peek)?;
    let mapped = sockets.maps_addresses(id);
    let from = received.from.map_or(Vec::new(), |from| address::encode(from, mapped));
    Ok((received, from))
}

/// The primary address of the peer, as it stands in memory.
pub(crate) fn peer_name(
    sockets: &mut Sockets,
    host: &Host<'_>,
    id: SocketId,
) -> Result<Vec<u8>, Errno> {
    if !sockets.is_one_to_one(id) {
        return Err(Errno::NOT_CONNECTED);
    }
    let peers = sockets.peer_addresses(host, id, 0)?;
    let peer = peers.first().ok_or(Errno::NOT_CONNECTED)?;
    Ok(address::encode(*peer, sockets.maps_addresses(id)))
}

fn size(len: usize) -> Vec<u8> {
    (len as u64).to_ne_bytes().to_vec()
}

/// The number at the beginning of an answer, and the rest.
pub(crate) fn split_size(answer: &[u8]) -> Option<(usize, &[u8])> {
    let mut reader = Reader(answer);
    let len = usize::try_from(reader.number()?).ok()?;
    Some((len, reader.0))
}

fn encode_received(received: &Received, from: &[u8]) -> Vec<u8> {
    let About { old, info, next } = received.about;
    let mut all = i64::from(received.flags).to_ne_bytes().to_vec();
    put(&mut all, from);
    put(&mut all, &old.map_or(Vec::new(), |old| old.encode()));
    put(&mut all, &info.map_or(Vec::new(), |info| info.encode()));
    put(&mut all, &next.map_or(Vec::new(), |next| next.encode()));
    put(&mut all, &received.data);
    all
}

/// What was received, with the sender's address as it stands in memory.
pub(crate) fn decode_received(answer: &[u8]) -> Option<(Received, Vec<u8>)> {
    let mut reader = Reader(answer);
    let flags = i32::try_from(reader.number()?.cast_signed()).ok()?;
    let from = reader.bytes()?.to_vec();
    let old = sctp_sndrcvinfo::decode(reader.bytes()?);
    let info = sctp_rcvinfo::decode(reader.bytes()?);
    let next = sctp_nxtinfo::decode(reader.bytes()?);
    let data = Bytes::copy_from_slice(reader.bytes()?);
    let about = About { old, info, next };
    Some((Received { data, flags, from: address::decode(&from), about }, from))
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend((bytes.len() as u64).to_ne_bytes());
    to.extend_from_slice(bytes);
}

fn put_option(to: &mut Vec<u8>, kind: u8, (level, name): (i32, i32), value: &[u8]) {
    to.push(kind);
    to.extend(level.to_ne_bytes());
    to.extend(name.to_ne_bytes());
    put(to, value);
}

/// Both processes are the same program: numbers are in the order of the machine.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn int(&mut self) -> Option<i32> {
        Some(i32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        self.take(len)
    }

    fn option(&mut self) -> Option<((i32, i32), Vec<u8>)> {
        Some(((self.int()?, self.int()?), self.bytes()?.to_vec()))
    }

    /// None twice: there is none.
    fn reliability(&mut self) -> Option<Option<Reliability>> {
        let (kind, value) = (self.byte()?, self.number()?);
        let count = u32::try_from(value).ok();
        Some(match kind {
            0 => None,
            1 => Some(Reliability::Reliable),
            2 => Some(Reliability::Lifetime(Duration::from_nanos(value))),
            3 => Some(Reliability::Retransmissions(count?)),
            _ => Some(Reliability::Priority(count?)),
        })
    }

    fn sending(&mut self) -> Option<Sending> {
        let ends = self.byte()? != 0;
        let count = self.number()?;
        let to = (0..count).map(|_| address::decode(self.bytes()?)).collect::<Option<_>>()?;
        let how = match self.byte()? {
            0 => {
                let count = self.number()?;
                let one = |_| Some(Control { kind: self.int()?, data: self.bytes()?.to_vec() });
                How::Controls((0..count).map(one).collect::<Option<_>>()?)
            }
            1 => How::Vector(self.int()?, self.bytes()?.to_vec()),
            _ => How::Info(sctp_sndinfo::decode(self.bytes()?)?, self.reliability()?),
        };
        let data = Bytes::copy_from_slice(self.bytes()?);
        Some(Sending { to, how, ends, data })
    }
}

impl Request {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut all = Vec::new();
        match self {
            Self::Receive { room, peek } => {
                all.extend([0, u8::from(*peek)]);
                all.extend((*room as u64).to_ne_bytes());
            }
            Self::Send(sending) => {
                all.push(1);
                sending.encode(&mut all);
            }
            Self::SetOption { option, value } => put_option(&mut all, 2, *option, value),
            Self::Option { option, asked } => put_option(&mut all, 3, *option, asked),
            Self::OwnName => all.push(4),
            Self::PeerName => all.push(5),
            Self::Addresses { of_peer, number } => {
                all.extend([6, u8::from(*of_peer)]);
                all.extend(number.to_ne_bytes());
            }
            Self::ShutDown(reading, writing) => {
                all.extend([7, u8::from(*reading), u8::from(*writing)]);
            }
            Self::Pending => all.push(8),
            Self::Close => all.push(9),
            Self::Fork => all.push(10),
            Self::Accept(flags) => {
                all.push(11);
                all.extend(flags.to_ne_bytes());
            }
        }
        all
    }

    /// None if the bytes are no request.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        Some(match reader.byte()? {
            0 => {
                let peek = reader.byte()? != 0;
                Self::Receive { room: usize::try_from(reader.number()?).ok()?, peek }
            }
            1 => Self::Send(reader.sending()?),
            2 => {
                let (option, value) = reader.option()?;
                Self::SetOption { option, value }
            }
            3 => {
                let (option, asked) = reader.option()?;
                Self::Option { option, asked }
            }
            4 => Self::OwnName,
            5 => Self::PeerName,
            6 => Self::Addresses { of_peer: reader.byte()? != 0, number: reader.int()? },
            7 => Self::ShutDown(reader.byte()? != 0, reader.byte()? != 0),
            8 => Self::Pending,
            9 => Self::Close,
            10 => Self::Fork,
            11 => Self::Accept(reader.int()?),
            _ => return None,
        })
    }
}

impl Sending {
    fn encode(&self, all: &mut Vec<u8>) {
        all.push(u8::from(self.ends));
        all.extend((self.to.len() as u64).to_ne_bytes());
        self.to.iter().for_each(|to| put(all, &address::encode(*to, false)));
        match &self.how {
            How::Controls(controls) => {
                all.push(0);
                all.extend((controls.len() as u64).to_ne_bytes());
                for control in controls {
                    all.extend(control.kind.to_ne_bytes());
                    put(all, &control.data);
                }
            }
            How::Vector(kind, info) => {
                all.push(1);
                all.extend(kind.to_ne_bytes());
                put(all, info);
            }
            How::Info(info, reliability) => {
                all.push(2);
                put(all, &info.encode());
                let (kind, value) = match reliability {
                    None => (0, 0),
                    Some(Reliability::Reliable) => (1, 0),
                    Some(Reliability::Lifetime(time)) => (2, nanos(*time)),
                    Some(Reliability::Retransmissions(count)) => (3, (*count).into()),
                    Some(Reliability::Priority(priority)) => (4, (*priority).into()),
                };
                all.push(kind);
                all.extend(u64::to_ne_bytes(value));
            }
        }
        put(all, &self.data);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_comes_out_as_it_went_in() {
        let to: Vec<SocketAddr> =
            vec!["10.0.0.1:7".parse().unwrap(), "[fd00::1]:8".parse().unwrap()];
        let data = Bytes::from_static(b"some words");
        let control = Control { kind: 2, data: vec![1, 2, 3] };
        let all = [
            Request::Receive { room: 70_000, peek: true },
            Request::Send(Sending {
                to,
                how: How::Controls(vec![control.clone(), control]),
                ends: true,
                data: data.clone(),
            }),
            Request::Send(Sending {
                to: Vec::new(),
                how: How::Vector(4, vec![9; 40]),
                ends: false,
                data,
            }),
            Request::Send(Sending {
                to: Vec::new(),
                how: How::Info(
                    sctp_sndinfo { snd_sid: 3, ..Default::default() },
                    Some(Reliability::Lifetime(Duration::from_micros(7))),
                ),
                ends: false,
                data: Bytes::from_static(b"x"),
            }),
            Request::SetOption { option: (132, 3), value: vec![1, 0, 0, 0] },
            Request::Option { option: (1, 4), asked: vec![0; 8] },
            Request::OwnName,
            Request::PeerName,
            Request::Addresses { of_peer: true, number: -3 },
            Request::ShutDown(false, true),
            Request::Pending,
            Request::Close,
            Request::Fork,
            Request::Accept(libc::SOCK_CLOEXEC),
        ];
        for request in all {
            let bytes = request.encode();
            assert_eq!(Request::decode(&bytes).as_ref(), Some(&request));
            for cut in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes[..cut]), None, "{request:?} cut to {cut}");
            }
        }
    }

    #[test]
    fn what_was_received_comes_out_as_it_went_in() {
        let from = "10.0.0.1:7".parse().ok();
        let info = Some(sctp_rcvinfo { rcv_sid: 3, ..Default::default() });
        let about = About { old: None, info, next: None };
        let data = Bytes::from_static(b"some words");
        let received = Received { data, flags: libc::MSG_EOR, from, about };
        let stands = address::encode(from.unwrap(), false);
        let bytes = encode_received(&received, &stands);
        assert_eq!(decode_received(&bytes), Some((received, stands)));
    }
}
