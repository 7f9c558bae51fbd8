use super::Timing;
use super::search::MtuSearch;
use crate::config::{Config, PathMtu, ProbeOrder};
use crate::path::PathAddr;
use crate::time::{Duration, Instant};
use core::net::SocketAddr;

const TIMING: Timing =
    Timing { round_trip: Duration::from_millis(100), rto: Duration::from_millis(300) };

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn addr(local: &str, remote: &str) -> PathAddr {
    let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
    PathAddr { local: parse(local), remote: parse(remote) }
}

fn v4() -> PathAddr {
    addr("10.0.0.1:9899", "10.0.0.2:9899")
}

fn search(addr: &PathAddr, link: u16) -> MtuSearch {
    let config = Config { path_mtu: PathMtu::Search, ..Config::default() };
    MtuSearch::new(addr, link, &config)
}

/// Over native SCTP with a base of 1200 bytes for the whole packet.
fn ordered(order: ProbeOrder, link: u16) -> MtuSearch {
    let config = Config {
        path_mtu: PathMtu::Search,
        plpmtu_order: order,
        plpmtu_base: 1180,
        ..Config::default()
    };
    MtuSearch::new(&addr("10.0.0.1:0", "10.0.0.2:0"), link, &config)
}

/// A path that takes packets of `mtu` bytes, on which a router may say so.
struct Network {
    search: MtuSearch,
    mtu: u16,
    reports: bool,
    millis: u64,
    nonce: u64,
    /// Probes and when they were sent.
    probes: std::vec::Vec<(u64, u16)>,
}

impl Network {
    fn new(link: u16, mtu: u16) -> Self {
        Self::with(search(&v4(), link), mtu)
    }

    fn in_order(order: ProbeOrder, link: u16, mtu: u16) -> Self {
        Self::with(ordered(order, link), mtu)
    }

    fn with(mut search: MtuSearch, mtu: u16) -> Self {
        search.start();
        Self { search, mtu, reports: false, millis: 0, nonce: 0, probes: std::vec::Vec::new() }
    }

    fn sizes(&self) -> std::vec::Vec<u16> {
        self.probes.iter().map(|(_, size)| *size).collect()
    }

    /// Lets `millis` pass.
    fn run(&mut self, millis: u64) {
        let end = self.millis + millis;
        loop {
            if self.search.wants_probe() {
                self.probe();
                continue;
            }
            match self.search.deadline().filter(|due| *due <= at(end)) {
                Some(due) => {
                    self.millis = self.millis.max(due.as_nanos() / 1_000_000);
                    self.search.handle_timeout(at(self.millis));
                }
                None => break,
            }
        }
        self.millis = end;
    }

    fn probe(&mut self) {
        self.nonce += 1;
        let nonce = self.nonce;
        let size = self.search.on_send(at(self.millis), nonce, TIMING);
        self.probes.push((self.millis, size));
        if size <= self.mtu {
            self.millis += 100;
            assert!(self.search.on_answer(at(self.millis), |probe| probe.nonce == nonce).is_some());
        } else if self.reports {
            self.millis += 50;
            self.search.on_too_big(at(self.millis), self.mtu, TIMING);
        }
    }

    /// Large packets are lost for a while.
    fn lose(&mut self) -> bool {
        (0..3).any(|_| {
            self.millis += 1000;
            self.search.on_large_lost();
            self.search.on_passed(false);
            self.search.judge(at(self.millis), TIMING)
        })
    }
}

#[test]
fn a_path_as_wide_as_its_interface_costs_one_probe_and_a_round_trip() {
    for link in [1500, 9000, 65_535] {
        let mut network = Network::new(link, link);
        assert_eq!(network.search.mtu(), 1228, "1200 bytes of SCTP at first");
        network.run(300);
        assert_eq!((network.search.mtu(), network.probes.len()), (link, 1));
        network.run(10_000_000);
        assert_eq!(network.probes.len(), 1, "nothing larger to look for");
    }
}

