//! The receiver of a live run: reads at once and notes when each message was made and delivered.

use super::host::{LiveStack, Times};
use super::report::Report;
use super::sender::STAMP;
use crate::failure::Failure;
use manypath_engine::{Event, Instant};
use manypath_sim::scenario::Scenario;
use manypath_sim::simulation::{Ledger, delivery_figures};

/// Receives until the end.
#[expect(clippy::wildcard_enum_match_arm, reason = "figures need no other events")]
pub(super) fn receive(
    mut stack: LiveStack,
    scenario: &Scenario,
    times: Times,
) -> Result<Report, Failure> {
    let ledger = || Ledger::new(scenario.config.streams, (times.from, times.end));
    let (mut forth, back) = (ledger(), ledger());
    let mut failure = None;
    while stack.clock.now() < times.end {
        let now = stack.turn(Some(times.end))?;
        while let Some((id, event)) = stack.driver.endpoint_mut().poll_event() {
            match event {
                Event::Readable => {
                    while let Some(message) = stack.driver.endpoint_mut().read(id) {
                        let generated = stamp(&message.payload);
                        let (stream, len) = (message.stream.0, message.payload.len());
                        forth.note_delivery(now, stream, len, generated);
                    }
                }
                Event::Closed(reason) => failure = Some(format!("{reason:?}")),
                _ => {}
            }
        }
        stack.driver.flush(now);
    }
    Ok(Report { failure, ..report(scenario, times, forth, &back) })
}

/// The figures of what was delivered.
pub(super) fn report(
    scenario: &Scenario,
    times: Times,
    mut forth: Ledger,
    back: &Ledger,
) -> Report {
    forth.finish(times.end);
    let when = (times.start, times.from, times.end);
    let figures = delivery_figures(&scenario.apps, [&forth, back], when, f64::NAN);
    let value = |(name, value): (String, f64)| (name, value.is_finite().then_some(value));
    Report { figures: figures.into_iter().map(value).collect(), ..Report::default() }
}

/// When a message was made.
pub(super) fn stamp(payload: &[u8]) -> Option<Instant> {
    payload.first_chunk::<STAMP>().map(|bytes| Instant::from_nanos(u64::from_be_bytes(*bytes)))
}
