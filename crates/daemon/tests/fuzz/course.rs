//! Two whole stacks, their programs and services, and a network that fails: every byte arrives in its place, every
//! connection ends, and nobody is busy with nothing. What the fuzz target `stacks` checks.

use crate::host::service;
use crate::world::World;
use manypath_control::Request;
use manypath_engine::Duration;

/// More steps say nothing new and cost time.
const MAX_ACTIONS: usize = 60;
/// Longer than any patience of a stack or of its transport.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs the course that the bytes describe: two for each action.
pub(crate) fn check(bytes: &[u8]) {
    let mut world = World::new(&[1, 2], ());
    for pair in bytes.chunks_exact(2).take(MAX_ACTIONS) {
        act(&mut world, pair[0], pair[1]);
        world.drive(Duration::ZERO);
        world.check_limits();
    }
    world.finish(PATIENCE);
}

fn act(world: &mut World<()>, what: u8, argument: u8) {
    let host = usize::from(what >> 7);
    let of_service = what & 0x40 != 0;
    match what & 0x0F {
        0 | 1 => {
            let destination = service(1 - host, usize::from(what >> 4 & 3));
            world.connect(host, destination, argument);
        }
        2 => write(world, of_service, argument, 3000),
        3 => write(world, of_service, argument, 40),
        4 => with_line(world, of_service, argument, |line| line.finishing = true),
        5 => with_line(world, of_service, argument, crate::line::Line::reset),
        6 => with_line(world, of_service, argument, |line| line.reads = !line.reads),
        7 | 8 => world.drive(Duration::from_millis(argument.into())),
        9 => world.drive(Duration::from_millis(100 * u64::from(argument))),
        10 => world.hosts[host].cut(usize::from(argument & 1), argument & 2 == 0),
        11 => (0..2).for_each(|path| world.hosts[host].cut(path, argument & 2 == 0)),
        12 => world.cancel(argument),
        13 if argument & 7 == 7 => world.restart(host, argument),
        13 => world.drive(Duration::from_secs(argument.into())),
        14 => world.hosts[host].tell(&request(argument)),
        _ => write(world, of_service, argument, 60_000),
    }
}

fn write(world: &mut World<()>, of_service: bool, argument: u8, unit: usize) {
    let len = unit * usize::from(1 + (argument >> 5));
    with_line(world, of_service, argument & 31, |line| line.wanted += len);
}

fn with_line(
    world: &mut World<()>,
    of_service: bool,
    pick: u8,
    act: impl FnOnce(&mut crate::line::Line),
) {
    if let Some(line) = world.line(of_service, pick) {
        act(line);
    }
}

/// What a launcher or the command line may say at any time.
fn request(argument: u8) -> Request {
    let id = u64::from(argument >> 3);
    match argument & 7 {
        0 => Request::Status,
        1 => Request::Watch,
        2 => Request::ForgetPeers { addr: None, port: None },
        3 => Request::Way { id },
        4 => Request::Told { id },
        5 => Request::Withdraw { id },
        6 => Request::Cancel { id: id + 1000 },
        _ => Request::Reload,
    }
}
