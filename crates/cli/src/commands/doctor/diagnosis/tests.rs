//! Judgements about findings that no network has made.

use super::super::findings::{
    Ecn, FileFault, Findings, Gso, Kernel, Launcher, LinkState, PathFinding, Rebinding, Remembered,
    RouteFinding, RuleFinding, StackPath, Trial, Udp, UnencryptedBy, Wanted, Wish,
};
use super::{Cause, Place, Weight, diagnose, is_well};
use manypath_control::path::PathPolicy;
use manypath_control::status::FallbackReason;

fn path(number: u8) -> PathFinding {
    PathFinding {
        local: format!("10.0.{number}.1").parse().unwrap(),
        interface: format!("eth{number}"),
        remote: format!("10.0.{number}.2:9899").parse().unwrap(),
        link: LinkState::Up,
        route: RouteFinding { on_link: true, ..RouteFinding::default() },
        udp: Udp::Answered { rtt_ms: 1.0, manypath: true },
        tcp: None,
        dropped_here: None,
        outside: Some(format!("10.0.{number}.1:40000").parse().unwrap()),
        nat: Some(false),
        rebinding: None,
        mtu: Some(1500),
        interface_mtu: 1500,
        mtu_told: None,
        ecn: Ecn { peer: Some(true), passes: Some(true) },
        gso: Gso { kernel: true, passes: Some(true) },
        wanted: Wanted::default(),
        receive_buffer: 16 << 20,
        unbound: None,
        stacks: Vec::new(),
    }
}

fn silent(number: u8) -> PathFinding {
    PathFinding { udp: Udp::Silent, ..path(number) }
}

/// A host that is well with these paths.
fn host(paths: Vec<PathFinding>) -> Findings {
    Findings {
        host: Some("peer".into()),
        addresses: vec!["10.0.1.2".parse().unwrap()],
        udp_port: 9899,
        loopback: true,
        kernel: Kernel { mptcp: Some(true), ..Kernel::default() },
        paths,
        ..Findings::default()
    }
}

fn names(findings: &Findings) -> Vec<&'static str> {
    diagnose(findings).iter().map(|cause| cause.name).collect()
}

/// The only cause.
fn only(findings: &Findings) -> Cause {
    let mut causes = diagnose(findings);
    assert_eq!(causes.len(), 1, "{causes:#?}");
    causes.pop().unwrap()
}

fn command(cause: &Cause) -> &str {
    cause.command.as_deref().unwrap()
}

#[test]
fn a_host_that_is_well_has_no_causes() {
    assert!(diagnose(&host(vec![path(1), path(2)])).is_empty());
}

#[test]
fn what_keeps_run_from_carrying_is_told_whether_the_paths_work_or_not() {
    let nothing = |command| Launcher::Nothing { obstacle: "yama", text: "why".into(), command };
    let with = |launcher| only(&Findings { launcher, ..host(vec![path(1)]) });
    let cause = with(nothing(Some("sysctl")));
    assert_eq!(
        (cause.name, cause.weight, command(&cause)),
        ("run-plain-tcp", Weight::Broken, "sysctl")
    );
    assert_eq!(with(nothing(None)).command, None);
    assert_eq!(with(Launcher::Clients).weight, Weight::Degraded);
    let linked = |servers| with(Launcher::Linked { servers, text: "why".into() });
    assert_eq!(linked(true).weight, Weight::Degraded);
    assert!(linked(true).text.starts_with("static programs"));
    assert!(linked(false).text.starts_with("servers and static programs"));
    let nested = Findings { launcher: Launcher::Nested, ..host(vec![path(1)]) };
    assert!(diagnose(&nested).is_empty());
}

#[test]
fn a_peer_without_a_route_is_not_called_silent() {
    let routed = host(vec![silent(1)]);
    assert_eq!(names(&routed), ["peer-silent"]);
    let cause = only(&Findings { unrouted: true, ..routed });
    assert_eq!((cause.name, cause.weight, cause.command), ("no-route", Weight::Broken, None));
    let route = RouteFinding {
        gateways: vec!["10.0.1.9".parse().unwrap()],
        on_link: true,
        ..RouteFinding::default()
    };
    let known = PathFinding { route, ..silent(1) };
    let cause = only(&Findings { unrouted: true, ..host(vec![known]) });
    assert_eq!(command(&cause), "ip route add default via 10.0.1.9 dev eth1");
    // A rule about the address leads there.
    assert!(diagnose(&Findings { unrouted: true, ..host(vec![path(1)]) }).is_empty());
}

