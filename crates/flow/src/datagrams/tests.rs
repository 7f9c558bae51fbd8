use super::*;
use crate::{FlowConfig, FlowError, FlowMux};
use alloc::vec;
use manypath_engine::{Instant, Message, Tsn};

const LIFETIME: Duration = Duration::from_millis(200);
const FIRST: u16 = 100;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 53))
}

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn mux(initiated: bool) -> FlowMux {
    let mut mux = FlowMux::new(initiated, FIRST, FlowConfig::default());
    mux.datagrams_mut().agree(FIRST);
    mux
}

fn message(sent: Outgoing) -> Message {
    let Outgoing { stream, ppid, unordered, payload } = sent;
    Message { stream, ppid, unordered, payload, more: false, number: 0, tsn: Tsn(0) }
}

/// Everything that one side has to say, at a time.
fn said(mux: &mut FlowMux, now: Duration) -> Vec<Outgoing> {
    let datagrams = mux.datagrams_mut();
    let mut all: Vec<_> = core::iter::from_fn(|| datagrams.poll_control()).collect();
    all.extend(core::iter::from_fn(|| datagrams.poll_datagram(now)).map(|(message, _)| message));
    all
}

fn hear(mux: &mut FlowMux, now: Duration, all: Vec<Outgoing>) {
    mux.advance_time(Instant::ZERO + now);
    all.into_iter().for_each(|sent| mux.handle_message(message(sent)).unwrap());
}

fn events(mux: &mut FlowMux) -> Vec<DatagramEvent> {
    core::iter::from_fn(|| mux.datagrams_mut().poll_event()).collect()
}

fn open(mux: &mut FlowMux) -> DatagramFlow {
    mux.datagrams_mut().open(address(1), address(2), LIFETIME).unwrap()
}

fn send(mux: &mut FlowMux, now: Duration, flow: DatagramFlow, payload: &[u8]) {
    mux.datagrams_mut().send(now, flow, payload).unwrap();
}

fn theirs(flow: DatagramFlow) -> DatagramFlow {
    DatagramFlow { opened_here: !flow.opened_here, ..flow }
}

fn received(flow: DatagramFlow, payload: &'static [u8]) -> DatagramEvent {
    DatagramEvent::Received(flow, Bytes::from_static(payload))
}

#[test]
fn datagrams_keep_their_bounds_in_both_directions() {
    let (mut client, mut server) = (mux(true), mux(false));
    let flow = open(&mut client);
    send(&mut client, at(0), flow, b"question");
    send(&mut client, at(0), flow, b"");
    let all = said(&mut client, at(1));
    assert!(all.iter().skip(1).all(|sent| sent.unordered));
    hear(&mut server, at(5), all);
    let (destination, source) = (address(1), address(2));
    let there = theirs(flow);
    let incoming = DatagramEvent::Incoming { flow: there, destination, source };
    assert_eq!(
        events(&mut server),
        vec![incoming, received(there, b"question"), received(there, b"")]
    );
    server.datagrams_mut().accept(there);
    send(&mut server, at(6), there, b"answer");
    let all = said(&mut server, at(6));
    hear(&mut client, at(9), all);
    assert_eq!(events(&mut client), vec![DatagramEvent::Accepted(flow), received(flow, b"answer")]);
}

#[test]
fn a_flow_beyond_the_acceptor_is_told_from_one_to_it_and_is_like_it_from_then_on() {
    let (mut client, mut server) = (mux(true), mux(false));
    let (destination, source) = (address(7), address(1));
    let flow = client.datagrams_mut().open_beyond(destination, source, at(500)).unwrap();
    send(&mut client, at(0), flow, b"question");
    let all = said(&mut client, at(0));
    hear(&mut server, at(0), all);
    let there = theirs(flow);
    let incoming = DatagramEvent::IncomingBeyond { flow: there, destination };
    assert_eq!(events(&mut server), vec![incoming, received(there, b"question")]);
    assert_eq!(server.datagrams().status(there).unwrap().destination, address(7));
    server.datagrams_mut().accept(there);
    send(&mut server, at(1), there, b"answer");
    let all = said(&mut server, at(1));
    hear(&mut client, at(1), all);
    assert_eq!(events(&mut client), vec![DatagramEvent::Accepted(flow), received(flow, b"answer")]);
}

