//! A connection against a model of a server that keeps to the rules and counts.

use super::*;
use proptest::prelude::*;

/// A server: what it was granted and what it has granted, per channel of ours.
#[derive(Default)]
struct Server {
    framer: Option<Framer>,
    channels: BTreeMap<u32, Peer>,
}

#[derive(Default)]
struct Peer {
    credit: u64,
    sent: u64,
    received: u64,
    granted: u64,
    eof: bool,
    closed: bool,
    requests: Vec<String>,
}

fn packet(body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    framed(&mut out, |out| {
        out.push(0);
        body(out);
    });
    out
}

/// What a master says at the beginning.
fn greeting() -> Vec<u8> {
    let mut out = Vec::new();
    framed(&mut out, |out| [1, 4].into_iter().for_each(|n| out.put_u32(n)));
    framed(&mut out, |out| [0x8000_000f, 0].into_iter().for_each(|n| out.put_u32(n)));
    out
}

fn confirmation(channel: u32, window: u32) -> Vec<u8> {
    packet(|out| {
        out.put_u8(91);
        [channel, channel + 100, window, 32768].into_iter().for_each(|n| out.put_u32(n));
    })
}

fn request(channel: u32, kind: &str, value: u32) -> Vec<u8> {
    packet(|out| {
        message::request(out, channel, kind, false, &value.to_be_bytes());
    })
}

impl Server {
    /// Takes what the connection has to say; channels are opened with a window of `window`. The answers.
    fn handle(&mut self, connection: &mut Connection, window: u32) -> Vec<u8> {
        let bytes = connection.output().to_vec();
        connection.on_output(bytes.len());
        let mut framer = self.framer.take().unwrap_or_else(|| Framer::new(1 << 20));
        framer.put(&bytes);
        let mut answers = Vec::new();
        while let Some(packet) = framer.next().expect("short") {
            if packet[0] == 0 && packet.len() > 8 || packet[1] >= 90 {
                answers.extend(self.handle_message(&packet[1..], window));
            }
        }
        self.framer = Some(framer);
        answers
    }

    fn handle_message(&mut self, payload: &[u8], window: u32) -> Vec<u8> {
        if payload[0] == 90 {
            return self.handle_open(payload, window);
        }
        match Message::parse(payload).expect("a message") {
            Message::WindowAdjust { channel, bytes } => {
                self.peer(channel).credit += u64::from(bytes);
            }
            Message::Data { channel, data } => {
                let peer = self.peer(channel);
                peer.received += data.len() as u64;
                assert!(peer.received <= peer.granted, "more than was granted");
                assert!(!peer.eof && !peer.closed, "data after the end");
            }
            Message::Eof { channel } => self.peer(channel).eof = true,
            Message::Close { channel } => self.peer(channel).closed = true,
            Message::Request { channel, kind, want_reply, .. } => {
                let kind = String::from_utf8_lossy(kind).into_owned();
                let success = !kind.starts_with("keepalive");
                self.peer(channel).requests.push(kind);
                let number = if success { 99 } else { 100 };
                let reply = packet(|out| {
                    out.put_u8(number);
                    out.put_u32(channel - 100);
                });
                return if want_reply { reply } else { Vec::new() };
            }
            Message::OpenConfirmation { .. }
            | Message::OpenFailure { .. }
            | Message::ExtendedData { .. }
            | Message::Success { .. }
            | Message::Failure { .. }
            | Message::Other(_) => panic!("not said by a client of sessions"),
        }
        Vec::new()
    }

    fn handle_open(&mut self, payload: &[u8], window: u32) -> Vec<u8> {
        let mut r = Reader::new(&payload[1..], "open");
        let (_kind, number, credit) = (r.string(), r.u32().expect("id"), r.u32().expect("window"));
        let peer = Peer { credit: credit.into(), granted: window.into(), ..Peer::default() };
        self.channels.insert(number, peer);
        confirmation(number, window)
    }

    /// Channels are numbered by the server: 100 more than here.
    fn peer(&mut self, remote: u32) -> &mut Peer {
        self.channels.get_mut(&(remote - 100)).expect("a channel that is open")
    }
}

fn connected(windows: Windows) -> (Connection, Server) {
    let mut connection = Connection::new(windows, Budget::new(64 << 20));
    connection.handle_input(Duration::ZERO, &greeting()).expect("granted");
    assert_eq!(connection.poll_event(), Some(Event::Ready));
    (connection, Server::default())
}

fn opened(connection: &mut Connection, server: &mut Server, window: u32) -> ChannelId {
    let id = connection.open_session(Duration::ZERO, Pull::Window).expect("memory");
    let answers = server.handle(connection, window);
    connection.handle_input(Duration::from_millis(80), &answers).expect("opened");
    assert_eq!(connection.poll_event(), Some(Event::Opened(id)));
    id
}

