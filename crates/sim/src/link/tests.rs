use super::*;

const MS: u64 = 1_000_000;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn config(rate_bps: u64, delay_ms: u64, queue_packets: usize) -> LinkConfig {
    let delay = Duration::from_millis(delay_ms);
    LinkConfig { rate_bps: Some(rate_bps), delay, queue_packets, ..LinkConfig::default() }
}

/// Polls at every deadline until the link is empty: (time, packet) of each delivery.
fn drain(link: &mut Link<Vec<u8>>) -> Vec<(u64, Vec<u8>)> {
    let mut out = Vec::new();
    while let Some(now) = link.next_deadline() {
        while let Some(packet) = link.poll(now) {
            out.push((now.as_nanos(), packet));
        }
    }
    out
}

fn times(link: &mut Link<Vec<u8>>) -> Vec<u64> {
    drain(link).into_iter().map(|(time, _)| time).collect()
}

fn balance(link: &Link<Vec<u8>>) {
    let c = link.counters();
    assert_eq!(c.packets_in + c.duplicated, c.packets_out + c.dropped() + link.in_transit() as u64);
}

#[test]
fn serialises_then_propagates() {
    // 1250 bytes at 10 Mbit/s take 1 ms each.
    let mut link = Link::new(config(10_000_000, 10, 100), 1);
    for _ in 0..3 {
        link.enqueue(at(0), vec![0; 1250]).unwrap();
    }
    assert_eq!(link.queue_len(), 2);
    assert_eq!(times(&mut link), [11 * MS, 12 * MS, 13 * MS]);
}

#[test]
fn a_late_poll_does_not_shift_the_schedule() {
    let mut link = Link::new(config(10_000_000, 10, 100), 1);
    for _ in 0..3 {
        link.enqueue(at(0), vec![0; 1250]).unwrap();
    }
    assert!(link.poll(at(12 * MS + 5)).is_some());
    assert!(link.poll(at(12 * MS + 5)).is_some());
    assert!(link.poll(at(12 * MS + 5)).is_none());
    assert_eq!(link.next_deadline(), Some(at(13 * MS)));
}

#[test]
fn the_queue_counts_packets_and_drops_the_last() {
    let mut link = Link::new(config(10_000_000, 0, 2), 1);
    for tag in 0..3 {
        link.enqueue(at(0), vec![tag; 1250]).unwrap();
    }
    assert_eq!(link.enqueue(at(0), vec![3; 1250]), Err(DropReason::QueueFull));
    // One packet has left the transmitter: a place is free again.
    link.enqueue(at(MS), vec![4; 40]).unwrap();
    let tags: Vec<u8> = drain(&mut link).iter().map(|(_, packet)| packet[0]).collect();
    assert_eq!(tags, [0, 1, 2, 4]);
    assert_eq!((link.counters().dropped_queue, link.counters().queue_peak), (1, 2));
    balance(&link);
}

#[test]
fn without_a_rate_nothing_waits() {
    let config = LinkConfig { queue_packets: 0, ..LinkConfig::default() };
    let mut link = Link::new(config, 1);
    for _ in 0..100 {
        link.enqueue(at(5), vec![0; 1500]).unwrap();
    }
    assert_eq!(times(&mut link), [5; 100]);
}

#[test]
fn down_is_a_black_hole_and_loses_what_is_under_way() {
    let mut link = Link::new(config(10_000_000, 10, 100), 1);
    for _ in 0..5 {
        link.enqueue(at(0), vec![0; 1250]).unwrap();
    }
    let cut = LinkConfig { up: false, ..link.config().clone() };
    link.set_config(at(2 * MS), cut.clone());
    assert_eq!(link.next_deadline(), None);
    assert_eq!(link.enqueue(at(3 * MS), vec![0; 40]), Err(DropReason::Down));
    assert_eq!(link.counters().dropped_down, 6);
    link.set_config(at(4 * MS), LinkConfig { up: true, ..cut });
    link.enqueue(at(5 * MS), vec![0; 1250]).unwrap();
    assert_eq!(times(&mut link), [16 * MS]);
    balance(&link);
}

#[test]
fn a_new_rate_applies_to_the_rest_of_the_packet() {
    let mut link = Link::new(config(10_000_000, 0, 100), 1);
    link.enqueue(at(0), vec![0; 1250]).unwrap();
    link.enqueue(at(0), vec![0; 1250]).unwrap();
    // Half of the first packet is left, at a tenth of the rate: 5 ms more.
    link.set_config(at(MS / 2), config(1_000_000, 0, 100));
    assert_eq!(times(&mut link), [5 * MS + MS / 2, 15 * MS + MS / 2]);
}