#[test]
fn redundant_flows_have_streams_that_no_other_datagrams_use() {
    let (mut client, mut server) = (mux(true), mux(false));
    let stream = |sent: &Outgoing| sent.stream.0 - FIRST;
    for number in 1..=20 {
        let flow = open(&mut client);
        let all = said(&mut client, at(0));
        assert_eq!(u32::from(stream(&all[0])), number % u32::from(DATAGRAM_STREAMS));
        hear(&mut server, at(0), all);
        for redundant in [false, true] {
            client.datagrams_mut().set_redundant(flow, redundant);
            send(&mut client, at(0), flow, b"x");
            let all = said(&mut client, at(0));
            let apart = stream(&all[0]) >= DATAGRAM_STREAMS - REDUNDANT_STREAMS;
            assert_eq!(apart, redundant, "flow {number}");
            assert!(stream(&all[0]) < DATAGRAM_STREAMS);
            events(&mut server);
            hear(&mut server, at(0), all);
            assert_eq!(events(&mut server), vec![received(theirs(flow), b"x")]);
        }
    }
}

#[test]
fn what_waits_longer_than_its_lifetime_is_never_sent() {
    let mut client = mux(true);
    let flow = open(&mut client);
    said(&mut client, at(0));
    send(&mut client, at(0), flow, b"old");
    send(&mut client, at(150), flow, b"new");
    let (sent, left) = client.datagrams_mut().poll_datagram(at(250)).unwrap();
    assert_eq!((sent.payload.get(HEADER..), left), (Some(b"new".as_slice()), at(100)));
    let status = client.datagrams().status(flow).unwrap();
    assert_eq!((status.sent, status.expired), (1, 1));
    assert!(client.datagrams_mut().on_given_up(&sent));
    assert_eq!(client.datagrams().status(flow).unwrap().expired, 2);
}

#[test]
fn of_too_many_the_oldest_are_dropped_and_counted() {
    let mut client = mux(true);
    let flow = open(&mut client);
    said(&mut client, at(0));
    for number in 0..queue::MAX_WAITING + 3 {
        send(&mut client, at(0), flow, &(number as u32).to_be_bytes());
    }
    let status = client.datagrams().status(flow).unwrap();
    assert_eq!((status.queued, status.dropped), (queue::MAX_WAITING, 3));
    let (first, _) = client.datagrams_mut().poll_datagram(at(1)).unwrap();
    assert_eq!(first.payload.get(HEADER..), Some([0, 0, 0, 3].as_slice()));
    let large = vec![0; MAX_DATAGRAM];
    for _ in 0..5 {
        send(&mut client, at(0), flow, &large);
    }
    assert!(client.datagrams().status(flow).unwrap().queued <= queue::MAX_BYTES / MAX_DATAGRAM);
    let too_long = vec![0; MAX_DATAGRAM + 1];
    let refused = client.datagrams_mut().send(at(0), flow, &too_long);
    assert_eq!(refused, Err(DatagramError::TooLong));
}

#[test]
fn flows_take_turns() {
    let mut client = mux(true);
    let (much, little) = (open(&mut client), open(&mut client));
    said(&mut client, at(0));
    for _ in 0..10 {
        send(&mut client, at(0), much, b"much");
    }
    send(&mut client, at(0), little, b"little");
    let mut order = said(&mut client, at(1)).into_iter();
    let second = order.nth(1).unwrap();
    assert_eq!(second.payload.get(HEADER..), Some(b"little".as_slice()));
    assert_ne!(second.stream, order.next().unwrap().stream);
}

#[test]
fn what_overtakes_its_open_waits_for_it_but_not_for_ever() {
    let (mut client, mut server) = (mux(true), mux(false));
    let flow = open(&mut client);
    send(&mut client, at(0), flow, b"late");
    send(&mut client, at(0), flow, b"in time");
    let mut all = said(&mut client, at(0));
    let opening = all.remove(0);
    let in_time = all.pop().unwrap();
    hear(&mut server, at(5), all);
    hear(&mut server, at(150), vec![in_time]);
    assert_eq!(events(&mut server), vec![]);
    hear(&mut server, at(210), vec![opening]);
    let there = events(&mut server);
    assert_eq!(there.last(), Some(&received(theirs(flow), b"in time")));
    assert_eq!((there.len(), server.datagrams().counters().late), (2, 1));
}