#[test]
fn the_link_is_blamed_before_routes_and_firewalls() {
    let off = PathFinding { link: LinkState::Off, dropped_here: Some(true), ..silent(2) };
    let cause = only(&host(vec![path(1), off.clone()]));
    assert_eq!((cause.name, cause.weight), ("link-down", Weight::Degraded));
    assert_eq!(command(&cause), "ip link set dev eth2 up");
    assert_eq!(cause.path.unwrap().interface, "eth2");
    assert_eq!(only(&host(vec![off])).weight, Weight::Broken, "there is no other path");
    let unplugged = PathFinding { link: LinkState::NoCarrier, ..silent(2) };
    assert_eq!(names(&host(vec![path(1), unplugged])), ["no-carrier"]);
}

#[test]
fn addresses_behind_the_peers_nat_are_worth_a_note_alone() {
    let mut findings = host(vec![path(1), silent(2)]);
    assert_eq!(only(&findings).weight, Weight::Degraded);
    findings.behind_nat = vec!["10.0.2.2".parse().unwrap()];
    let cause = only(&findings);
    assert_eq!((cause.name, cause.weight), ("address-behind-nat", Weight::Note));
    // Behind the same NAT they answer.
    findings.paths = vec![path(1), path(2)];
    assert!(diagnose(&findings).is_empty());
}

#[test]
fn routes_are_blamed_by_what_the_kernel_does_with_them() {
    let with = |route: RouteFinding| {
        only(&host(vec![path(1), PathFinding { route, dropped_here: Some(true), ..silent(2) }]))
    };
    let strict =
        RouteFinding { rp_filter: 1, reverse: Some("eth1".into()), ..RouteFinding::default() };
    let cause = with(strict.clone());
    assert_eq!(cause.name, "rp-filter");
    assert_eq!(command(&cause), "sysctl -w net.ipv4.conf.eth2.rp_filter=2");
    let loose = RouteFinding { rp_filter: 2, on_link: true, ..strict };
    assert_eq!(with(loose).name, "answers-dropped");
    let unforbid = Some("ip -4 rule del pref 7".to_owned());
    let forbidden = RouteFinding { unforbid, ..RouteFinding::default() };
    assert_eq!(command(&with(forbidden)), "ip -4 rule del pref 7");
}

#[test]
fn an_uplink_without_a_route_gets_one_through_its_router_if_there_is_one() {
    let gateways = vec!["10.0.2.254".parse().unwrap()];
    let lost = |gateways| {
        let route = RouteFinding { gateways, ..RouteFinding::default() };
        only(&host(vec![path(1), PathFinding { route, ..silent(2) }]))
    };
    let cause = lost(gateways);
    assert_eq!(cause.name, "no-route");
    assert_eq!(command(&cause), "ip route add default via 10.0.2.254 dev eth2 metric 200");
    assert_eq!(cause.weight, Weight::Degraded);
    let cause = lost(Vec::new());
    assert_eq!((cause.name, cause.command), ("no-route", None));
    assert_eq!(cause.weight, Weight::Note, "a network of containers is no uplink");
}

#[test]
fn firewalls_of_this_host_are_opened_where_they_filter() {
    let refused = Udp::Refused { errno: 1, why: "not permitted".into() };
    let mut findings = host(vec![PathFinding { udp: refused, ..path(1) }]);
    assert!(command(&only(&findings)).starts_with("iptables -I OUTPUT"));
    findings.open_output = vec!["nft insert a".into(), "nft insert b".into()];
    assert_eq!(command(&only(&findings)), "nft insert a && nft insert b");
    assert_eq!(only(&findings).name, "local-firewall");
    let mut findings = host(vec![PathFinding { dropped_here: Some(true), ..silent(1) }]);
    findings.open_input = vec!["nft insert c".into()];
    assert_eq!(
        (only(&findings).name, command(&only(&findings))),
        ("answers-dropped", "nft insert c")
    );
}

