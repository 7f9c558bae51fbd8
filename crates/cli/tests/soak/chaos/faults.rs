//! What happens to the network and to the processes; each fault is mended before the next one.

use super::ground::{self, Ground};
use super::processes::{self, Victim};
use crate::common::find;
use crate::soak::dice::Dice;
use crate::soak::hosts::{DELAYS_MS, Daemons, Hosts, signal};
use manypath_lab::{Change, Host};
use std::time::Duration;

/// What changes at the path of that name.
type ChangeOf = Box<dyn Fn(&str) -> Change>;

/// One action of a fault's begin or end.
pub(super) enum Act {
    Nothing,
    Shell(Host, String),
    /// Of a process, which may have ended.
    Limit(String),
    Link(Vec<&'static str>, ChangeOf),
    Signal(u32, &'static str),
    /// Sets the wall clock: seconds from the machine's, now and before.
    Clock(i64, i64),
}

pub(super) struct Fault {
    pub(super) kind: &'static str,
    pub(super) what: String,
    /// The process of manypath that it happens to, if it does.
    pub(super) victim: Option<Victim>,
    pub(super) lasts: Duration,
    pub(super) begin: Act,
    pub(super) mend: Act,
}

impl Fault {
    pub(super) fn begin(&self, hosts: &Hosts, ground: &Ground) {
        run(hosts, ground, &self.begin);
    }

    pub(super) fn mend(&self, hosts: &Hosts, ground: &Ground) {
        run(hosts, ground, &self.mend);
    }

    /// Whether it may end a process that carries connections: stacks outlive their keepers.
    pub(super) fn ends(&self) -> bool {
        let keeper = self.victim.as_ref().is_none_or(|victim| victim.role == "keeper");
        matches!(self.kind, "killed" | "limit of memory") && !keeper
    }

    /// Of the network, or of a host.
    fn of(kind: &'static str, what: &str, lasts: Duration, [begin, mend]: [Act; 2]) -> Self {
        let what = format!("{kind}, {what}, {lasts:?}");
        Self { kind, what, victim: None, lasts, begin, mend }
    }
}

fn run(hosts: &Hosts, ground: &Ground, act: &Act) {
    match act {
        Act::Nothing => {}
        Act::Shell(host, line) => {
            let done = ground::shell(&hosts.site, *host, line);
            assert_eq!(done.code, Some(0), "{line}: {done:?}");
        }
        Act::Limit(line) => drop(ground::shell(&hosts.site, Host::Left, line)),
        Act::Link(paths, change) => {
            for path in paths {
                let handle = hosts.site.lab.path(path).expect("a path");
                handle.set(&[change(path)]).expect("a change");
            }
        }
        Act::Signal(pid, name) => signal(*pid, name),
        Act::Clock(seconds, before) => ground.set_clock(*seconds, *before),
    }
}

/// What may happen in a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    All,
    /// No process is taken away, so that what each uses at the end can be compared with its beginning.
    WithoutDeaths,
}

/// Any fault. Processes are chosen among those that are there.
pub(super) fn any(
    daemons: &Daemons,
    ground: &Ground,
    course: Course,
    dice: &mut Dice,
) -> Option<Fault> {
    match dice.range(0, 14) {
        0 | 1 => Some(link(dice)),
        2..5 => Some(interface(ground, dice)),
        5 | 6 => Some(filter(dice)),
        7 => Some(narrow(ground, dice)),
        8 => Some(disk(daemons.hosts, dice)),
        9 => Some(clock(dice)),
        10 => processes::any(daemons, dice, &["suspended", "suspended for long"]),
        11 => processes::any(daemons, dice, &["limit of descriptors"]),
        _ if course == Course::WithoutDeaths => Some(interface(ground, dice)),
        12 => processes::any(daemons, dice, &["killed"]),
        _ => processes::any(daemons, dice, &["killed", "limit of memory"]),
    }
}

/// A router on path A forwards no large packets, and says so.
fn narrow(ground: &Ground, dice: &mut Dice) -> Fault {
    let (mtu, lasts) = (*dice.pick(&[1280, 1300, 1400]), seconds(dice));
    let acts = ground.narrow(mtu).map(|line| Act::Shell(Host::Left, line));
    Fault::of("smaller MTU behind a router", &mtu.to_string(), lasts, acts)
}

/// No room for the logs, sockets and caches of manypath.
fn disk(hosts: &Hosts, dice: &mut Dice) -> Fault {
    let (kind, host) = (*dice.pick(&["disk full", "disk without room for files"]), any_host(dice));
    let disk = hosts.disk.as_ref().expect("the course has disks");
    let acts = ground::fill(disk, kind).map(|line| Act::Shell(host, line));
    Fault::of(kind, host.name(), seconds(dice), acts)
}

/// Both hosts' clocks are set, and set back later.
fn clock(dice: &mut Dice) -> Fault {
    const STEPS: [i64; 8] = [-86_400 * 400, -86_400, -3_600, -2, 2, 30, 3_600, 86_400 * 400];
    let (step, lasts) = (*dice.pick(&STEPS), seconds(dice));
    let acts = [Act::Clock(step, 0), Act::Clock(0, step)];
    Fault::of("wall clock set", &format!("{step} s"), lasts, acts)
}

fn any_host(dice: &mut Dice) -> Host {
    *dice.pick(&Host::ALL)
}

/// A is the path of plain TCP.
fn paths(dice: &mut Dice) -> Vec<&'static str> {
    match dice.range(0, 4) {
        0 | 1 => vec!["A"],
        2 => vec!["B"],
        _ => DELAYS_MS.iter().map(|(name, _)| *name).collect(),
    }
}