#[test]
fn a_peer_cannot_make_early_datagrams_pile_up() {
    let two_are_most = 60_000;
    for (length, waiting) in [(0, early::MAX_WAITING as u64), (two_are_most, 2)] {
        let mut server = mux(false);
        for number in 0..1000_u32 {
            let stream = StreamId(FIRST);
            let payload = [&number.to_be_bytes()[..], &vec![7; length]].concat().into();
            let sent = Outgoing { stream, ppid: PPID_DATAGRAM_OF_OPENER, unordered: true, payload };
            hear(&mut server, at(0), vec![sent]);
        }
        assert_eq!(server.datagrams().counters().late, 1000 - waiting);
    }
}

#[test]
fn refusals_ends_and_errors_are_told_once_and_what_comes_late_is_counted() {
    let (mut client, mut server) = (mux(true), mux(false));
    let flow = open(&mut client);
    hear(&mut server, at(1), said(&mut client, at(0)));
    server.datagrams_mut().accept(theirs(flow));
    server.datagrams_mut().unreachable(theirs(flow), 111);
    hear(&mut client, at(2), said(&mut server, at(1)));
    server.datagrams_mut().close(theirs(flow), None);
    hear(&mut client, at(3), said(&mut server, at(2)));
    let heard = [
        DatagramEvent::Accepted(flow),
        DatagramEvent::Unreachable(flow, 111),
        DatagramEvent::Closed(flow, None),
    ];
    assert_eq!(events(&mut client), heard);
    let unknown = client.datagrams_mut().send(at(3), flow, b"x");
    assert_eq!(unknown, Err(DatagramError::UnknownFlow));
    let refused = open(&mut client);
    send(&mut client, at(4), refused, b"for nobody");
    let mut all = said(&mut client, at(4));
    let datagram = all.pop().unwrap();
    hear(&mut server, at(5), all);
    server.datagrams_mut().close(theirs(refused), Some(Refusal::NotAllowed));
    hear(&mut server, at(5), vec![datagram]);
    let counters = server.datagrams().counters();
    assert_eq!((counters.late, counters.refused), (1, 1));
    hear(&mut client, at(6), said(&mut server, at(5)));
    let end = DatagramEvent::Closed(refused, Some(Refusal::NotAllowed));
    assert_eq!(events(&mut client), vec![end]);
}

#[test]
fn without_an_agreement_nothing_is_sent_and_control_is_ignored() {
    let mut old = FlowMux::new(false, FIRST, FlowConfig::default());
    let refused = old.datagrams_mut().open(address(1), address(2), LIFETIME);
    assert_eq!(refused, Err(DatagramError::NotAgreed));
    let mut client = mux(true);
    let flow = open(&mut client);
    hear(&mut old, at(0), said(&mut client, at(0)));
    assert_eq!((events(&mut old), old.datagrams().counters().ignored), (vec![], 1));
    send(&mut client, at(0), flow, b"x");
    let datagram = said(&mut client, at(0)).remove(0);
    let error = old.handle_message(message(datagram));
    assert_eq!(error, Err(FlowError::UnknownPpid(PPID_DATAGRAM_OF_OPENER.0)));
}

#[test]
fn breaches_are_told_from_what_comes_late() {
    let (mut client, mut server) = (mux(true), mux(false));
    let flow = open(&mut client);
    let opening = said(&mut client, at(0)).remove(0);
    hear(&mut server, at(1), vec![opening.clone()]);
    let again = server.handle_message(message(opening.clone()));
    assert_eq!(again, Err(FlowError::WrongGeneration(opening.stream.0)));
    let elsewhere = Outgoing { stream: StreamId(FIRST), ..opening };
    assert!(server.handle_message(message(elsewhere)).is_err());
    server.datagrams_mut().accept(theirs(flow));
    let accept = said(&mut server, at(1)).remove(0);
    // Only the acceptor accepts.
    assert!(matches!(
        client.datagrams_mut().handle_control(at(1), FIRST, (true, 1), DatagramBody::Accept),
        Err(FlowError::Unexpected(131))
    ));
    hear(&mut client, at(2), vec![accept.clone(), accept]);
    assert_eq!(events(&mut client), vec![DatagramEvent::Accepted(flow)]);
    let short = Bytes::from_static(b"abc");
    let handled = client.datagrams_mut().handle_datagram(at(2), true, short);
    assert_eq!(handled, Err(FlowError::Truncated(0)));
}
