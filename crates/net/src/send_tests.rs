use super::*;
use crate::error_queue::{ErrorKind, ErrorReport, Quote};
use crate::scripted::ScriptedIo;
use crate::socket::{REPORT_PAUSE, REPORTS_PER_PAUSE};
use manypath_engine::Duration;
use manypath_engine::Ecn;
use std::net::SocketAddr;

const REMOTE: &str = "192.0.2.1:9899";

fn socket() -> PathSocket<ScriptedIo> {
    PathSocket::new(ScriptedIo::default(), "192.0.2.2:9899".parse().unwrap())
}

fn remote() -> SocketAddr {
    REMOTE.parse().unwrap()
}

/// The report of a failed send.
fn no_route() -> Unreachable {
    Unreachable { remote: remote(), quote: None, lacks: Lacks::Way }
}

/// `count` packets of 100 bytes and one of 40; every byte tells its packet.
fn run(first: u8, count: u8) -> Vec<u8> {
    let full = (first..first + count).flat_map(|number| [number; 100]);
    full.chain([first + count; 40]).collect()
}

fn send(socket: &mut PathSocket<ScriptedIo>, bytes: &[u8]) {
    socket.send(
        Instant::ZERO,
        Packets {
            remote: remote(),
            segment_size: 100,
            bytes,
            may_fragment: false,
            ecn: Ecn::NotEct,
        },
    );
}

#[test]
fn a_run_is_one_call() {
    let mut socket = socket();
    let bytes = run(0, 9);
    send(&mut socket, &bytes);
    assert_eq!(socket.io.taken, [(remote(), bytes, 100)]);
    let Counters { packets_sent, bytes_sent, send_calls, gso_sends, .. } = socket.counters;
    assert_eq!((packets_sent, bytes_sent, send_calls, gso_sends), (10, 940, 1, 1));
}

#[test]
fn a_run_is_cut_where_a_datagram_or_the_kernel_can_hold_no_more() {
    let mut socket = socket();
    let bytes = vec![7; 1472 * 60 + 11];
    socket.send(
        Instant::ZERO,
        Packets {
            remote: remote(),
            segment_size: 1472,
            bytes: &bytes,
            may_fragment: false,
            ecn: Ecn::NotEct,
        },
    );
    let lengths: Vec<_> = socket.io.taken.iter().map(|(_, bytes, _)| bytes.len()).collect();
    assert_eq!(lengths, [44 * 1472, 16 * 1472 + 11]);

    socket.io.taken.clear();
    send(&mut socket, &[9; 100 * 70]);
    let lengths: Vec<_> = socket.io.taken.iter().map(|(_, bytes, _)| bytes.len()).collect();
    assert_eq!(lengths, [6400, 600]);
}

#[test]
fn a_refused_run_goes_out_packet_by_packet_without_loss() {
    for errno in [libc::EIO, libc::EINVAL] {
        let mut socket = socket();
        socket.io.refuse_runs = Some(errno);
        let bytes = run(0, 9);
        send(&mut socket, &bytes);
        assert_eq!(socket.io.bytes_taken(), bytes);
        assert_eq!(socket.io.taken.len(), 10);
        assert_eq!(socket.io.forgotten, 1, "what quinn-udp concluded must be undone");
        assert_eq!(socket.counters.gso_refused, 1);
        assert!(!socket.offload.is_trusted());

        send(&mut socket, &bytes);
        assert_eq!(socket.io.taken.len(), 20);
        assert_eq!(socket.counters.send_calls, 21, "the verdict is kept");

        socket.io.refuse_runs = None;
        let later = Instant::ZERO + Duration::from_secs(10);
        let packets = Packets {
            remote: remote(),
            segment_size: 100,
            bytes: &bytes,
            may_fragment: false,
            ecn: Ecn::NotEct,
        };
        socket.send(later, packets);
        assert_eq!(socket.io.taken.len(), 21, "and tried again later");
        assert!(socket.offload.is_trusted());
    }
}

