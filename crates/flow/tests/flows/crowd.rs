//! Many flows that always have more to send, over a fast path: what waits is that of a few of them.

use crate::pair::*;
use manypath_flow::{FlowEvent, FlowId, PPID_CONTROL};
use std::collections::BTreeMap;

const FLOWS: usize = 64;
const TURN: usize = 128 << 10;
/// Type of a REPORT (docs/flow-protocol.md).
const REPORT: u8 = 129;

/// Flows from A to Z whose writers write whenever they may, and whose readers read at once.
struct Crowd {
    pair: Pair,
    flows: Vec<FlowId>,
    /// Bytes that left A, by stream.
    sent: BTreeMap<u16, usize>,
    /// Flows whose writers have nothing to say although they were busy before.
    silent: Vec<FlowId>,
    /// Streams of the messages with data that left A and do not fill a packet.
    short: Vec<u16>,
    /// Those of the answers to flows that measured their round trips.
    reports: Vec<u16>,
}

impl Crowd {
    fn new() -> Self {
        let mut pair = Pair::new(64);
        let flows: Vec<_> = (0..FLOWS).map(|_| pair.flow().0).collect();
        let (sent, silent, short, reports) = Default::default();
        let mut crowd = Self { pair, flows, sent, silent, short, reports };
        crowd.flows.clone().into_iter().for_each(|flow| crowd.write(flow));
        crowd
    }

    fn write(&mut self, flow: FlowId) {
        while !self.silent.contains(&flow) {
            let len = self.pair.a.writable(flow).min(64 << 10);
            if len == 0 {
                return;
            }
            self.pair.a.write(flow, vec![7; len].into()).unwrap();
        }
    }

    /// As much as a batch of packets leaves A, and everybody does what follows from it.
    fn step(&mut self) {
        for _ in 0..90 {
            let Some(sent) = self.pair.a.poll_message(FRAGMENT) else { break };
            match sent.ppid {
                PPID_CONTROL if sent.payload[0] == REPORT => self.reports.push(sent.stream.0),
                PPID_CONTROL => {}
                _ if sent.payload.len() < FRAGMENT => self.short.push(sent.stream.0),
                _ => {}
            }
            *self.sent.entry(sent.stream.0).or_default() += sent.payload.len();
            self.pair.to_z.push_back(message(sent));
        }
        self.pair.arrive_z();
        for event in events(&mut self.pair.z) {
            if let FlowEvent::Readable(flow) = event {
                read_all(&mut self.pair.z, flow);
            }
        }
        self.pair.send_z();
        self.pair.arrive_a();
        for event in events(&mut self.pair.a) {
            if let FlowEvent::Writable(flow) = event {
                self.write(flow);
            }
        }
    }

    fn run(&mut self, rounds: usize) {
        let goal = self.total() + rounds * FLOWS * TURN;
        for _ in 0.. {
            let before = self.total();
            if before >= goal {
                return;
            }
            self.step();
            self.step();
            assert!(self.total() > before, "nothing is sent any more");
        }
    }

    fn total(&self) -> usize {
        self.sent.values().sum()
    }

    fn queued(&self) -> usize {
        self.flows.iter().map(|flow| self.pair.a.status(*flow).unwrap().queued).sum()
    }
}

#[test]
fn what_waits_is_that_of_the_flows_whose_turns_are_near() {
    let mut crowd = Crowd::new();
    crowd.run(4);
    for _ in 0..20 {
        crowd.run(1);
        assert!(crowd.queued() <= 9 * TURN, "{} bytes", crowd.queued());
    }
}

#[test]
fn all_have_their_turns_although_few_have_written() {
    let mut crowd = Crowd::new();
    crowd.run(4);
    let before = crowd.sent.clone();
    crowd.run(20);
    let news: Vec<_> = crowd.sent.iter().map(|(stream, sent)| sent - before[stream]).collect();
    let (least, most) = (news.iter().min().unwrap(), news.iter().max().unwrap());
    assert_eq!(news.len(), FLOWS);
    assert!(most - least <= 3 * TURN, "{least} to {most}");
}

/// Who is asked to write and has nothing keeps nobody waiting, and may write again at any time.
#[test]
fn who_has_nothing_to_write_when_asked_loses_the_turn_only() {
    let mut crowd = Crowd::new();
    crowd.run(4);
    crowd.silent = crowd.flows.iter().copied().step_by(2).collect();
    crowd.run(8);
    let flow = crowd.silent[5];
    let stream = crowd.pair.a.status(flow).unwrap().stream;
    let before = crowd.sent[&stream];
    crowd.silent.clear();
    crowd.write(flow);
    assert!(crowd.pair.a.status(flow).unwrap().queued > 0);
    crowd.run(4);
    assert!(crowd.sent[&stream] > before + TURN);
}

/// A few bytes need no place among the waiting.
#[test]
fn a_few_bytes_go_first() {
    let mut crowd = Crowd::new();
    let small = crowd.flows.pop().unwrap();
    crowd.silent.push(small);
    crowd.run(8);
    let stream = crowd.pair.a.status(small).unwrap().stream;
    for _ in 0..20 {
        crowd.step();
        crowd.pair.a.write(small, vec![1; 300].into()).unwrap();
        assert_eq!(crowd.pair.a.poll_message(FRAGMENT).map(|sent| sent.stream.0), Some(stream));
    }
}

/// A packet that is not full ends the run that the kernel takes at once.
#[test]
fn turns_end_with_full_packets() {
    let mut crowd = Crowd::new();
    crowd.run(4);
    crowd.short.clear();
    crowd.run(20);
    assert_eq!(crowd.short.len(), 0);
}

/// So does the answer to a flow that measures its round trip.
#[test]
fn flows_measure_round_trips_one_after_the_other_and_each_once_in_a_second() {
    let mut crowd = Crowd::new();
    crowd.run(4);
    // From its last one at instant 0 on each waits for a second, but for one in each round.
    for round in 1..50 {
        crowd.pair.wait(20);
        crowd.run(1);
        assert!(crowd.reports.len() <= FLOWS + round, "{} in {round}", crowd.reports.len());
    }
    crowd.reports.clear();
    crowd.pair.wait(20);
    crowd.run(2);
    crowd.reports.sort_unstable();
    crowd.reports.dedup();
    assert!(crowd.reports.len() >= FLOWS - 50, "{}", crowd.reports.len());
}