#[test]
fn what_all_paths_have_in_common_is_the_peers() {
    let closed = |n| PathFinding { udp: Udp::PortClosed, ..path(n) };
    let cause = only(&Findings { port: Some(80), ..host(vec![closed(1), closed(2)]) });
    assert_eq!(
        (cause.name, cause.weight, cause.place),
        ("nobody-listens", Weight::Broken, Place::Peer)
    );
    assert_eq!((command(&cause), cause.path.is_none()), ("manypath serve --allow 80", true));
    assert_eq!(names(&host(vec![path(1), closed(2)])), ["address-not-served"]);
    let blocked = |n| PathFinding { tcp: Some(true), ..silent(n) };
    let cause = only(&host(vec![blocked(1), blocked(2)]));
    assert_eq!((cause.name, cause.place), ("udp-blocked", Place::Peer));
    assert!(command(&cause).contains("udp dport 9899 accept"));
    assert_eq!(names(&host(vec![path(1), blocked(2)])), ["udp-blocked"]);
    let gone = |n| PathFinding { tcp: Some(false), ..silent(n) };
    assert_eq!(names(&host(vec![gone(1), gone(2)])), ["peer-silent"]);
    assert_eq!(names(&host(vec![path(1), gone(2)])), ["path-silent"]);
    assert_eq!(names(&host(vec![closed(1), blocked(2)])), ["nobody-listens", "udp-blocked"]);
    let elsewhere = PathFinding { remote: blocked(2).remote, ..closed(1) };
    assert_eq!(names(&host(vec![elsewhere, blocked(2)])), ["udp-blocked", "address-not-served"]);
    let aborted = |wants_encryption| {
        only(&host(vec![PathFinding { udp: Udp::Aborted { wants_encryption }, ..path(1) }]))
    };
    assert_eq!((aborted(false).name, aborted(false).place), ("peer-refuses", Place::Peer));
    let wants = aborted(true);
    assert_eq!((wants.name, wants.place), ("encryption-required", Place::Here));
    assert_eq!(command(&wants), "manypath config set encrypt=opportunistic");
    let cure = "manypath rules add --at 1 remote enable encrypt=opportunistic".to_owned();
    let by_rule = |cure| {
        let (rule, file) = ("remote enable encrypt=off".into(), "/home/me/rules".into());
        let path = PathFinding { udp: Udp::Aborted { wants_encryption: true }, ..path(1) };
        let mut findings = host(vec![path]);
        findings.ruled.unencrypted_by = Some(UnencryptedBy { rule, file, line: 3, cure });
        only(&findings)
    };
    let by_own = by_rule(Some(cure.clone()));
    assert!(by_own.text.contains("remote enable encrypt=off (/home/me/rules line 3)"));
    assert_eq!(command(&by_own), cure);
    assert_eq!(by_rule(None).command, None, "the settings are not to blame");
    let refused = PathFinding { udp: Udp::Aborted { wants_encryption: true }, ..path(2) };
    let elsewhere = PathFinding { remote: refused.remote, ..closed(1) };
    let both = names(&host(vec![refused, elsewhere]));
    assert_eq!(both, ["encryption-required", "address-not-served"]);
    assert_eq!(names(&host(Vec::new())), ["no-uplink"]);
}

#[test]
fn files_rules_and_memory_stand_in_the_way_of_everything() {
    let mut findings = host(vec![path(1)]);
    findings.loopback = false;
    let file = "/home/me/my rules".into();
    findings.files = vec![FileFault { kind: "rules", file, line: Some(3), message: "what".into() }];
    let place = Some("remote disable 2".to_owned());
    findings.ruled.rule = Some(RuleFinding { place, rule: Some("remote disable".into()) });
    let (addr, reason) = (findings.addresses[0], FallbackReason::Silent);
    findings.remembered = vec![Remembered { addr, port: Some(22), reason, remaining_s: 9 }];
    let causes = diagnose(&findings);
    let commands: Vec<_> = causes.iter().map(command).collect();
    let expected = [
        "sed -i '3s/^/# /' '/home/me/my rules'",
        "ip link set dev lo up",
        "manypath rules delete remote disable 2",
        "manypath cache flush 10.0.1.2:22",
    ];
    assert_eq!(commands, expected);
    assert!(causes.iter().all(|cause| cause.weight == Weight::Broken));
}