#[test]
fn offload_is_not_blamed_for_an_address_that_is_gone() {
    let mut socket = socket();
    socket.io.send_errors = [libc::EINVAL, libc::EINVAL].into();
    send(&mut socket, &run(0, 9));
    assert!(socket.io.taken.is_empty());
    assert_eq!(socket.counters.dropped_no_route, 10);
    assert_eq!(socket.counters.gso_refused, 0);
    assert_eq!(socket.unreachable, [no_route()]);
    assert!(socket.offload.is_trusted());
}

#[test]
fn what_the_kernel_does_not_take_waits_in_order() {
    let mut socket = socket();
    socket.io.refuse_runs = Some(libc::EIO);
    let first = run(0, 9);
    // The run is refused, three packets pass, the fourth has to wait.
    socket.io.send_errors = [libc::EIO, 0, 0, 0, libc::EAGAIN].into();
    send(&mut socket, &first);
    assert_eq!(socket.io.bytes_taken(), first[..300]);
    assert!(socket.is_blocked());
    assert_eq!(socket.waiting.bytes(), 640);

    let second = run(50, 2);
    send(&mut socket, &second);
    assert_eq!(socket.io.taken.len(), 3, "nothing may overtake");
    assert_eq!(socket.waiting.bytes(), 640 + 240);

    socket.io.send_errors = [0, libc::EAGAIN].into();
    socket.resume(Instant::ZERO);
    assert!(socket.is_blocked());
    socket.resume(Instant::ZERO);
    assert!(!socket.is_blocked());
    assert_eq!(socket.io.bytes_taken(), [first, second].concat());
    assert_eq!(socket.counters.send_blocked, 2);
    assert_eq!(socket.counters.packets_sent, 13);
}

#[test]
fn failures_of_the_path_drop_the_run_and_are_reported() {
    let cases = [
        (libc::ENETUNREACH, "dropped_no_route"),
        (libc::EHOSTUNREACH, "dropped_no_route"),
        (libc::ENODEV, "dropped_no_route"),
        (libc::EPERM, "dropped_forbidden"),
    ];
    for (errno, counter) in cases {
        let mut socket = socket();
        socket.io.send_errors = [errno].into();
        send(&mut socket, &run(0, 2));
        assert!(socket.io.taken.is_empty(), "errno {errno}: the whole run shares the fate");
        assert!(socket.counters.entries().contains(&(counter, 3)), "errno {errno}");
        assert_eq!(socket.unreachable, [no_route()], "errno {errno}");
    }
}

#[test]
fn a_full_queue_costs_only_what_it_refused() {
    let mut socket = socket();
    socket.io.send_errors = [libc::ENOBUFS].into();
    send(&mut socket, &[1; 100 * 70]);
    assert_eq!(socket.counters.dropped_queue_full, 64);
    assert_eq!(socket.counters.packets_sent, 6);
    assert!(socket.unreachable.is_empty());
}

#[test]
fn an_icmp_error_of_another_destination_does_not_cost_the_run() {
    let other = "192.0.2.77:9899".parse().unwrap();
    let mut socket = socket();
    socket.io.send_errors = [libc::ECONNREFUSED].into();
    let quote = Quote::of(b"packet");
    let report =
        ErrorReport { kind: ErrorKind::Unreachable, destination: Some(other), quote, mtu: 0 };
    socket.io.reports.extend([report, report]);
    let bytes = run(0, 4);
    send(&mut socket, &bytes);
    assert_eq!(socket.io.bytes_taken(), bytes);
    assert_eq!(
        socket.unreachable,
        [Unreachable { remote: other, quote: Some(quote), lacks: Lacks::Way }]
    );
    assert_eq!(socket.counters.icmp_unreachable, 2);
    assert_eq!(socket.counters.dropped_send_error, 0);
}

