//! What happens to the network: one thing at a time, each mended before the next one.

use crate::common::{MANYPATH, finish};
use crate::soak::dice::Dice;
use crate::soak::hosts::{DELAYS_MS, Hosts};
use manypath_lab::{Change, Host};
use std::time::{Duration, Instant};

/// One disturbance, and how it is mended.
struct Disturbance {
    what: String,
    begin: Box<dyn Fn(&Hosts)>,
    mend: Box<dyn Fn(&Hosts)>,
    lasts: Duration,
}

/// Disturbs the network until `end`; says what was done.
pub(crate) fn until(hosts: &Hosts, dice: &mut Dice, end: Instant) -> Vec<String> {
    let mut done = Vec::new();
    while Instant::now() < end {
        let Disturbance { what, begin, mend, lasts } = any(dice);
        println!("soak: {:.1} s: {what}", hosts.age().as_secs_f64());
        begin(hosts);
        sleep_until(end.min(Instant::now() + lasts));
        mend(hosts);
        done.push(what);
        let rest = Duration::from_millis(dice.range(200, 2_000));
        sleep_until(end.min(Instant::now() + rest));
    }
    done
}

fn sleep_until(end: Instant) {
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}

fn any(dice: &mut Dice) -> Disturbance {
    const KINDS: [fn(&mut Dice) -> Disturbance; 8] =
        [cut, cut, loss, delay, carrier, interface, address, rule];
    dice.pick(&KINDS)(dice)
}

fn on_link(what: &str, path: &'static str, changes: [Change; 2], lasts: Duration) -> Disturbance {
    let set = move |change: Change| {
        Box::new(move |hosts: &Hosts| {
            hosts
                .site
                .lab
                .path(path)
                .expect("a path")
                .set(std::slice::from_ref(&change))
                .expect("a change");
        })
    };
    let [begin, mend] = changes;
    Disturbance {
        what: format!("{what} of {path} for {lasts:?}"),
        begin: set(begin),
        mend: set(mend),
        lasts,
    }
}

fn cut(dice: &mut Dice) -> Disturbance {
    let (path, _) = *dice.pick(&DELAYS_MS);
    on_link("cut", path, [Change::Down, Change::Up], millis(dice, 200, 3_000))
}

fn loss(dice: &mut Dice) -> Disturbance {
    let (path, _) = *dice.pick(&DELAYS_MS);
    let lossy = [Change::Loss(300_000), Change::Loss(0)];
    on_link("loss of 30 %", path, lossy, millis(dice, 500, 3_000))
}

fn delay(dice: &mut Dice) -> Disturbance {
    let (path, usual) = *dice.pick(&DELAYS_MS);
    let other = Change::Delay(millis(dice, 1, 150));
    let usual = Change::Delay(Duration::from_millis(usual));
    on_link(&format!("{other:?}"), path, [other, usual], millis(dice, 500, 4_000))
}

/// One of the paths that plain TCP does not use.
fn spare(dice: &mut Dice) -> &'static str {
    if dice.range(0, 2) == 0 { "B" } else { "C" }
}

/// Commands on a host, in pairs of begin and mend.
fn on_host(what: String, host: Host, lines: [String; 2], lasts: Duration) -> Disturbance {
    let [begin, mend] = lines.map(|line| {
        Box::new(move |hosts: &Hosts| {
            let mut command = hosts.site.command(host, "sh");
            command.args(["-ec", &line]);
            let done = finish(command);
            assert_eq!(done.code, Some(0), "{line}: {done:?}");
        })
    });
    Disturbance { what: format!("{what} for {lasts:?}"), begin, mend, lasts }
}

fn carrier(dice: &mut Dice) -> Disturbance {
    let path = spare(dice);
    let line = |state| format!("ip link set path{path} carrier {state}");
    let what = format!("no link at {path}");
    on_host(what, Host::Left, [line("off"), line("on")], millis(dice, 200, 3_000))
}

fn interface(dice: &mut Dice) -> Disturbance {
    let (path, host) = (spare(dice), *dice.pick(&Host::ALL));
    let index = DELAYS_MS.iter().position(|(name, _)| *name == path).expect("a path");
    let v6 = host.address_v6(index);
    // The kernel forgets IPv6 addresses of an interface that is switched off.
    let up = format!("ip link set path{path} up; ip address add {v6}/64 dev path{path} nodad");
    let what = format!("{host}'s interface of {path} off");
    let lines = [format!("ip link set path{path} down"), up];
    on_host(what, host, lines, millis(dice, 200, 3_000))
}

fn address(dice: &mut Dice) -> Disturbance {
    let (path, host) = (spare(dice), *dice.pick(&Host::ALL));
    let index = DELAYS_MS.iter().position(|(name, _)| *name == path).expect("a path");
    let usual = host.address(index).to_string();
    let other = format!("10.77.{}.{}", index + 1, if host == Host::Left { 77 } else { 78 });
    let change = |from: &str, to: &str| {
        format!("ip address del {from}/24 dev path{path}; ip address add {to}/24 dev path{path}")
    };
    let lines = [change(&usual, &other), change(&other, &usual)];
    on_host(format!("another address of {host} on {path}"), host, lines, millis(dice, 500, 4_000))
}

/// A rule that concerns nobody: all stacks read the table anew.
fn rule(dice: &mut Dice) -> Disturbance {
    let act = |verb: &'static str| {
        Box::new(move |hosts: &Hosts| {
            let mut command = hosts.site.command(Host::Left, MANYPATH);
            command.args(["rules", verb, "remote", "disable", "port", "9"]);
            let done = finish(command);
            assert_eq!(done.code, Some(0), "{done:?}");
        })
    };
    let lasts = millis(dice, 100, 1_000);
    let what = format!("another rule for {lasts:?}");
    Disturbance { what, begin: act("add"), mend: act("delete"), lasts }
}

fn millis(dice: &mut Dice, from: u64, to: u64) -> Duration {
    Duration::from_millis(dice.range(from, to))
}
