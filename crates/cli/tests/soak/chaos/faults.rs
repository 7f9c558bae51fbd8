//! What happens to the network and to the processes; each fault is mended before the next one.

use crate::common::{find, finish};
use crate::deaths::namespace;
use crate::dice::Dice;
use crate::hosts::{DELAYS_MS, Daemons, Hosts, signal};
use crate::vitals::processes;
use manypath_lab::{Change, Host};
use std::time::Duration;

/// What changes at the path of that name.
type ChangeOf = Box<dyn Fn(&str) -> Change>;

/// One action of a fault's begin or end.
enum Act {
    Nothing,
    Shell(Host, String),
    /// Of a process, which may have ended.
    Limit(String),
    Link(Vec<&'static str>, ChangeOf),
    Signal(u32, &'static str),
}

pub(super) struct Fault {
    pub(super) kind: &'static str,
    pub(super) what: String,
    /// Takes a process of manypath away: it may take connections along.
    pub(super) kills: bool,
    pub(super) lasts: Duration,
    begin: Act,
    mend: Act,
}

impl Fault {
    pub(super) fn begin(&self, hosts: &Hosts) {
        run(hosts, &self.begin);
    }

    pub(super) fn mend(&self, hosts: &Hosts) {
        run(hosts, &self.mend);
    }
}

fn shell(hosts: &Hosts, host: Host, line: &str) -> crate::common::Finished {
    let mut command = hosts.site.command(host, "sh");
    command.args(["-ec", line]);
    finish(command)
}

fn run(hosts: &Hosts, act: &Act) {
    match act {
        Act::Nothing => {}
        Act::Shell(host, line) => {
            let done = shell(hosts, *host, line);
            assert_eq!(done.code, Some(0), "{line}: {done:?}");
        }
        Act::Limit(line) => drop(shell(hosts, Host::Left, line)),
        Act::Link(paths, change) => {
            for path in paths {
                let handle = hosts.site.lab.path(path).expect("a path");
                handle.set(&[change(path)]).expect("a change");
            }
        }
        Act::Signal(pid, name) => signal(*pid, name),
    }
}

/// Any fault. Processes are chosen among those that are there.
pub(super) fn any(daemons: &Daemons, dice: &mut Dice) -> Option<Fault> {
    match dice.range(0, 10) {
        0 | 1 => Some(link(dice)),
        2..5 => Some(interface(dice)),
        5 | 6 => Some(filter(dice)),
        7 => process(daemons, dice, &["stop"]),
        8 => process(daemons, dice, &["kill"]),
        _ => process(daemons, dice, &["descriptors", "memory"]),
    }
}

/// A is the path of plain TCP.
fn paths(dice: &mut Dice) -> Vec<&'static str> {
    match dice.range(0, 4) {
        0 | 1 => vec!["A"],
        2 => vec!["B"],
        _ => DELAYS_MS.iter().map(|(name, _)| *name).collect(),
    }
}

fn seconds(dice: &mut Dice) -> Duration {
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
    let what = format!("{kind}, {paths:?}, {lasts:?}");
    let (begin, mend) = (Act::Link(paths.clone(), begin), Act::Link(paths, mend));
    Fault { kind, what, kills: false, lasts, begin, mend }
}

/// Begin and mend of a fault of one interface.
fn lines(kind: &str, host: Host, path: &str) -> [String; 2] {
    let index = DELAYS_MS.iter().position(|one| one.0 == path).expect("a path");
    let (v4, v6, net) = (host.address(index), host.address_v6(index), index + 1);
    let dev = format!("dev path{path}");
    let other = format!("10.77.{net}.{}/24 {dev}", if host == Host::Left { 77 } else { 78 });
    // The kernel forgets IPv6 addresses of an interface that is switched off.
    let add_v6 = format!("ip address replace {v6}/64 {dev} nodad");
    let (begin, mend) = match kind {
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

fn interface(dice: &mut Dice) -> Fault {
    const KINDS: [&str; 6] = [
        "link down",
        "interface down",
        "addresses flushed",
        "address changed",
        "route removed",
        "smaller MTU of an interface",
    ];
    let (kind, host) = (*dice.pick(&KINDS), *dice.pick(&Host::ALL));
    let (paths, lasts) = (paths(dice), seconds(dice));
    let pairs = paths.iter().map(|path| lines(kind, host, path));
    let (begin, mend): (Vec<_>, Vec<_>) = pairs.map(|[begin, mend]| (begin, mend)).unzip();
    let what = format!("{kind}, {host}, {paths:?}, {lasts:?}");
    let [begin, mend] = [begin, mend].map(|lines| Act::Shell(host, lines.join("\n")));
    Fault { kind, what, kills: false, lasts, begin, mend }
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
    let ((kind, verdicts), host) = (*dice.pick(&FILTERS), *dice.pick(&Host::ALL));
    let (paths, lasts) = (paths(dice), seconds(dice));
    let names: Vec<String> = paths.iter().map(|path| format!("\"path{path}\"")).collect();
    let from = format!("iifname {{ {} }}", names.join(", "));
    let rules: Vec<String> = verdicts.iter().map(|verdict| format!("{from} {verdict}")).collect();
    let chain = format!("type filter hook input priority 0;\n{}", rules.join("\n"));
    let nft = find("nft").display().to_string();
    let begin = format!("{nft} 'table inet chaos {{\nchain in {{\n{chain}\n}}\n}}'");
    Fault {
        kind,
        what: format!("{kind}, {host}, {paths:?}, {lasts:?}"),
        kills: false,
        lasts,
        begin: Act::Shell(host, begin),
        mend: Act::Shell(host, format!("{nft} delete table inet chaos")),
    }
}

fn role(pid: u32) -> String {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split('\0').nth(1).unwrap_or_default().to_owned()
}

/// A process of manypath on either host, each role as often as the others.
fn any_process(daemons: &Daemons, dice: &mut Dice, kills: bool) -> Option<(Host, String, u32)> {
    let host = *dice.pick(&Host::ALL);
    let network = match host {
        Host::Left => namespace(daemons.agents.plain.pid()),
        Host::Right => namespace(daemons.serve.id()),
    };
    let all = processes(&network).into_iter().map(|pid| (role(pid), pid));
    // The server under `manypath run` is not started again.
    let all = all.filter(|one| !(kills && host == Host::Right && one.0 == "run"));
    let mut all: Vec<_> = all.filter(|one| one.0 != "status").collect();
    all.sort();
    let mut roles: Vec<&str> = all.iter().map(|one| one.0.as_str()).collect();
    roles.dedup();
    if roles.is_empty() {
        return None;
    }
    let role = (*dice.pick(&roles)).to_owned();
    let of_role: Vec<u32> = all.iter().filter(|one| one.0 == role).map(|one| one.1).collect();
    Some((host, role, *dice.pick(&of_role)))
}

fn process(daemons: &Daemons, dice: &mut Dice, kinds: &[&str]) -> Option<Fault> {
    let what = *dice.pick(kinds);
    let kills = matches!(what, "kill" | "memory");
    let (host, role, pid) = any_process(daemons, dice, kills)?;
    let lasts = seconds(dice);
    let limit = |option: &str, now: u64, usual: &str| {
        let set = |to: &str| Act::Limit(format!("prlimit --pid {pid} --{option}={to}:"));
        (set(&now.to_string()), set(usual))
    };
    let (kind, (begin, mend)) = match what {
        "stop" => ("suspended", (Act::Signal(pid, "-STOP"), Act::Signal(pid, "-CONT"))),
        "kill" => ("killed", (Act::Signal(pid, "-KILL"), Act::Nothing)),
        "memory" => ("limit of memory", limit("as", address_space(pid) + (1 << 20), "unlimited")),
        _ => {
            let open = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(64, Iterator::count);
            ("limit of descriptors", limit("nofile", open as u64 + 1, "1024"))
        }
    };
    let what = format!("{kind}: {role} of {host}, {lasts:?}");
    Some(Fault { kind, what, kills, lasts, begin, mend })
}

fn address_space(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = statm.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * 4096
}