#[test]
fn a_narrow_path_is_found_to_the_next_common_size_without_any_report() {
    for (link, mtu, found) in [
        (1500, 1492, 1492),
        (1500, 1499, 1492),
        (1500, 1400, 1400),
        (1500, 1300, 1280),
        (1500, 1228, 1228),
        (9000, 1500, 1500),
        (9000, 8950, 8900),
        (65_535, 9000, 9000),
        (65_535, 1500, 1500),
    ] {
        let mut network = Network::new(link, mtu);
        network.run(15_000);
        assert_eq!(network.search.mtu(), found, "{link} {mtu}: {:?}", network.probes);
        let after = network.probes.len();
        network.run(580_000);
        assert_eq!(network.probes.len(), after, "PMTU_RAISE_TIMER");
    }
}

#[test]
fn a_size_is_given_up_after_max_probes_and_probes_are_a_second_apart_if_unanswered() {
    let mut network = Network::new(1500, 1480);
    network.run(20_000);
    let last: std::vec::Vec<_> = network.probes.iter().rev().take(3).collect();
    assert!(last.iter().all(|(_, size)| *size == 1492));
    let times: std::vec::Vec<_> = last.iter().map(|(at, _)| *at).collect();
    assert_eq!([times[0] - times[1], times[1] - times[2]], [1000, 1000]);
}

#[test]
fn a_report_of_a_router_is_probed_at_once_and_not_believed() {
    let mut network = Network::new(1500, 1443);
    network.reports = true;
    network.run(400);
    assert_eq!((network.search.mtu(), network.sizes()), (1443, std::vec![1500, 1443]));
    let [(first, _), (second, _)] = network.probes[..] else { panic!() };
    assert_eq!(second - first, 100, "a round trip apart");
    // One that lies changes nothing but what is tried.
    let mut network = Network::new(1500, 1500);
    network.search.on_send(at(0), 1, TIMING);
    assert!(network.search.on_too_big(at(10), 1300, TIMING));
    assert_eq!(network.search.mtu(), 1228);
}

#[test]
fn reports_of_absurd_sizes_are_ignored() {
    let mut network = Network::new(1500, 1500);
    network.run(300);
    for size in [0, 68, 575, 1500, 1501, 65_535] {
        assert!(!network.search.on_too_big(at(500), size, TIMING), "{size}");
        assert_eq!(network.search.mtu(), 1500);
    }
    assert!(!network.search.wants_probe());
}

#[test]
fn a_report_below_what_is_in_use_makes_packets_small_until_a_probe_has_passed() {
    let mut network = Network::new(1500, 1500);
    network.run(300);
    network.mtu = 1420;
    assert!(network.search.on_too_big(at(network.millis), 1420, TIMING));
    assert_eq!(network.search.mtu(), 1228);
    network.run(300);
    assert_eq!(network.search.mtu(), 1420);
    assert_eq!(network.sizes(), [1500, 1420]);
}

#[test]
fn a_report_below_the_base_leads_to_the_least_size_and_the_base_is_tried_again() {
    let mut network = Network::new(1500, 1500);
    network.run(300);
    network.mtu = 1000;
    assert!(network.search.on_too_big(at(network.millis), 1000, TIMING));
    assert_eq!(network.search.mtu(), 576);
    network.run(10_000);
    assert_eq!(network.search.mtu(), 576);
    assert!(network.sizes()[1..].iter().all(|size| *size == 1228));
    network.mtu = 1500;
    network.run(100_000);
    assert_eq!(network.search.mtu(), 1500);
}

#[test]
fn a_black_hole_is_left_for_the_base_and_what_passes_is_searched_anew() {
    let mut network = Network::new(1500, 1500);
    network.run(300);
    network.mtu = 1400;
    assert!(network.lose());
    assert_eq!(network.search.mtu(), 1228);
    network.run(10_000);
    assert_eq!(network.search.mtu(), 1400);
    assert_eq!(network.sizes()[1..3], [1228, 1500], "the base is confirmed first");
}

