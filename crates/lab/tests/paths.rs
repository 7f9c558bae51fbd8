//! What programs on the hosts meet: the delay, the rate, the queue and the changes that were asked
//! for.

use crate::support;

use manypath_lab::{Change, Host, Isolation, LabSpec};
use std::time::Duration;
use support::{Server, isolations, lab, run, specs, start};

/// (smallest, median) round-trip time in milliseconds and answers.
fn rtt(lab: &manypath_lab::Lab, address: &str, count: &str) -> (f64, f64, usize) {
    let answer = run(lab, Host::Left, "udp-rtt", &[address, count]);
    let numbers: Vec<f64> = answer.split(' ').map(|word| word.parse().unwrap()).collect();
    (numbers[0] / 1e3, numbers[1] / 1e3, numbers[2] as usize)
}

#[test]
fn round_trip_is_twice_the_delay_on_every_path_and_family() {
    for isolation in isolations() {
        let spec = LabSpec { isolation, ..LabSpec::new(specs(&["10ms", "40ms"])) };
        let Some(lab) = start(spec) else { continue };
        for (address, bind, delay) in [
            ("10.77.1.2:7", "10.77.1.2:7", 10.0),
            ("10.77.2.2:7", "10.77.2.2:7", 40.0),
            ("[fd77:2::2]:7", "[fd77:2::2]:7", 40.0),
        ] {
            let _echo = Server::start(&lab, Host::Right, "udp-echo", &[bind]);
            let (least, median, answers) = rtt(&lab, address, "10");
            println!("{isolation:?} {address}: min {least} ms, median {median} ms");
            assert_eq!(answers, 10);
            assert!((2.0 * delay..2.0 * delay + 3.0).contains(&least), "min {least}");
            assert!(median < 2.0 * delay + 10.0, "median {median}");
        }
    }
}

#[test]
fn hosts_know_each_other_by_name_and_nobody_else() {
    for isolation in isolations() {
        let Some(lab) = start(LabSpec { isolation, ..LabSpec::new(specs(&["1ms"])) }) else {
            continue;
        };
        let output = lab.command(Host::Left, "hostname").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "left\n");
        let hosts = lab.command(Host::Left, "cat").arg("/etc/hosts").output().unwrap();
        let hosts = String::from_utf8_lossy(&hosts.stdout).into_owned();
        assert!(hosts.contains("10.77.1.2 right") && hosts.contains("fd77:1::1 left"), "{hosts}");
        let routes = lab.command(Host::Left, "cat").arg("/proc/net/route").output().unwrap();
        let routes = String::from_utf8_lossy(&routes.stdout).into_owned();
        assert!(routes.lines().skip(1).all(|line| line.starts_with("pathA")), "{routes}");
        // The working directory survives the change of namespaces.
        let pwd = lab.command(Host::Right, "pwd").current_dir("/usr").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&pwd.stdout), "/usr\n");
    }
}

#[test]
fn in_a_user_namespace_users_stay_who_they_are_and_can_serve_port_80() {
    let spec = LabSpec { isolation: Isolation::UserNamespace, ..LabSpec::new(specs(&["1ms"])) };
    let Some(lab) = start(spec) else { return };
    let id = |command: &mut std::process::Command| {
        String::from_utf8(command.arg("-u").output().unwrap().stdout).unwrap()
    };
    assert_eq!(id(&mut lab.command(Host::Left, "id")), id(&mut std::process::Command::new("id")));
    let _server = Server::start(&lab, Host::Right, "udp-echo", &["10.77.1.2:80"]);
}

#[test]
fn rate_is_kept_within_three_percent() {
    // 1250-byte packets (with 28 bytes of headers) at 10 Mbit/s leave 1 ms apart. They are offered
    // at twice the rate for as long as the queue holds.
    let Some(lab) = lab(&["rate=10mbit,delay=5ms,queue=1000"]) else { return };
    let mut sink = Server::start(&lab, Host::Right, "udp-sink", &["10.77.1.2:9"]);
    run(&lab, Host::Left, "udp-blast", &["10.77.1.2:9", "1000", "1222", "500"]);
    let answer = sink.answer("received ");
    let numbers: Vec<f64> = answer.split(' ').map(|word| word.parse().unwrap()).collect();
    let mbps = (numbers[0] - 1.0) * 1250.0 * 8.0 / numbers[1];
    println!("10 Mbit/s path: {mbps:.3} Mbit/s, {} packets", numbers[0]);
    assert_eq!(numbers[0], 1000.0);
    assert!((9.7..10.3).contains(&mbps), "{mbps}");
}

/// Packets and Mbit/s of 100 packets of 1250 bytes.
fn blast(lab: &manypath_lab::Lab) -> (f64, f64) {
    let mut sink = Server::start(lab, Host::Right, "udp-sink", &["10.77.1.2:9"]);
    run(lab, Host::Left, "udp-blast", &["10.77.1.2:9", "100", "1222", "0"]);
    let answer = sink.answer("received ");
    let numbers: Vec<f64> = answer.split(' ').map(|word| word.parse().unwrap()).collect();
    (numbers[0], (numbers[0] - 1.0) * 1250.0 * 8.0 / numbers[1])
}

