//! The saturated application, message by message, and what happens if it looks at the wrong number.

use super::super::apps::{Desk, Way};
use super::super::desk::SimulatedDesk;
use super::{RunOptions, Session};
use crate::scenario::{Plan, Scenario};
use manypath_engine::{Instant, StreamId};

fn scenario(text: &str, set: &[(&str, &str)]) -> Scenario {
    let set: Vec<_> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let plan = Plan::parse(text, "test.toml", &set).unwrap_or_else(|e| panic!("{e}"));
    plan.runs[0].scenario.clone()
}

/// Messages of each stream in the send buffer once it is full for the first time.
fn first_fill(streams: u16, queue_info: bool, sigma: u32) -> Vec<usize> {
    let text = format!(
        "[engine]\nprofile = \"paper\"\nbuffer = {sigma}\n[[path]]\nrate = \"1mbit\"\n\
         [[app]]\nkind = \"saturated\"\nstreams = {streams}\nqueue_info = {queue_info}\n"
    );
    let scenario = scenario(&text, &[]);
    let mut session = Session::new(&scenario, 1, RunOptions::default());
    session.connect();
    loop {
        let (_, desk) = session.apps_and_desk();
        let queued: Vec<usize> = (0..streams).map(|stream| desk.queued(stream).0).collect();
        if queued.iter().any(|bytes| *bytes > 0) {
            return queued.iter().map(|bytes| bytes / 1452).collect();
        }
        session.go_on();
    }
}

#[test]
fn without_queue_information_messages_are_dealt_out_in_turn_until_the_buffer_is_full() {
    // 45 messages of 1452 bytes fit into 64 KiB.
    assert_eq!(first_fill(1, false, 65_536), [45]);
    assert_eq!(first_fill(2, false, 65_536), [23, 22]);
    assert_eq!(first_fill(7, false, 65_536), [7, 7, 7, 6, 6, 6, 6]);
}

#[test]
fn with_it_each_stream_gets_its_share_and_at_most_a_message_more() {
    // Shares of 32768 bytes are reached by 23 messages, but 46 do not fit.
    assert_eq!(first_fill(2, true, 65_536), [23, 22]);
    // Shares of 13107 bytes: 10 messages reach them, 50 are more than the buffer holds.
    assert_eq!(first_fill(5, true, 65_536), [9; 5]);
    // Shares of 2904 bytes are exactly two messages.
    assert_eq!(first_fill(3, true, 8_712), [2, 2, 2]);
}

/// The way back takes longer than the period of the looks, so that they come before the last SACK.
#[test]
fn a_file_takes_as_long_however_often_the_run_is_looked_at() {
    for app in ["kind = \"file\"", "kind = \"connection\""] {
        let text = format!(
            "[[path]]\nrate = \"10mbit\"\ndelay = \"20ms\"\nback = {{ delay = \"150ms\" }}\n[[app]]\n{app}\nbytes = 100000\n"
        );
        let scenario = scenario(&text, &[]);
        let took = |period| {
            let series = Some(manypath_engine::Duration::from_millis(period));
            let outcome = super::run(&scenario, 1, RunOptions { series, ..RunOptions::default() });
            outcome.figure("duration_s").unwrap()
        };
        assert_eq!([7, 50].map(took), [took(1000); 2], "{app}");
    }
}

/// Tells applications only what is unsent.
struct BlindToFlight<'a>(SimulatedDesk<'a>);

impl Desk for BlindToFlight<'_> {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn send(&mut self, way: Way, stream: u16, len: usize, generated: Instant) -> bool {
        self.0.send(way, stream, len, generated)
    }

    fn queued(&self, stream: u16) -> (usize, usize) {
        let Some(id) = self.0.associations[0] else { return (0, 0) };
        let sender = self.0.network.world.look(self.0.network.sender);
        let info = sender.sender_queue_info(id).unwrap_or_default();
        let stream = info.streams.iter().find(|one| one.stream == StreamId(stream));
        (stream.map_or(0, |stream| stream.unsent), self.0.send_buffer)
    }

    fn send_space(&self) -> usize {
        self.0.send_space()
    }
}

/// As `Session::go_on`.
fn go_on_blindly(session: &mut Session<'_>) {
    session.take_events();
    if session.established {
        session.apps.begin(session.network.world.now());
    }
    let (apps, desk) = session.apps_and_desk();
    apps.work(&mut BlindToFlight(desk));
    session.run_sources();
    let limit = session.next_timer().map_or(session.end, |at| at.min(session.end));
    session.network.world.step(limit);
}

/// Figure 6, curve 3: paths of 10 and 25 Mbit/s, each stream on its own, 160 KiB.
/// Returns the rate of the fast one in Mbit/s.
fn figure_6(blind: bool) -> f64 {
    let text = include_str!("../../../../papers/dreibholz2010/fig6/scenario.toml");
    let set = [
        ("sweep", "{ \"path.B.rate\" = [\"25mbit\"], \"engine.buffer\" = [\"160KiB\"] }"),
        ("case", "[{ name = \"Fixed\" }]"),
        ("engine.stream_mapping", "\"0,1\""),
        ("app.0.queue_info", "true"),
        ("measure", "\"10s\""),
    ];
    let scenario = scenario(text, &set);
    let mut session = Session::new(&scenario, 1, RunOptions::default());
    session.connect();
    while !session.is_over() {
        if blind { go_on_blindly(&mut session) } else { session.go_on() }
    }
    session.finish().figure("s1_throughput_mbps").unwrap()
}

/// The queue size of the API extension must include what is in flight.
#[test]
fn unsent_bytes_alone_leave_the_fast_path_idle() {
    let (seeing, blind) = (figure_6(false), figure_6(true));
    assert!(seeing > 0.98 * 25.0 * 1452.0 / 1507.0, "{seeing}");
    // As without any information: both streams run at the rate of the slow path.
    assert!((blind / (10.0 * 1452.0 / 1507.0) - 1.0).abs() < 0.05, "{blind}");
}