#[test]
fn a_limit_that_falls_away_lets_everything_go() {
    let mut link = Link::new(config(1, 1, 100), 1);
    link.enqueue(at(0), vec![0; 1250]).unwrap();
    link.enqueue(at(0), vec![0; 1250]).unwrap();
    link.set_config(at(7), LinkConfig { rate_bps: None, ..link.config().clone() });
    assert_eq!(times(&mut link), [MS + 7, MS + 7]);
}

#[test]
fn a_shorter_queue_drops_its_youngest() {
    let mut link = Link::new(config(10_000_000, 0, 10), 1);
    for tag in 0..6 {
        link.enqueue(at(0), vec![tag; 1250]).unwrap();
    }
    link.set_config(at(0), config(10_000_000, 0, 2));
    let tags: Vec<u8> = drain(&mut link).iter().map(|(_, packet)| packet[0]).collect();
    assert_eq!(tags, [0, 1, 2]);
    balance(&link);
}

#[test]
fn a_shorter_delay_lets_new_packets_overtake() {
    let mut link = Link::new(config(10_000_000, 100, 100), 1);
    link.enqueue(at(0), vec![1; 1250]).unwrap();
    link.set_config(at(2 * MS), config(10_000_000, 10, 100));
    link.enqueue(at(2 * MS), vec![2; 1250]).unwrap();
    let out: Vec<(u64, u8)> = drain(&mut link).iter().map(|(t, p)| (*t, p[0])).collect();
    assert_eq!(out, [(13 * MS, 2), (101 * MS, 1)]);
}

#[test]
fn jitter_keeps_the_order_and_its_bounds() {
    let jitter = Duration::from_millis(5);
    let mut link = Link::new(LinkConfig { jitter, ..config(1_000_000_000, 10, 1000) }, 3);
    for tag in 0..200 {
        link.enqueue(at(0), vec![tag; 100]).unwrap();
    }
    let out = drain(&mut link);
    assert!(out.iter().map(|(_, packet)| packet[0]).eq(0..200));
    assert!(out.iter().all(|(time, _)| (10 * MS..16 * MS).contains(time)));
}

#[test]
fn faults_come_as_often_as_asked_and_are_counted() {
    let faulty = LinkConfig {
        loss_ppm: 100_000,
        duplicate_ppm: 50_000,
        reorder_ppm: 20_000,
        corrupt_ppm: 10_000,
        ..config(1_000_000_000, 10, 100)
    };
    let mut link = Link::new(faulty, 5);
    let mut delivered = Vec::new();
    for i in 0..20_000u64 {
        let _ = link.enqueue(at(i * 10_000), i.to_le_bytes().to_vec());
        while let Some(packet) = link.poll(at(i * 10_000)) {
            delivered.push(packet);
        }
    }
    balance(&link);
    delivered.extend(drain(&mut link).into_iter().map(|(_, packet)| packet));
    let c = link.counters();
    let near = |count: u64, expected: u64| count.abs_diff(expected) < expected / 5;
    assert!(near(c.dropped_loss, 2000) && near(c.duplicated, 900), "{c:?}");
    assert!(near(c.reordered, 360) && near(c.corrupted, 180), "{c:?}");
    assert_eq!(delivered.len() as u64, c.packets_out);
    assert!(!delivered.is_sorted(), "some packets overtook others");
}