#[test]
fn policies_of_both_ends_are_told_apart() {
    let wish = |role: &str, words: &str| {
        let (role, words, selector) = (role.into(), words.into(), "dev eth1".into());
        let wish = Some(Wish { role, words, selector });
        let wanted = Wanted { wish, ..Wanted::default() };
        only(&host(vec![PathFinding { wanted, ..path(1) }]))
    };
    let disabled = wish("disabled", "disabled");
    assert_eq!((disabled.name, disabled.weight), ("path-disabled", Weight::Degraded));
    assert_eq!(command(&disabled), "manypath path change dev eth1 enable");
    assert_eq!(wish("backup", "backup").weight, Weight::Note);
    assert_eq!(command(&wish("normal", "metered")), "manypath path remove dev eth1");
    let peer_policy = PathPolicy { role: "disabled".into(), ..PathPolicy::default() };
    let stack = StackPath {
        pid: 1,
        association: 1,
        state: "active".into(),
        idle: None,
        idle_reason: None,
        since_data_sent_ms: None,
        since_data_received_ms: None,
        ecn: "on".into(),
        mtu: 1500,
        peer_policy,
        withheld: None,
    };
    let cause = only(&host(vec![PathFinding { stacks: vec![stack], ..path(1) }]));
    assert_eq!((cause.name, cause.place), ("peer-disables", Place::Peer));
    assert_eq!(command(&cause), "manypath path change 10.0.1.2 peer 10.0.1.1 enable");
}

#[test]
fn smaller_packets_are_a_fault_only_if_nobody_says_so() {
    let narrow = PathFinding { mtu: Some(1300), ..path(1) };
    let cause = only(&host(vec![narrow.clone()]));
    assert_eq!((cause.name, cause.weight), ("mtu-black-hole", Weight::Degraded));
    assert_eq!(command(&cause), "ip link set dev eth1 mtu 1300");
    let told = PathFinding { mtu_told: Some(1300), ..narrow };
    assert_eq!(names(&host(vec![told])), ["mtu-smaller"]);
    assert_eq!(only(&host(vec![PathFinding { mtu: None, ..path(1) }])).weight, Weight::Broken);
}

#[test]
fn notes_do_not_make_a_host_ill() {
    let mut poor = PathFinding { nat: Some(true), receive_buffer: 425_984, ..path(1) };
    poor.ecn.passes = Some(false);
    poor.rebinding = Some(Rebinding::Between { kept_s: 6.4, lost_s: 12.8 });
    let mut findings = host(vec![poor]);
    findings.kernel = Kernel { mptcp: Some(false), sctp: true, ..Kernel::default() };
    findings.without_address = vec!["eth7".into()];
    let causes = diagnose(&findings);
    let names: Vec<_> = causes.iter().map(|cause| cause.name).collect();
    let expected = [
        "kernel-sctp",
        "mptcp-off",
        "no-address",
        "ecn-black-hole",
        "nat-forgets",
        "small-receive-buffer",
    ];
    assert_eq!(names, expected);
    assert!(is_well(&causes));
    findings.kernel.native = true;
    assert!(!is_well(&diagnose(&findings)), "the kernel aborts what is not its own");
}

#[test]
fn the_service_is_judged_by_what_became_of_a_connection() {
    let with = |trial| Findings { port: Some(80), trial: Some(trial), ..host(vec![path(1)]) };
    assert!(diagnose(&with(Trial::Carried)).is_empty());
    let closed = only(&with(Trial::Plain { reason: FallbackReason::NotAllowed }));
    assert_eq!((closed.name, closed.place), ("not-allowed", Place::Peer));
    assert_eq!(command(&closed), "manypath rules add local enable port 80");
    assert_eq!(names(&with(Trial::Plain { reason: FallbackReason::Busy })), ["plain-tcp"]);
    let near = only(&with(Trial::Plain { reason: FallbackReason::NothingToGain }));
    assert_eq!((near.name, near.weight), ("nothing-to-gain", Weight::Note));
    assert_eq!(command(&near), "manypath config set step_aside=never");
    let changed = only(&with(Trial::Plain { reason: FallbackReason::KeyChanged }));
    assert_eq!((changed.name, changed.weight), ("key-changed", Weight::Broken));
    assert!(command(&changed).starts_with("manypath key forget "), "{changed:?}");
    let refused = only(&with(Trial::Plain { reason: FallbackReason::NotAuthorized }));
    assert_eq!((refused.name, command(&refused)), ("not-authorized", "manypath key show"));
    assert_eq!(names(&with(Trial::Failed { errno: 111 })), ["service-closed"]);
    assert_eq!(names(&with(Trial::Failed { errno: 113 })), ["service-failed"]);
    let unknown = only(&with(Trial::Unknown { why: "x".into() }));
    assert_eq!((unknown.name, unknown.weight), ("not-tried", Weight::Note));
}