#[test]
fn a_path_that_does_not_take_the_base_is_used_with_the_least_size() {
    let mut network = Network::new(1500, 1000);
    network.run(5000);
    assert_eq!(
        (network.search.mtu(), network.sizes()[..4].to_vec()),
        (576, std::vec![1500, 1228, 1228, 1228])
    );
    let in_a_day = network.probes.len();
    network.run(86_400_000);
    assert!(network.probes.len() - in_a_day < 600, "the pauses grow");
}

#[test]
fn an_answer_that_comes_late_counts_and_one_that_comes_twice_does_not() {
    let mut network = Network::new(1500, 1500);
    network.search.on_send(at(0), 1, TIMING);
    network.search.handle_timeout(at(1000));
    network.search.on_send(at(1000), 2, TIMING);
    assert!(network.search.on_answer(at(1100), |probe| probe.nonce == 1).is_some());
    assert_eq!(network.search.mtu(), 1500);
    assert!(network.search.on_answer(at(1101), |probe| probe.nonce == 1).is_none());
}

#[test]
fn the_search_begins_again_after_the_raise_timer_if_data_was_sent() {
    let mut network = Network::new(1500, 1400);
    network.run(20_000);
    assert_eq!(network.search.mtu(), 1400);
    assert!(!network.search.is_worth_raising(Some(at(10))));
    assert!(network.search.is_worth_raising(Some(at(20_000))));
    network.mtu = 1500;
    network.run(610_000);
    assert_eq!(network.search.mtu(), 1500);
}

#[test]
fn ipv6_never_goes_below_its_smallest_mtu_and_native_packets_need_no_udp_header() {
    let v6 = addr("[fd00::1]:9899", "[fd00::2]:9899");
    let mut search = search(&v6, 1500);
    search.start();
    assert_eq!(search.mtu(), 1280);
    search.on_send(at(0), 1, TIMING);
    assert!(!search.on_too_big(at(10), 1279, TIMING));
    assert!(search.on_too_big(at(10), 1280, TIMING));
    assert_eq!(search.mtu(), 1280);
    let native = addr("10.0.0.1:0", "10.0.0.2:0");
    assert_eq!(self::search(&native, 1500).mtu(), 1220);
}

#[test]
fn without_a_search_packets_are_as_large_as_the_interface_takes() {
    let mut search =
        MtuSearch::new(&v4(), 1500, &Config { path_mtu: PathMtu::Interface, ..Config::default() });
    search.start();
    assert_eq!((search.mtu(), search.wants_probe(), search.deadline()), (1500, false, None));
    assert!(!search.on_too_big(at(0), 1400, TIMING));
    assert!(!search.is_large(1500));
}

#[test]
fn in_the_binary_order_the_base_is_confirmed_and_the_rest_is_halved() {
    let mut network = Network::in_order(ProbeOrder::Binary, 1500, 1500);
    network.run(1000);
    assert_eq!((network.search.mtu(), network.sizes()), (1500, std::vec![1200, 1500]));
    let mut network = Network::in_order(ProbeOrder::Binary, 1500, 1492);
    network.run(10_000);
    let halves = std::vec![1200, 1500, 1352, 1428, 1464, 1484, 1492, 1496, 1496, 1496];
    assert_eq!((network.search.mtu(), network.sizes()), (1492, halves));
}

#[test]
fn the_binary_order_finds_every_size_up_to_the_packets_alignment() {
    for link in [1500, 1502, 9000, 65_535] {
        for mtu in (1200..=link).step_by(usize::from(link) / 97) {
            let mut network = Network::in_order(ProbeOrder::Binary, link, mtu);
            network.run(120_000);
            assert_eq!(network.search.mtu(), mtu - mtu % 4, "{link} {mtu}: {:?}", network.probes);
        }
    }
}

#[test]
fn a_probe_lost_to_congestion_is_repeated_when_nothing_smaller_is_left() {
    let mut network = Network::in_order(ProbeOrder::Binary, 1500, 1400);
    network.run(250);
    network.mtu = 1500;
    network.run(5000);
    assert_eq!(network.search.mtu(), 1500);
    assert_eq!(network.sizes().iter().filter(|size| **size == 1500).count(), 2);
}