proptest! {
    #[test]
    fn no_side_sends_more_than_it_was_granted_and_every_byte_taken_is_granted_again(
        steps in proptest::collection::vec((0usize..2, 0u8..4, 1usize..300_000), 1..80),
        fixed in any::<bool>(),
    ) {
        let windows = if fixed { Windows::Fixed(128 << 10) } else { Windows::Follow };
        let (mut connection, mut server) = connected(windows);
        let ids = [0; 2].map(|_| opened(&mut connection, &mut server, 200_000));
        let mut waiting = [0usize; 2];
        let mut now = Duration::from_millis(80);
        for (channel, what, bytes) in steps {
            now += Duration::from_millis(7);
            match what {
                0 => {
                    let peer = server.channels.get_mut(&(channel as u32)).expect("open");
                    let bytes = (peer.credit.min(bytes as u64) as usize).min(32768);
                    peer.credit -= bytes as u64;
                    peer.sent += bytes as u64;
                    let data = vec![0; bytes];
                    let message = packet(|out| message::data(out, channel as u32, &data));
                    prop_assert_eq!(connection.handle_input(now, &message), Ok(()));
                    waiting[channel] += bytes;
                }
                1 => {
                    let bytes = bytes.min(waiting[channel]);
                    connection.consumed(now, ids[channel], bytes);
                    waiting[channel] -= bytes;
                }
                2 => drop(connection.send(ids[channel], &vec![1; bytes])),
                _ => {
                    let message =
                        packet(|out| message::window_adjust(out, channel as u32, bytes as u32));
                    server.channels.get_mut(&(channel as u32)).expect("open").granted += bytes as u64;
                    prop_assert_eq!(connection.handle_input(now, &message), Ok(()));
                }
            }
            let answers = server.handle(&mut connection, 0);
            prop_assert_eq!(connection.handle_input(now, &answers), Ok(()));
        }
        for (channel, id) in ids.into_iter().enumerate() {
            connection.consumed(now, id, waiting[channel]);
            let _ = server.handle(&mut connection, 0);
            let (size, peer) = (connection.window_size(id), &server.channels[&(channel as u32)]);
            prop_assert!(peer.credit >= size / 2, "{} of {size} left to a reader that took all", peer.credit);
        }
    }

    #[test]
    fn no_input_from_the_master_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (mut connection, mut server) = connected(Windows::Follow);
        let _ = opened(&mut connection, &mut server, 1000);
        let message = packet(|out| out.extend(&bytes));
        let _ = connection.handle_input(Duration::from_millis(90), &message);
        let _ = connection.handle_input(Duration::from_millis(91), &bytes);
    }
}

#[test]
fn data_beyond_the_window_ends_the_connection() {
    let (mut connection, mut server) = connected(Windows::Fixed(64 << 10));
    let _ = opened(&mut connection, &mut server, 1000);
    let data = vec![0; 32 << 10];
    let message = packet(|out| message::data(out, 0, &data));
    let now = Duration::from_millis(90);
    assert_eq!(connection.handle_input(now, &message), Ok(()));
    assert_eq!(connection.handle_input(now, &message), Ok(()));
    assert_eq!(connection.handle_input(now, &message), Err(ConnectionError::WindowExceeded));
}

#[test]
fn credit_beyond_what_the_protocol_allows_ends_the_connection() {
    let (mut connection, mut server) = connected(Windows::Follow);
    let _ = opened(&mut connection, &mut server, u32::MAX);
    let message = packet(|out| message::window_adjust(out, 0, 1));
    let result = connection.handle_input(Duration::from_millis(90), &message);
    assert_eq!(result, Err(ConnectionError::CreditOverflow));
}

#[test]
fn a_channel_is_gone_when_both_sides_have_closed_it_and_tells_the_status_before() {
    let (mut connection, mut server) = connected(Windows::Follow);
    let id = opened(&mut connection, &mut server, 1000);
    connection.start(id, Start::Exec(b"true"));
    let answers = server.handle(&mut connection, 0);
    let now = Duration::from_millis(200);
    let end =
        [answers, request(0, "exit-status", 7), packet(|out| message::close(out, 0))].concat();
    connection.handle_input(now, &end).expect("in order");
    let events: Vec<Event> = std::iter::from_fn(|| connection.poll_event()).collect();
    assert_eq!(events, [Event::Started(id), Event::ExitStatus(id, 7), Event::Closed(id)]);
    let _ = server.handle(&mut connection, 0);
    assert!(server.channels[&0].closed, "the close must be answered");
    assert_eq!(connection.open_channels(), 0);
}

#[test]
fn a_round_trip_is_measured_by_what_every_server_answers() {
    let (mut connection, mut server) = connected(Windows::Follow);
    let id = opened(&mut connection, &mut server, 1000);
    assert_eq!(connection.round_trip(), Some(Duration::from_millis(80)));
    let message = packet(|out| message::data(out, 0, b"x"));
    let now = Duration::from_millis(200);
    connection.handle_input(now, &message).expect("data");
    connection.consumed(now, id, 1);
    let answers = server.handle(&mut connection, 0);
    assert_eq!(server.channels[&0].requests, ["keepalive@openssh.com"]);
    connection.handle_input(now + Duration::from_millis(60), &answers).expect("an answer");
    assert_eq!(connection.round_trip(), Some(Duration::from_millis(60)));
}

#[test]
fn a_channel_closed_before_the_server_has_opened_it_is_closed_then() {
    let (mut connection, mut server) = connected(Windows::Follow);
    let id = connection.open_session(Duration::ZERO, Pull::Window).expect("memory");
    connection.close(id);
    let answers = server.handle(&mut connection, 1000);
    connection.handle_input(Duration::from_millis(80), &answers).expect("opened");
    let _ = server.handle(&mut connection, 0);
    assert!(server.channels[&0].closed);
    assert_eq!(connection.poll_event(), None);
}

#[test]
fn a_master_that_refuses_says_why() {
    let mut connection = Connection::new(Windows::Follow, Budget::new(1 << 20));
    let mut out = Vec::new();
    framed(&mut out, |out| {
        [0x8000_0003, 0].into_iter().for_each(|n| out.put_u32(n));
        out.put_string(b"unsupported");
    });
    let error = connection.handle_input(Duration::ZERO, &out).expect_err("refused");
    assert_eq!(error, ConnectionError::Mux(MuxError::Refused("unsupported".to_owned())));
}