#[test]
fn a_trace_decides_when_packets_leave_and_can_be_changed_live() {
    let file = std::env::temp_dir().join(format!("manypath-{}.trace", std::process::id()));
    let file = file.to_str().unwrap().to_owned();
    // 1500 bytes every 6 ms are 2 Mbit/s.
    std::fs::write(&file, "6\n").unwrap();
    let Some(lab) = lab(&[&format!("trace={file},5ms,queue=200")]) else { return };
    let (packets, mbps) = blast(&lab);
    assert!(packets == 100.0 && (1.9..2.1).contains(&mbps), "{packets} packets, {mbps} Mbit/s");
    std::fs::write(&file, "4\n4\n").unwrap();
    let faster = Change::parse_all(&["trace".into(), file.clone()]).unwrap();
    // The opportunities go to the lab, not the name.
    std::fs::remove_file(&file).unwrap();
    lab.path("A").unwrap().set(&faster).unwrap();
    let (packets, mbps) = blast(&lab);
    assert!(packets == 100.0 && (5.6..6.4).contains(&mbps), "{packets} packets, {mbps} Mbit/s");
    let status = lab.status().unwrap().paths.remove(0).towards_right;
    assert_eq!((status.trace, status.rate_bps), (Some(file), Some(6_000_000)));
}

#[test]
fn a_full_queue_drops_and_the_drops_are_counted() {
    // One packet per second leaves; 1 on the transmitter and 20 in the queue get through.
    let Some(lab) = lab(&["rate=10kbit,delay=1ms,queue=20"]) else { return };
    let mut sink = Server::start(&lab, Host::Right, "udp-sink", &["10.77.1.2:9"]);
    run(&lab, Host::Left, "udp-blast", &["10.77.1.2:9", "100", "1222", "0"]);
    let towards_right = lab.status().unwrap().paths.remove(0).towards_right;
    assert_eq!(towards_right.queue_peak, 20);
    lab.path("A").unwrap().set(&[Change::Rate(None)]).unwrap();
    let received = sink.answer("received ");
    let received: u64 = received.split(' ').next().unwrap().parse().unwrap();
    assert!((21..24).contains(&received), "{received} packets");
    assert_eq!(received + towards_right.dropped_queue, 100, "{towards_right:?}");
}

#[test]
fn changes_take_effect_at_once() {
    let Some(lab) = lab(&["20ms", "1ms"]) else { return };
    let _echo = Server::start(&lab, Host::Right, "udp-echo", &["10.77.1.2:7"]);
    let path = lab.path("A").unwrap();
    path.set_towards(Host::Right, &[Change::Delay(Duration::from_millis(5))]).unwrap();
    let (least, ..) = rtt(&lab, "10.77.1.2:7", "5");
    assert!((25.0..28.0).contains(&least), "5 ms there and 20 ms back: {least}");
    path.down().unwrap();
    assert_eq!(rtt(&lab, "10.77.1.2:7", "2").2, 0, "a path that is down carries nothing");
    path.up().unwrap();
    assert_eq!(rtt(&lab, "10.77.1.2:7", "5").2, 5);
    path.set_towards(Host::Left, &[Change::Loss(1_000_000)]).unwrap();
    assert_eq!(rtt(&lab, "10.77.1.2:7", "2").2, 0);
    let status = lab.status().unwrap().paths.remove(0);
    assert_eq!((status.towards_right.dropped_down, status.towards_left.dropped_loss), (2, 2));
    assert!(matches!(lab.path("C"), Err(manypath_lab::LabError::NoSuchPath(_))));
}

#[test]
fn samples_add_up_to_what_was_delivered() {
    let Some(lab) = lab(&["rate=20mbit,delay=10ms,queue=100"]) else { return };
    let mut sink = Server::start(&lab, Host::Right, "tcp-sink", &["10.77.1.2:9"]);
    let before = lab.elapsed().unwrap();
    run(&lab, Host::Left, "tcp-send", &["10.77.1.2:9", "1000000"]);
    assert!(sink.answer("received ").starts_with("1000000 "));
    std::thread::sleep(Duration::from_millis(120));
    let status = lab.status().unwrap().paths.remove(0);
    let samples = lab.samples(0).unwrap();
    let path = &samples.paths[0];
    assert_eq!(path.towards_right.len(), path.towards_left.len());
    assert_eq!(path.towards_right.iter().sum::<u64>(), status.towards_right.bytes_out);
    assert_eq!(path.towards_left.iter().sum::<u64>(), status.towards_left.bytes_out);
    let busy = (before.as_millis() / samples.bucket.as_millis()) as usize;
    assert!(path.towards_right[..busy].iter().sum::<u64>() < 2000, "quiet before the transfer");
    // 20 Mbit/s are 125,000 bytes per bucket; what a late thread hands over follows in the next.
    assert!(path.towards_right.iter().all(|bytes| *bytes < 300_000), "{samples:?}");
    let later = lab.samples(busy as u64).unwrap();
    assert_eq!(later.first, busy as u64);
}

#[test]
fn a_capture_has_every_packet_and_the_fate_of_the_lost_ones() {
    let Some(lab) = lab(&["1ms", "loss=100%"]) else { return };
    let file =
        std::env::temp_dir().join(format!("manypath-lab-test-{}.pcapng", std::process::id()));
    let _echo = Server::start(&lab, Host::Right, "udp-echo", &["10.77.1.2:7"]);
    lab.capture(&file).unwrap();
    assert_eq!(rtt(&lab, "10.77.1.2:7", "4").2, 4);
    assert_eq!(rtt(&lab, "10.77.2.2:7", "1").2, 0);
    let summary = lab.stop_capture().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    // Four there and four back, one lost; IPv4, UDP and four bytes each.
    assert_eq!((summary.packets, summary.bytes, summary.missed), (9, 9 * 32, 0));
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("pathA") && has("pathB") && has("dropped by the lab: random loss"));
}