#[test]
fn where_smaller_sizes_are_left_a_lost_probe_is_waited_for_two_round_trips_and_else_a_second() {
    let mut network = Network::in_order(ProbeOrder::Binary, 1500, 1200);
    network.run(20_000);
    let pauses: std::vec::Vec<_> =
        network.probes.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(pauses[1..pauses.len() - 2].iter().all(|pause| *pause == 200), "{pauses:?}");
    assert_eq!(pauses[pauses.len() - 2..], [1000, 1000], "{:?}", network.probes);
}

#[test]
fn in_the_step_order_each_probe_is_four_bytes_larger() {
    let mut network = Network::in_order(ProbeOrder::Step, 1500, 1214);
    network.run(10_000);
    let steps = std::vec![1200, 1204, 1208, 1212, 1216, 1216, 1216];
    assert_eq!((network.search.mtu(), network.sizes()), (1212, steps));
}

#[test]
fn a_base_that_does_not_pass_leads_to_a_probe_of_the_least_size_and_on_from_there() {
    let mut network = Network::in_order(ProbeOrder::Binary, 1500, 1000);
    network.run(20_000);
    assert_eq!(network.sizes()[..5], [1200, 1200, 1200, 576, 1500]);
    assert_eq!(network.search.mtu(), 1000);
    let mut network = Network::in_order(ProbeOrder::Binary, 1500, 500);
    network.run(20_000);
    assert_eq!(network.sizes(), [1200, 1200, 1200, 576, 576, 576], "nothing passes");
}

#[test]
fn after_the_raise_timer_a_thorough_search_asks_for_the_next_size_before_it_begins_anew() {
    let mut network = Network::in_order(ProbeOrder::Binary, 1500, 1400);
    network.run(20_000);
    let before = network.probes.len();
    network.run(600_000);
    assert_eq!(network.sizes()[before..], [1404, 1404, 1404]);
    assert!(network.search.is_worth_raising(None), "that costs little");
    network.mtu = 1500;
    network.run(610_000);
    assert_eq!(network.sizes()[before + 3..], [1404, 1500]);
    assert_eq!(network.search.mtu(), 1500);
}

#[test]
fn reports_of_routers_are_not_heeded_where_the_user_does_not_want_them() {
    let config = Config { path_mtu: PathMtu::Search, plpmtu_reports: false, ..Config::default() };
    let mut search = MtuSearch::new(&v4(), 1500, &config);
    search.start();
    search.on_send(at(0), 1, TIMING);
    assert!(!search.on_too_big(at(10), 1400, TIMING));
    assert!(!search.wants_probe());
}

#[test]
fn no_path_is_taken_for_narrower_than_the_least_size() {
    let config = Config { path_mtu: PathMtu::Search, plpmtu_min: 1300, ..Config::default() };
    let search = MtuSearch::new(&v4(), 1500, &config);
    assert_eq!(search.mtu(), 1300);
    let narrow = MtuSearch::new(&v4(), 1280, &config);
    assert_eq!(narrow.mtu(), 1280, "but the interface has the last word");
}

#[test]
fn a_search_can_be_ended_with_a_size_of_the_users_and_begun_again() {
    let mut network = Network::new(1500, 1500);
    network.run(300);
    network.search.end(Some(1300));
    assert_eq!((network.search.mtu(), network.search.wants_probe()), (1300, false));
    assert!(!network.search.on_too_big(at(400), 1280, TIMING));
    let config = Config { path_mtu: PathMtu::Interface, ..Config::default() };
    network.search.begin(&v4(), &config, true);
    assert_eq!(network.search.mtu(), 1228);
    network.run(600);
    assert_eq!(network.search.mtu(), 1500);
    network.search.end(None);
    assert_eq!(network.search.mtu(), 1500, "as it was found");
}
