//! A whole stack and a peer that says what it likes in a valid association, while programs use both: nothing panics
//! or grows, and when the peer has gone every connection has ended. What the fuzz target `hostile_flows` checks.

use crate::host::service;
use crate::peer::{NUMBER, Peer};
use crate::world::World;
use manypath_engine::{Duration, Instant};

/// More steps say nothing new and cost time.
const MAX_ACTIONS: usize = 80;
/// Longer than any patience of a stack with a peer that has gone.
const PATIENCE: Duration = Duration::from_secs(900);

/// Runs the course that the bytes describe.
pub(crate) fn check(mut bytes: &[u8]) {
    let mut world = World::new(&[1], Peer::new(Instant::from_nanos(1_000_000_000)));
    for _ in 0..MAX_ACTIONS {
        let Some((&[what, argument], rest)) = bytes.split_first_chunk() else { break };
        bytes = rest;
        act(&mut world, what, argument, &mut bytes);
        // Several messages may leave together.
        if what & 0x10 == 0 {
            world.drive(Duration::ZERO);
            world.check_limits();
        }
    }
    world.other.leave();
    world.finish(PATIENCE);
}

fn act(world: &mut World<Peer>, what: u8, argument: u8, rest: &mut &[u8]) {
    let mut take = |len: usize| {
        let (taken, left) = rest.split_at(len.min(rest.len()));
        *rest = left;
        taken
    };
    match what & 0x0F {
        0 => world.other.connect(service(0, 0)),
        1 => world.connect(0, service(NUMBER, usize::from(what >> 5)), argument),
        2 | 3 => {
            let fields = take(4).try_into().unwrap_or([0, 1, 0, 0]);
            world.other.say(argument, fields);
        }
        4 => world.other.answer(argument, what),
        5 => world.other.answer(argument & 15, argument),
        6 => {
            let number = take(1).first().copied().unwrap_or(9);
            world.other.send_data(what >> 5 | argument & 0xC0, argument, number);
        }
        7 => world.other.garbage(argument, take(usize::from(argument >> 2 & 15) * 2)),
        8 => world.other.change(argument, what),
        9 => world.other.change(what >> 4, argument),
        10 => world.drive(Duration::from_millis(argument.into())),
        11 => world.drive(Duration::from_millis(100 * u64::from(argument))),
        12 if argument == 7 => world.other.restart(),
        12 => with_line(world, what, argument, |line, more| line.wanted += 400 * more),
        13 => with_line(world, what, argument, |line, _| line.finishing = true),
        14 => with_line(world, what, argument, |line, _| line.reset()),
        _ => with_line(world, what, argument, |line, _| line.reads = !line.reads),
    }
}

fn with_line(
    world: &mut World<Peer>,
    what: u8,
    argument: u8,
    act: impl FnOnce(&mut crate::line::Line, usize),
) {
    if let Some(line) = world.line(what & 0x20 != 0, argument & 7) {
        act(line, usize::from(argument >> 3));
    }
}
