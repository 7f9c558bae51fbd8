//! A script, event by event.

use crate::api::arguments::{Arguments, int};
use crate::api::errno::Outcome;
use crate::language::ast::{Action, Call, Direction, Event, Script, Value, When};
use crate::language::{Stop, Why};
use crate::socket::dispatch;
use crate::world::words::seconds;
use crate::world::{Network, World};
use manypath_engine::Instant;

/// A call that blocks.
struct Pending<'a> {
    line: usize,
    call: &'a Call,
    /// When it must return.
    end: Instant,
}

/// Runs a script. The error says where and why it went another way.
pub(crate) fn run(script: &Script, trace: bool) -> Result<(), Stop> {
    let network = Network::new(script).map_err(|why| why.at(1))?;
    let mut world = World::new(network);
    world.trace = trace;
    let mut runner = Runner { world, pending: None };
    for event in &script.events {
        runner.event(event)?;
        if runner.world.is_stalled() {
            return Err(Why::mismatch("a timer of the stack does not move on").at(event.line));
        }
    }
    match runner.pending.take() {
        Some(pending) => runner.finish(pending),
        None => Ok(()),
    }
}

struct Runner<'a> {
    world: World,
    pending: Option<Pending<'a>>,
}

impl<'a> Runner<'a> {
    fn event(&mut self, event: &'a Event) -> Result<(), Stop> {
        let at_line = |why: Why| why.at(event.line);
        if let Action::Packet(packet) = &event.action
            && packet.direction == Direction::Outbound
        {
            let window = self.world.window(event.when);
            self.world.expect(packet, window).map_err(at_line)?;
            return self.wake();
        }
        // A second call waits for one that blocks.
        if matches!(event.action, Action::Call(_))
            && let Some(pending) = self.pending.take()
        {
            self.finish(pending)?;
        }
        let start = self.world.now;
        let due = self.world.due(event.when);
        self.world.advance(due);
        self.wake()?;
        match &event.action {
            Action::Packet(packet) => self.world.inject(packet).map_err(at_line)?,
            Action::Call(call) => self.call(event, call, start)?,
            Action::Command(command) => self.world.command(command).map_err(at_line)?,
            Action::Code => return Err(at_line(Why::gap("code blocks are not run"))),
        }
        self.wake()
    }

    fn call(&mut self, event: &'a Event, call: &'a Call, start: Instant) -> Result<(), Stop> {
        let at_line = |why: Why| why.at(event.line);
        let outcome = dispatch(&mut self.world, &Arguments(call)).map_err(at_line)?;
        self.world.drain();
        match (outcome, call.end) {
            (Outcome::Waits(_), Some(end)) => {
                let base = if matches!(event.when, When::At(_)) { Instant::ZERO } else { start };
                self.pending = Some(Pending { line: event.line, call, end: base + end });
                Ok(())
            }
            (outcome, Some(_)) => {
                let text = format!("{} returned {outcome} at once", call.name);
                Err(at_line(Why::mismatch(text)))
            }
            (outcome, None) => compare(call, &outcome).map_err(at_line),
        }
    }

    /// Tries the call that blocks again.
    fn wake(&mut self) -> Result<(), Stop> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let outcome = dispatch(&mut self.world, &Arguments(pending.call));
        let outcome = outcome.map_err(|why| why.at(pending.line))?;
        self.world.drain();
        if matches!(outcome, Outcome::Waits(_)) {
            self.pending = Some(pending);
            return Ok(());
        }
        let at_line = |why: Why| why.at(pending.line);
        let tolerance = self.world.network.tolerance;
        let late = self.world.now > pending.end + tolerance;
        if late || self.world.now + tolerance < pending.end {
            return Err(at_line(Why::mismatch(format!(
                "{} returned at {:.3} s and not at {:.3} s",
                pending.call.name,
                seconds(self.world.now),
                seconds(pending.end)
            ))));
        }
        compare(pending.call, &outcome).map_err(at_line)
    }

    /// Waits until the call that blocks returns.
    fn finish(&mut self, pending: Pending<'a>) -> Result<(), Stop> {
        let (line, latest) = (pending.line, pending.end + self.world.network.tolerance);
        let name = &pending.call.name;
        self.pending = Some(pending);
        self.wake()?;
        while self.pending.is_some() && self.world.advance_to_timer(latest) {
            self.wake()?;
        }
        if self.pending.take().is_some() {
            return Err(Why::mismatch(format!("{name} does not return")).at(line));
        }
        Ok(())
    }
}

/// Whether a call came to what the script says.
fn compare(call: &Call, outcome: &Outcome) -> Result<(), Why> {
    let same = match (outcome, &call.errno) {
        _ if call.result == Value::Any => true,
        (Outcome::Returns(value), None) => int(&call.result)? == *value,
        (Outcome::Fails(found) | Outcome::Waits(found), errno) => {
            let same = |errno: &String| canonical(errno) == canonical(found);
            call.result == Value::Int(-1) && errno.as_ref().is_none_or(same)
        }
        (Outcome::Returns(_), Some(_)) => false,
    };
    if same {
        return Ok(());
    }
    let text = format!("{} returned {outcome} and not {}", call.name, call.result);
    let text = call.errno.as_ref().map_or(text.clone(), |errno| format!("{text} {errno}"));
    Err(Why::mismatch(text))
}

/// Two names of one error.
fn canonical(errno: &str) -> &str {
    if errno == "EWOULDBLOCK" { "EAGAIN" } else { errno }
}