/// Reports about somebody else, as an attacker forges them.
fn forged(count: usize) -> impl Iterator<Item = ErrorReport> {
    let destination = "192.0.2.77:9899".parse().ok();
    let quote = Quote::of(b"packet");
    std::iter::repeat_n(
        ErrorReport { kind: ErrorKind::Unreachable, destination, quote, mtu: 0 },
        count,
    )
}

#[test]
fn more_reports_than_are_read_at_once_cost_nothing() {
    let mut socket = socket();
    // The kernel fails the next call again while reports are left.
    socket.io.send_errors = [libc::EHOSTUNREACH; 2].into();
    socket.io.always_hears = true;
    socket.io.reports.extend(forged(REPORTS_PER_PAUSE + 1));
    let bytes = run(0, 4);
    send(&mut socket, &bytes);
    assert_eq!(socket.io.bytes_taken(), bytes);
    assert!(!socket.unreachable.contains(&no_route()), "{:?}", socket.unreachable);
}

#[test]
fn a_flood_of_reports_never_closes_a_path() {
    let mut socket = socket();
    let calls = 1000;
    socket.io.send_errors = std::iter::repeat_n(libc::EHOSTUNREACH, calls).collect();
    socket.io.always_hears = true;
    socket.io.reports.extend(forged(calls * REPORTS_PER_PAUSE));
    send(&mut socket, &run(0, 4));
    assert!(!socket.unreachable.contains(&no_route()), "{:?}", socket.unreachable);
    assert_eq!(socket.counters.dropped_no_route, 0);
    assert!(socket.io.send_errors.len() > calls / 2, "the flood holds up the sender");
}

#[test]
fn a_report_that_found_no_room_in_the_queue_costs_nothing() {
    let mut socket = socket();
    socket.io.reports.extend(forged(1));
    assert_eq!(socket.read_errors(), 1);
    socket.io.send_errors = [libc::EHOSTUNREACH].into();
    let bytes = run(0, 4);
    send(&mut socket, &bytes);
    assert_eq!(socket.io.bytes_taken(), bytes);

    socket.io.send_errors = [libc::EHOSTUNREACH; 2].into();
    send(&mut socket, &bytes);
    assert_eq!(socket.counters.dropped_no_route, 5, "twice is no accident");
}

/// The kernel queues a report before it lets a call fail by it: it may be read in between.
#[test]
fn reports_that_were_read_before_they_make_a_call_fail_cost_nothing() {
    let mut socket = socket();
    let bytes = run(0, 4);
    let read = || forged(1).next();
    socket.io.send_errors = [libc::EHOSTUNREACH; 4].into();
    socket.io.reads = [read(), None, None, read(), None, None].into();
    send(&mut socket, &bytes);
    assert_eq!(socket.io.bytes_taken(), bytes);

    socket.count_reports_anew(Instant::ZERO + REPORT_PAUSE * 2);
    socket.io.taken.clear();
    socket.io.send_errors = [libc::EHOSTUNREACH].into();
    send(&mut socket, &bytes);
    assert_eq!(socket.io.bytes_taken(), bytes, "the last report was heard just before");

    socket.count_reports_anew(Instant::ZERO + REPORT_PAUSE * 4);
    socket.count_reports_anew(Instant::ZERO + REPORT_PAUSE * 6);
    socket.io.send_errors = [libc::EHOSTUNREACH].into();
    send(&mut socket, &bytes);
    assert_eq!(socket.counters.dropped_no_route, 5, "no report was heard for long");
}