#[test]
fn the_seed_decides() {
    let run = |seed| {
        let mut link =
            Link::new(LinkConfig { loss_ppm: 300_000, ..config(1_000_000, 1, 50) }, seed);
        (0..100u64).map(|i| link.enqueue(at(i * MS), vec![0; 50]).is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn framing_takes_time_on_the_wire() {
    // 1243 bytes and 7 of framing at 10 Mbit/s take 1 ms.
    let config = LinkConfig { framing: 7, ..config(10_000_000, 0, 100) };
    let mut link = Link::new(config, 1);
    link.enqueue(at(0), vec![0; 1243]).unwrap();
    assert_eq!(times(&mut link), [MS]);
    assert_eq!(link.counters().bytes_out, 1243);
}

#[test]
fn a_queue_can_be_limited_in_bytes() {
    let config = LinkConfig { queue_bytes: Some(1000), ..config(10_000_000, 0, 100) };
    let mut link = Link::new(config, 1);
    for len in [1250, 600, 401, 400] {
        let _ = link.enqueue(at(0), vec![0; len]);
    }
    let lens: Vec<_> = drain(&mut link).iter().map(|(_, packet)| packet.len()).collect();
    assert_eq!(lens, [1250, 600, 400]);
    assert_eq!(link.counters().dropped_queue, 1);
    balance(&link);
}

/// Long runs of losses, and the average that the chain's stationary state gives.
#[test]
fn bursts_of_losses_have_the_length_asked_for() {
    let bursts =
        GilbertElliott { to_bad_ppm: 10_000, to_good_ppm: 200_000, loss_bad_ppm: 1_000_000 };
    let config = LinkConfig { bursts: Some(bursts), ..LinkConfig::default() };
    let mut link = Link::new(config, 3);
    let fates: Vec<_> = (0..200_000).map(|_| link.enqueue(at(0), vec![0]).is_err()).collect();
    let lost = fates.iter().filter(|lost| **lost).count() as f64;
    let starts = fates.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
    assert!((lost / 200_000.0 - 1.0 / 21.0).abs() < 0.005, "{lost} lost");
    assert!((lost / starts - 5.0).abs() < 0.3, "bursts of {}", lost / starts);
}

#[test]
fn bit_errors_hit_long_packets_more_often() {
    // 10^-5 per bit: 1 - (1 - 10^-5)^12000 = 0.113 for 1500 bytes, 0.0032 for 40.
    let lost = |len: usize| {
        let config = LinkConfig { bit_errors: 10_000_000, ..LinkConfig::default() };
        let mut link = Link::new(config, 3);
        (0..50_000).filter(|_| link.enqueue(at(0), vec![0; len]).is_err()).count() as f64 / 5e4
    };
    assert!((lost(1500) - 0.113).abs() < 0.006);
    assert!((lost(40) - 0.0032).abs() < 0.001);
}

fn traced(times: &[u32], queue_packets: usize) -> LinkConfig {
    let trace = Some(Trace::new("test", times.to_vec()).unwrap());
    LinkConfig { trace, queue_packets, ..LinkConfig::default() }
}

/// (time in ms, tag) of each packet of these sizes, all handed over at a time.
fn deliveries(config: LinkConfig, start: u64, sizes: &[usize]) -> Vec<(u64, u8)> {
    let mut link = Link::new(config, 1);
    for (tag, size) in (0..).zip(sizes) {
        link.enqueue(at(start), vec![tag; *size]).unwrap();
    }
    drain(&mut link).into_iter().map(|(time, packet)| (time / MS, packet[0])).collect()
}

#[test]
fn an_opportunity_of_a_trace_carries_1500_bytes() {
    let config = LinkConfig { delay: Duration::from_millis(10), ..traced(&[2, 2, 7], 100) };
    let out = deliveries(config, 0, &[1500, 1500, 1500]);
    assert_eq!(out, [(12, 0), (12, 1), (17, 2)]);
}

#[test]
fn a_packet_larger_than_what_is_left_uses_the_next_opportunities_too() {
    // 4000 bytes take three opportunities and leave 500 bytes of the third to the next packet.
    let out = deliveries(traced(&[1, 2, 3, 9], 100), 0, &[4000, 500, 1]);
    assert_eq!(out, [(3, 0), (3, 1), (9, 2)]);
    let framed = LinkConfig { framing: 7, ..traced(&[1, 2, 9], 100) };
    assert_eq!(deliveries(framed, 0, &[1500]), [(2, 0)]);
}

#[test]
fn small_packets_share_an_opportunity_and_the_last_may_go_on_in_the_next() {
    let out = deliveries(traced(&[5, 8, 20], 100), 0, &[700, 700, 700, 700, 1]);
    assert_eq!(out, [(5, 0), (5, 1), (8, 2), (8, 3), (8, 4)]);
}

#[test]
fn opportunities_that_nobody_uses_are_lost() {
    // Those at 1 and 2 ms have passed, and that at 3 ms has just been missed.
    assert_eq!(deliveries(traced(&[1, 2, 3, 6], 100), 3 * MS, &[1500, 1500]), [(6, 0), (7, 1)]);
    // 1000 bytes of the first one are left, but when they could be used nobody waits.
    let mut link = Link::new(traced(&[4, 9], 100), 1);
    link.enqueue(at(0), vec![0; 500]).unwrap();
    assert!(link.poll(at(4 * MS)).is_some());
    link.enqueue(at(4 * MS), vec![1; 500]).unwrap();
    assert_eq!(times(&mut link), [9 * MS]);
}

#[test]
fn a_trace_repeats_from_its_last_time_on() {
    let out = deliveries(traced(&[0, 4, 10], 100), 0, &[1500; 7]);
    // The opportunity at 0 is gone when the packets come; later ones coincide with the last.
    let times: Vec<_> = out.into_iter().map(|(time, _)| time).collect();
    assert_eq!(times, [4, 10, 10, 14, 20, 20, 24]);
    assert_eq!(deliveries(traced(&[3, 10], 100), 1_000_004 * MS, &[9])[0].0, 1_000_010);
}

#[test]
fn an_outage_of_a_trace_fills_the_queue_and_loses_nothing_else() {
    let mut link = Link::new(traced(&[1, 500, 501, 502], 2), 1);
    let mut fates = (0..5).map(|tag| link.enqueue(at(2 * MS), vec![tag; 1500]).is_ok());
    assert!(fates.by_ref().take(3).all(|taken| taken) && fates.all(|taken| !taken));
    assert_eq!(link.next_deadline(), Some(at(500 * MS)));
    assert_eq!(times(&mut link), [500 * MS, 501 * MS, 502 * MS]);
    assert_eq!(link.counters().dropped_queue, 2);
    balance(&link);
}

#[test]
fn a_late_poll_does_not_shift_a_trace() {
    let run = |polls: &[u64]| {
        let mut link = Link::new(traced(&[1, 2, 5, 6, 6, 9], 100), 1);
        (0..9).for_each(|_| link.enqueue(at(0), vec![0; 1100]).unwrap());
        polls.iter().for_each(|time| while link.poll(at(time * MS)).is_some() {});
        times(&mut link)
    };
    assert_eq!(run(&[1, 2, 5, 6]), run(&[6]));
}

#[test]
fn other_changes_do_not_start_a_trace_again() {
    let mut link = Link::new(traced(&[10, 20, 40], 100), 1);
    link.enqueue(at(0), vec![0; 3000]).unwrap();
    let longer = LinkConfig { delay: Duration::from_millis(1), ..link.config().clone() };
    link.set_config(at(15 * MS), longer);
    assert_eq!(times(&mut link), [21 * MS]);
}

#[test]
fn a_new_trace_begins_at_once_and_carries_the_rest_of_the_packet() {
    let mut link = Link::new(traced(&[10, 20, 40], 100), 1);
    link.enqueue(at(0), vec![0; 3500]).unwrap();
    link.set_config(at(25 * MS), traced(&[3, 100], 100));
    // The 500 bytes that are left, and 1000 of the next packet.
    link.enqueue(at(25 * MS), vec![1; 1100]).unwrap();
    assert_eq!(times(&mut link), [28 * MS, 125 * MS]);
}

#[test]
fn a_trace_that_is_read_again_begins_anew() {
    let mut link = Link::new(traced(&[10, 20, 40], 100), 1);
    link.enqueue(at(0), vec![0; 3500]).unwrap();
    link.set_config(at(25 * MS), traced(&[10, 20, 40], 100));
    // Of the trace that has been there since 0 the next opportunity would be that at 40 ms.
    assert_eq!(times(&mut link), [35 * MS]);
}

#[test]
fn a_trace_and_a_rate_take_over_from_each_other() {
    // 1250 bytes at 1 Mbit/s take 10 ms.
    let mut link = Link::new(traced(&[10, 20], 100), 1);
    link.enqueue(at(0), vec![0; 2750]).unwrap();
    link.set_config(at(12 * MS), config(1_000_000, 0, 100));
    assert_eq!(times(&mut link), [22 * MS]);
    let mut link = Link::new(config(1_000_000, 0, 100), 1);
    link.enqueue(at(0), vec![0; 2500]).unwrap();
    link.set_config(at(4 * MS), traced(&[7, 8], 100));
    assert_eq!(times(&mut link), [12 * MS]);
    let mut link = Link::new(traced(&[10, 20], 100), 1);
    link.enqueue(at(0), vec![0; 9000]).unwrap();
    link.set_config(at(4 * MS), LinkConfig::default());
    assert_eq!(times(&mut link), [4 * MS]);
}
