//! The same program, directly and through the shim: what it prints must be the same.

use crate::harness::{Test, Verdict};
use crate::launch::{Done, Shim, direct};
use crate::network::Network;

pub(crate) const TESTS: &[Test] = &[
    ("probe_ipv4", |_| compare(V4, &Shim::default())),
    ("probe_ipv6", |_| compare(V6, &Shim::default())),
    ("probe_mapped", |_| compare(MAPPED, &Shim::default())),
    ("probe_unprivileged", unprivileged),
    ("probe_of_another_user", of_another_user),
    ("probe_direct_answers", |_| same(DIRECT, &Shim::default()).0),
    ("probe_late_direct_answers", |_| same(LATE, &Shim::default()).0),
    ("probe_without_a_stack", |_| same(V4, &Shim { stack: vec![], ..Shim::default() }).0),
];

const PROBE: &str = include_str!("probe.py");
const V4: [&str; 4] = ["10.99.0.2", "10.98.0.1", "10.99.0.1", "192.0.2.1"];
const V6: [&str; 4] = ["fd99::2", "fd98::1", "fd99::1", "2001:db8::1"];
const MAPPED: [&str; 4] =
    ["::ffff:10.99.0.2", "::ffff:10.98.0.1", "::ffff:10.99.0.1", "::ffff:192.0.2.1"];
const DIRECT: [&str; 4] = ["10.99.0.3", "10.98.0.1", "10.99.0.1", "192.0.2.1"];
const LATE: [&str; 4] = ["10.99.0.4", "10.98.0.1", "10.99.0.1", "192.0.2.1"];

/// Equal output, and nearly all of the probe's connections went through the stack.
fn compare(addresses: [&str; 4], shim: &Shim) -> Verdict {
    let (verdict, done) = same(addresses, shim);
    assert!(done.count("sctp") > 150, "few went through the stack: {}", done.report);
    for reason in ["udp", "loopback", "mptcp", "other-family"] {
        assert!(done.count(reason) > 0, "{reason} was not counted: {}", done.report);
    }
    verdict
}

fn unprivileged(network: &Network) -> Verdict {
    if !network.real_root {
        return Verdict::Skipped("only the real root can become somebody else".into());
    }
    compare(V4, &Shim { nobody: true, ..Shim::default() })
}

/// A launcher of root's reaches memory of others in another way.
fn of_another_user(network: &Network) -> Verdict {
    if !network.real_root {
        return Verdict::Skipped("only the real root can become somebody else".into());
    }
    let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let (verdict, done) = same_command(&[&other, &probe(V4)[..]].concat(), &Shim::default());
    assert!(done.count("sctp") > 150, "few went through the stack: {}", done.report);
    verdict
}

fn probe(addresses: [&str; 4]) -> [&str; 8] {
    let [host, silent, source, unroutable] = addresses;
    ["/usr/bin/python3", "-c", PROBE, host, "7000", silent, source, unroutable]
}

fn same(addresses: [&str; 4], shim: &Shim) -> (Verdict, Done) {
    same_command(&probe(addresses), shim)
}

fn same_command(command: &[&str], shim: &Shim) -> (Verdict, Done) {
    let expected = direct(command).expect_status(0);
    let done = shim.run(command).expect_status(0);
    let mut differences = differences(&expected.stdout, &done.stdout);
    if !differences.is_empty() {
        // On a busy machine the kernel itself does not always answer alike: what it does at another time is as good.
        let again = direct(command).expect_status(0);
        differences.retain(|line| again.stdout.lines().nth(line.number) != Some(&line.shim));
    }
    assert!(differences.is_empty(), "{differences:#?}\n{}", done.report);
    assert_eq!(expected.stdout.lines().count(), done.stdout.lines().count(), "{done:#?}");
    (Verdict::Passed, done)
}

#[derive(Debug)]
struct Difference {
    number: usize,
    #[expect(dead_code, reason = "to be read where the test fails")]
    direct: String,
    shim: String,
}

fn differences(direct: &str, shim: &str) -> Vec<Difference> {
    let pairs = direct.lines().zip(shim.lines()).enumerate();
    let different = pairs.filter(|(_, (direct, shim))| direct != shim);
    let named = different.map(|(number, (direct, shim))| Difference {
        number,
        direct: direct.to_owned(),
        shim: shim.to_owned(),
    });
    named.collect()
}