#[test]
fn a_flood_of_reports_loses_no_packet_and_is_not_heard_for_a_while() {
    let mut socket = socket();
    let (now, calls) = (Instant::ZERO + REPORT_PAUSE, 1000);
    for turn in 1..=3_u32 {
        let now = now + REPORT_PAUSE * turn;
        socket.count_reports_anew(now);
        assert!(!socket.io.is_deaf, "heard again");
        socket.io.send_errors = std::iter::repeat_n(libc::EHOSTUNREACH, calls).collect();
        socket.io.reports.extend(forged(calls * REPORTS_PER_PAUSE));
        let bytes = run(0, 4);
        socket.io.taken.clear();
        send(&mut socket, &bytes);
        assert_eq!(socket.io.bytes_taken(), bytes);
        assert!(socket.io.is_deaf);
        socket.count_reports_anew(now + REPORT_PAUSE / 2);
        assert!(socket.io.is_deaf, "not yet heard again");
        assert_eq!(socket.counters.report_pauses, u64::from(turn));
    }
    assert_eq!(socket.counters.dropped_send_error, 0);
    assert_eq!(socket.counters.icmp_unreachable, 3 * REPORTS_PER_PAUSE as u64);
}

#[test]
fn a_packet_too_big_is_sent_again_in_fragments() {
    let mut socket = socket();
    socket.io.send_errors = [libc::EMSGSIZE].into();
    let bytes = run(0, 3);
    send(&mut socket, &bytes);
    assert_eq!(socket.io.bytes_taken(), bytes);
    assert!(socket.fragments && socket.offload.is_trusted());

    socket.io.send_errors = [libc::EMSGSIZE, libc::EMSGSIZE].into();
    send(&mut socket, &bytes);
    assert_eq!(socket.counters.dropped_too_big, 4, "neither whole nor one by one");
    assert!(socket.unreachable.is_empty());
}

#[test]
fn icmp_too_big_allows_fragments() {
    let mut socket = socket();
    let quote = Quote::default();
    let report =
        ErrorReport { kind: ErrorKind::TooBig, destination: Some(remote()), quote, mtu: 1400 };
    socket.io.reports.push_back(report);
    assert_eq!(socket.read_errors(), 1);
    assert!(socket.fragments);
    assert_eq!(socket.counters.icmp_too_big, 1);
    assert!(socket.unreachable.is_empty());
}

#[test]
fn the_bytes_that_wait_are_bounded() {
    let mut socket = socket();
    socket.io.send_errors = [libc::EAGAIN].into();
    let bytes = vec![1; 64_000];
    for _ in 0..100 {
        send(&mut socket, &bytes);
    }
    let held = socket.waiting.bytes();
    assert!((WAITING_LIMIT..WAITING_LIMIT + 64_000).contains(&held));
    assert_eq!(socket.counters.dropped_queue_full, 64_000 - held as u64 / 100);
    socket.resume(Instant::ZERO);
    assert_eq!(socket.io.bytes_taken().len(), held);
}

#[test]
fn the_kernels_own_reports_are_no_reason_to_try_again() {
    let mut socket = socket();
    socket.io.never_fragments = true;
    socket.io.send_errors = [libc::EMSGSIZE].into();
    let quote = Quote::default();
    let report = ErrorReport { kind: ErrorKind::Local, destination: None, quote, mtu: 0 };
    socket.io.reports.push_back(report);
    send(&mut socket, &[1; 100]);
    assert_eq!(socket.counters.dropped_too_big, 1);
    assert_eq!(socket.counters.icmp_other, 0);
}

#[test]
fn the_ecn_bits_of_a_run_stay_with_it_while_it_waits() {
    let mut socket = socket();
    socket.io.send_errors = [0, libc::EAGAIN].into();
    for ecn in [Ecn::Ect0, Ecn::NotEct, Ecn::Ect0] {
        let bytes = &run(0, 2);
        let (segment_size, may_fragment) = (100, false);
        let packets = Packets { remote: remote(), segment_size, bytes, may_fragment, ecn };
        socket.send(Instant::ZERO, packets);
    }
    socket.resume(Instant::ZERO);
    assert_eq!(socket.io.marks, [Ecn::Ect0, Ecn::NotEct, Ecn::Ect0]);
}
