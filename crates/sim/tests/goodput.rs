//! What a bulk transfer gets out of dissimilar paths, and how long it stands still when one is cut.

use crate::support;

use manypath_engine::{Config, Duration, Event, Instant, Outgoing, Ppid, SendError, StreamId};
use manypath_sim::{LinkConfig, World};
use support::{PORT, address, joint, link, pair};

const MESSAGE: usize = 16_384;
const BYTES: usize = 25_000_000;

struct Transfer {
    seconds: f64,
    goodput_mbps: f64,
    /// Longest pause between two deliveries, in seconds.
    longest_stall: f64,
    /// Packets sent towards the server per path.
    packets: Vec<u64>,
}

/// Sends [`BYTES`] over the paths; the first is cut for a while if `cut` says when.
fn transfer(links: &[LinkConfig], cut: Option<(Duration, Duration)>) -> Transfer {
    transfer_with_backlog(links, cut, usize::MAX)
}

/// The same by a user who keeps at most `backlog` bytes unsent in the endpoint and holds the rest.
fn transfer_with_backlog(
    links: &[LinkConfig],
    cut: Option<(Duration, Duration)>,
    backlog: usize,
) -> Transfer {
    transfer_with(links, cut, (BYTES, backlog), &Config { streams: 16, ..Config::default() })
}

fn transfer_with(
    links: &[LinkConfig],
    cut: Option<(Duration, Duration)>,
    (bytes, backlog): (usize, usize),
    config: &Config,
) -> Transfer {
    let mut world = World::new(1);
    let hosts = pair(&mut world, config);
    let joints = (0..).zip(links).map(|(number, link)| joint(hosts, number, link.clone()));
    let paths: Vec<_> = joints.map(|joint| world.join(&joint)).collect();
    if let Some((from, to)) = cut {
        for host in hosts {
            let down = LinkConfig { up: false, ..links[0].clone() };
            world.schedule(Instant::ZERO + from, paths[0], host, down);
            world.schedule(Instant::ZERO + to, paths[0], host, links[0].clone());
        }
    }
    let id = world.endpoint(hosts[0]).connect(Instant::ZERO, address(0, 2), PORT).unwrap();
    let payload = vec![7; MESSAGE];
    let (mut left, mut received, mut server) = (bytes, 0, None);
    let (mut last, mut longest_stall) = (None, Duration::ZERO);
    let done = world.run(Instant::ZERO + Duration::from_secs(300), |world| {
        let now = world.now();
        while left > 0 && world.endpoint(hosts[0]).unsent(id) < backlog {
            let len = left.min(MESSAGE);
            let payload = payload[..len].to_vec().into();
            let message =
                Outgoing { stream: StreamId(0), ppid: Ppid(0), unordered: false, payload };
            match world.endpoint(hosts[0]).send(now, id, message) {
                Ok(()) => left -= len,
                Err(SendError::BufferFull) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        world.endpoint(hosts[0]).set_backlog(id, left);
        for host in hosts {
            while let Some((id, event)) = world.endpoint(host).poll_event() {
                assert!(!matches!(event, Event::Closed(_)), "{event:?}");
                if host == hosts[1] {
                    server = Some(id);
                }
            }
        }
        while let Some(message) = server.and_then(|id| world.endpoint(hosts[1]).read(id)) {
            received += message.payload.len();
            longest_stall = longest_stall.max(now.since(last.unwrap_or(now)));
            last = Some(now);
        }
        received == bytes
    });
    assert!(done, "only {received} bytes arrived");
    let seconds = world.now().since(Instant::ZERO).as_secs_f64();
    Transfer {
        seconds,
        goodput_mbps: bytes as f64 * 8.0 / seconds / 1e6,
        longest_stall: longest_stall.as_secs_f64(),
        packets: paths.iter().map(|p| world.link_counters(*p, hosts[1]).packets_in).collect(),
    }
}

impl std::fmt::Display for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seconds, goodput_mbps, longest_stall, packets } = self;
        write!(
            f,
            "{seconds:.2} s, {goodput_mbps:.2} Mbit/s, longest stall {longest_stall:.3} s, packets {packets:?}"
        )
    }
}

/// Largest share of an IP packet of 1500 bytes that is payload: IPv4, UDP, SCTP and DATA headers.
const PAYLOAD_SHARE: f64 = (1500.0 - 20.0 - 8.0 - 12.0 - 16.0) / 1500.0;

#[test]
fn two_dissimilar_paths_give_nearly_their_sum() {
    let result = transfer(&[link(20, 10, 100), link(10, 40, 100)], None);
    println!("20 Mbit/s 10 ms + 10 Mbit/s 40 ms: {result}");
    assert!(result.goodput_mbps >= 0.95 * 30.0 * PAYLOAD_SHARE, "{result}");
}

/// A slow start that loses every other packet of a window of thousands leaves more holes than a SACK has
/// room for. What lies beyond must not be taken for being in flight until all holes are filled.
#[test]
fn more_losses_than_a_sack_can_report_do_not_stop_a_long_fat_path() {
    let buffers = Config {
        streams: 16,
        send_buffer: 64 << 20,
        receive_buffer: 64 << 20,
        ..Config::default()
    };
    let result = transfer_with(&[link(500, 40, 4000)], None, (4 * BYTES, usize::MAX), &buffers);
    println!("500 Mbit/s 40 ms, queue of one bandwidth-delay product: {result}");
    assert!(result.longest_stall <= 0.4 && result.seconds <= 3.5, "{result}");
}

#[test]
fn a_user_who_holds_back_what_he_has_gets_the_sum_too() {
    let result = transfer_with_backlog(&[link(20, 10, 100), link(10, 40, 100)], None, 128 << 10);
    println!("20 Mbit/s 10 ms + 10 Mbit/s 40 ms, 128 KiB unsent at most: {result}");
    assert!(result.goodput_mbps >= 0.95 * 30.0 * PAYLOAD_SHARE, "{result}");
}

#[test]
fn one_path_gives_what_it_has() {
    let result = transfer(&[link(20, 10, 100)], None);
    println!("20 Mbit/s 10 ms: {result}");
    assert!(result.goodput_mbps >= 0.97 * 20.0 * PAYLOAD_SHARE, "{result}");
}

#[test]
fn a_cut_stops_a_transfer_for_less_than_a_second_and_the_path_comes_back() {
    let cut = (Duration::from_secs(3), Duration::from_secs(6));
    let result = transfer(&[link(20, 10, 100), link(10, 40, 100)], Some(cut));
    println!("cut from 3 s to 6 s: {result}");
    assert!(result.longest_stall <= 1.0, "{result}");
    // Without the cut path's return the transfer would take more than 17 s.
    assert!(result.seconds < 12.0, "{result}");
}