pub(super) fn seconds(dice: &mut Dice) -> Duration {
    Duration::from_millis(dice.range(500, 8_000))
}

fn link(dice: &mut Dice) -> Fault {
    let (paths, lasts) = (paths(dice), seconds(dice));
    let usual = |path: &str| DELAYS_MS.iter().find(|one| one.0 == path).map_or(0, |one| one.1);
    let (kind, begin, mend): (_, ChangeOf, ChangeOf) = match dice.range(0, 3) {
        0 => ("path cut", Box::new(|_| Change::Down), Box::new(|_| Change::Up)),
        1 => {
            let (lossy, clean) = (|_: &str| Change::Loss(300_000), |_: &str| Change::Loss(0));
            ("loss of 30 %", Box::new(lossy), Box::new(clean))
        }
        _ => (
            "delay of 150 ms",
            Box::new(|_| Change::Delay(Duration::from_millis(150))),
            Box::new(move |path| Change::Delay(Duration::from_millis(usual(path)))),
        ),
    };
    let what = format!("{paths:?}");
    Fault::of(kind, &what, lasts, [Act::Link(paths.clone(), begin), Act::Link(paths, mend)])
}

/// Begin and mend of a fault of one interface.
fn lines(ground: &Ground, kind: &str, host: Host, path: &str) -> [String; 2] {
    let index = DELAYS_MS.iter().position(|one| one.0 == path).expect("a path");
    let (v4, v6, net) = (host.address(index), host.address_v6(index), index + 1);
    let dev = format!("dev path{path}");
    let other = format!("10.77.{net}.{}/24 {dev}", if host == Host::Left { 77 } else { 78 });
    // The kernel forgets IPv6 addresses of an interface that is switched off.
    let add_v6 = format!("ip address replace {v6}/64 {dev} nodad");
    let (begin, mend) = match kind {
        "link down" if (host, path) == (Host::Left, "A") => return ground.unplug(),
        "link down" => (
            format!("ip link set path{path} carrier off"),
            format!("ip link set path{path} carrier on"),
        ),
        "interface down" => {
            (format!("ip link set path{path} down"), format!("ip link set path{path} up; {add_v6}"))
        }
        "addresses flushed" => {
            (format!("ip address flush {dev}"), format!("ip address add {v4}/24 {dev}; {add_v6}"))
        }
        "address changed" => (
            format!("ip address del {v4}/24 {dev}; ip address add {other}"),
            format!("ip address del {other}; ip address add {v4}/24 {dev}"),
        ),
        "route removed" => (
            format!("ip route del 10.77.{net}.0/24 {dev}"),
            format!("ip route replace 10.77.{net}.0/24 {dev} proto kernel scope link src {v4}"),
        ),
        _ => {
            (format!("ip link set path{path} mtu 1280"), format!("ip link set path{path} mtu 1500"))
        }
    };
    [begin, mend]
}

fn interface(ground: &Ground, dice: &mut Dice) -> Fault {
    const KINDS: [&str; 6] = [
        "link down",
        "interface down",
        "addresses flushed",
        "address changed",
        "route removed",
        "smaller MTU of an interface",
    ];
    let (kind, host) = (*dice.pick(&KINDS), any_host(dice));
    let (paths, lasts) = (paths(dice), seconds(dice));
    let pairs = paths.iter().map(|path| lines(ground, kind, host, path));
    let (begin, mend): (Vec<_>, Vec<_>) = pairs.map(|[begin, mend]| (begin, mend)).unzip();
    let acts = [begin, mend].map(|lines| Act::Shell(host, lines.join("\n")));
    Fault::of(kind, &format!("{host}, {paths:?}"), lasts, acts)
}

/// What a filter does with packets that come over the paths that it is for.
const FILTERS: [(&str, &[&str]); 7] = [
    ("TCP and UDP dropped", &["meta l4proto { tcp, udp } drop"]),
    (
        "TCP and UDP rejected, port unreachable",
        &["meta l4proto { tcp, udp } reject with icmpx type port-unreachable"],
    ),
    (
        "TCP and UDP rejected, prohibited",
        &["meta l4proto { tcp, udp } reject with icmpx type admin-prohibited"],
    ),
    ("UDP 9899 dropped", &["udp dport 9899 drop", "udp sport 9899 drop"]),
    (
        "UDP 9899 rejected",
        &[
            "udp dport 9899 reject with icmpx type port-unreachable",
            "udp sport 9899 reject with icmpx type port-unreachable",
        ],
    ),
    ("ICMP dropped", &["meta l4proto { icmp, icmpv6 } drop"]),
    ("black hole for packets over 1200 bytes", &["meta length > 1200 drop"]),
];

fn filter(dice: &mut Dice) -> Fault {
    let ((kind, verdicts), host) = (*dice.pick(&FILTERS), any_host(dice));
    let (paths, lasts) = (paths(dice), seconds(dice));
    let names: Vec<String> = paths.iter().map(|path| format!("\"path{path}\"")).collect();
    let from = format!("iifname {{ {} }}", names.join(", "));
    let rules: Vec<String> = verdicts.iter().map(|verdict| format!("{from} {verdict}")).collect();
    let chain = format!("type filter hook input priority 0;\n{}", rules.join("\n"));
    let nft = find("nft").display().to_string();
    let begin = format!("{nft} 'table inet chaos {{\nchain in {{\n{chain}\n}}\n}}'");
    let mend = format!("{nft} delete table inet chaos");
    let acts = [begin, mend].map(|line| Act::Shell(host, line));
    Fault::of(kind, &format!("{host}, {paths:?}"), lasts, acts)
}
