//! The rules that lead the connections of a network to this host's door, and the small process that keeps them.
//!
//! ```text
//! gateway (gives up its rights) ── stdin ─▶ lan-rules (root, keeps nothing of what it reads) ── nft, ip ─▶ kernel
//! ```
//!
//! The gateway cannot remove rules when it ends: by then it has no rights, or was killed. So a process that does nothing
//! else waits for its end. Should that be killed, too, TPROXY without a listener leads nothing anywhere: the network is
//! routed as before, and the next start, or `--remove`, clears the rules away.

use super::args::LanRulesArgs;
use crate::failure::Failure;
use manypath_control::runtime;
use manypath_net::Signals;
use manypath_rules::Network;
use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The table of rules.
const TABLE: &str = "manypath_lan";
/// One bit of packets' marks, so that other bits keep their meaning.
const MARK: &str = "0x4000000";
/// The routing table for packets with that bit, and the preference of the rule that leads there.
const ROUTES: &str = "9899";
const PREFERENCE: &str = "99";
/// The same for packets that are neither TCP nor UDP, which go to the TUN device.
const TUN_MARK: &str = "0x8000000";
const TUN_ROUTES: &str = "9898";
const TUN_PREFERENCE: &str = "98";
/// Bytes of its packets: what every link of IPv6 takes. With what is put around them they fit into one packet of the usual
/// size, so nothing is fragmented, and the kernel says so to hosts that send more.
const TUN_MTU: &str = "1280";
/// Its address, which means nothing anywhere (the dummy address of RFC 7600).
const TUN_ADDRESS: &str = "192.0.0.8/32";
/// Copies of that rule that gateways may have left.
const MOST_RULES: usize = 16;

/// Why there can be no rules.
#[derive(Debug)]
pub(super) enum Error {
    /// Another gateway serves a network here.
    Busy,
    /// There is no such program.
    NoTool(&'static str),
    /// What the kernel says, by way of the program.
    Refused(String),
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("another `manypath gateway --lan` is at work on this host"),
            Self::NoTool(tool) => write!(f, "there is no program `{tool}`"),
            Self::Refused(why) => f.write_str(why),
            Self::Io(error) => error.fmt(f),
        }
    }
}

/// The process that keeps the rules; they are gone when it is dropped.
#[derive(Debug)]
pub(super) struct Lan {
    process: Child,
    line: Option<ChildStdin>,
    /// How connections are led to the door, for people.
    pub(super) how: String,
}

impl Lan {
    /// Leads what comes in at the interfaces from clients, or from everybody if there are none, to the ports.
    pub(super) fn start(rules: &LanRulesArgs) -> Result<Self, Error> {
        let program = std::env::current_exe().map_err(Error::Io)?;
        let mut command = Command::new(program);
        command.arg("lan-rules").args(["--port", &rules.port.to_string()]);
        if let Some(port) = rules.udp_port {
            command.args(["--udp-port", &port.to_string()]);
        }
        command.args(rules.dns.then_some("--dns"));
        if let Some(name) = &rules.tun {
            command.args(["--tun", name]);
        }
        for name in &rules.lan {
            command.args(["--lan", name]);
        }
        for network in &rules.clients {
            command.args(["--client", &network.to_string()]);
        }
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(Error::Io)?;
        let (line, said) = (process.stdin.take(), process.stdout.take());
        let mut words = String::new();
        if let Some(said) = said {
            BufReader::new(said).read_line(&mut words).map_err(Error::Io)?;
        }
        let (word, rest) = words.trim_end().split_once(' ').unwrap_or((words.trim_end(), ""));
        let lan = Self { process, line, how: rest.to_owned() };
        match (word, rest) {
            ("READY", _) => Ok(lan),
            ("BUSY", _) => Err(Error::Busy),
            ("NOTOOL", "nft") => Err(Error::NoTool("nft")),
            ("NOTOOL", _) => Err(Error::NoTool("ip")),
            ("REFUSED", why) => Err(Error::Refused(why.to_owned())),
            _ => Err(Error::Io(io::Error::other("what keeps the rules has ended"))),
        }
    }
}

impl Drop for Lan {
    /// Ends it, and waits until the rules are gone.
    fn drop(&mut self) {
        drop(self.line.take());
        let _ = self.process.wait();
    }
}

/// Keeps the rules until standard input ends.
pub(crate) fn lan_rules(args: &LanRulesArgs) -> Result<u8, Failure> {
    // What ends a terminal or a service ends the gateway first.
    let _signals = Signals::watch().map_err(|error| Failure::new(error.to_string()))?;
    let place = lock().and_then(|place| {
        clear()?;
        make(args).inspect_err(|_| drop(clear())).map(|how| (place, how))
    });
    say(&match &place {
        Ok((_, how)) => format!("READY {how}"),
        Err(Error::Busy) => "BUSY".to_owned(),
        Err(Error::NoTool(tool)) => format!("NOTOOL {tool}"),
        Err(Error::Refused(_) | Error::Io(_)) => {
            let why = place.as_ref().err().map(ToString::to_string).unwrap_or_default();
            format!("REFUSED {}", why.lines().next().unwrap_or_default())
        }
    });
    if place.is_ok() {
        // What it says is not kept: it may have been taken over.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        clear().map_err(|error| Failure::new(error.to_string()))?;
    }
    Ok(0)
}

/// Makes the rules; returns how they lead connections to the door, for people.
fn make(args: &LanRulesArgs) -> Result<String, Error> {
    if let Some(name) = &args.tun {
        route_to_tun(name)?;
    }
    let rules = |how| nft(&script(args, how));
    let redirected = |why| {
        let udp = if args.udp_port.is_some() { "; UDP is routed as before" } else { "" };
        rules(How::Redirect).map(|()| format!("redirection: {why}{udp}"))
    };
    let passed_by = passed_by(args);
    let how = if args.lan.iter().any(|name| is_filtered_bridge(name)) {
        redirected("packets of the bridge are filtered")
    } else {
        match rules(How::Tproxy) {
            Ok(()) => route().map(|()| "TPROXY".to_owned()),
            Err(_) => redirected("the kernel refuses TPROXY"),
        }
    };
    let note = |rule| format!("; the routing rule `{rule}` does not apply to carried connections");
    how.map(|how| how + &passed_by.map_or(String::new(), note))
}

/// The first routing rule about clients, if there is one: what is carried leaves as this host's own does.
fn passed_by(args: &LanRulesArgs) -> Option<String> {
    let LanRulesArgs { lan, clients, .. } = args;
    let interfaces = manypath_net::interfaces().unwrap_or_default();
    let network = interfaces.iter().filter(|one| lan.contains(&one.name));
    let network: Vec<_> = network.map(|one| (one.addr, one.prefix_len)).collect();
    ["-4", "-6"].into_iter().find_map(|family| {
        let shown = Command::new("ip").args([family, "rule", "show"]).output().ok()?;
        rule_about(&String::from_utf8_lossy(&shown.stdout), lan, &network, clients)
    })
}

/// The first of the rules that `ip rule` has shown that is about what comes in at the interfaces, where this host has
/// these addresses, and, unless there are none, about some of the clients.
fn rule_about(
    shown: &str,
    lan: &[String],
    addresses: &[(IpAddr, u8)],
    clients: &[Network],
) -> Option<String> {
    let is_of_client = |from: &Network| {
        let overlaps = |client: &Network| client.covers(from) || from.covers(client);
        clients.is_empty() || clients.iter().any(overlaps)
    };
    let is_of_network = |from: &Network| {
        let overlaps = |(address, prefix): &(IpAddr, u8)| {
            let network = Network::around(*address, *prefix);
            *from != Network::host(*address) && (network.covers(from) || from.covers(&network))
        };
        addresses.iter().any(overlaps)
    };
    let is_about = |rule: &&str| {
        let words: Vec<&str> = rule.split_whitespace().collect();
        let after = |name| words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
        let from: Option<Network> = after("from").and_then(|from| from.parse().ok());
        let comes_in = after("iif").is_some_and(|name| lan.iter().any(|one| one == name));
        from.map_or(comes_in, |from| is_of_client(&from) && (comes_in || is_of_network(&from)))
    };
    let mut rules = shown.lines().filter_map(|line| Some(line.split_once(':')?.1.trim()));
    rules.find(is_about).map(str::to_owned)
}

/// Whether the packets of a bridge pass the rules before they are this host's, which loses the socket that TPROXY has
/// chosen for them.
fn is_filtered_bridge(name: &str) -> bool {
    let is_on = |path: String| std::fs::read_to_string(path).is_ok_and(|text| text.trim() != "0");
    let filtered = |which| {
        is_on(format!("/proc/sys/net/bridge/bridge-nf-call-{which}"))
            || is_on(format!("/sys/class/net/{name}/bridge/nf_call_{which}"))
    };
    manypath_net::is_bridge(name).unwrap_or(true) && (filtered("iptables") || filtered("ip6tables"))
}

fn say(line: &str) {
    // A gateway that has ended meanwhile does not listen.
    let _ = writeln!(io::stdout(), "{line}");
}

/// Removes what a gateway has left that could not do so itself.
pub(super) fn remove() -> Result<(), Error> {
    let _place = lock()?;
    clear()
}

/// One gateway in a network namespace, by a file of which only root knows more than the name. It is free again when its
/// process is gone, however that ended.
fn lock() -> Result<File, Error> {
    let namespace = runtime::network_namespace();
    let namespace = namespace.map_err(|error| Error::Refused(error.to_string()))?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(format!("/run/{TABLE}-{namespace}.lock")).map_err(Error::Io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Busy),
        Err(TryLockError::Error(error)) => Err(Error::Io(error)),
    }
}

/// Removes everything that was made; what is not there need not be removed.
fn clear() -> Result<(), Error> {
    nft(&format!("table inet {TABLE}\ndelete table inet {TABLE}\n"))?;
    for family in ["-4", "-6"] {
        for (preference, mark, routes) in
            [(PREFERENCE, MARK, ROUTES), (TUN_PREFERENCE, TUN_MARK, TUN_ROUTES)]
        {
            let bit = bit(mark);
            let rule = ["rule", "del", "pref", preference, "fwmark", &bit, "lookup", routes];
            // As often as it was made.
            for _ in 0..MOST_RULES {
                if !ip(family, &rule)? {
                    break;
                }
            }
            ip(family, &["route", "flush", "table", routes])?;
        }
    }
    Ok(())
}

/// Leads marked packets to this host itself.
fn route() -> Result<(), Error> {
    for (family, all) in [("-4", "0.0.0.0/0"), ("-6", "::/0")] {
        let rule = ["rule", "add", "pref", PREFERENCE, "fwmark", &bit(MARK), "lookup", ROUTES];
        let route = ["route", "add", "local", all, "dev", "lo", "table", ROUTES];
        let done = ip(family, &rule)? && ip(family, &route)?;
        if !done && family == "-4" {
            return Err(Error::Refused(format!("`ip {family} {}` failed", rule.join(" "))));
        }
    }
    Ok(())
}

/// Leads packets with the other bit to the TUN device, and takes answers from there whatever the routes say.
fn route_to_tun(name: &str) -> Result<(), Error> {
    if !ip("-4", &["link", "set", "dev", name, "mtu", TUN_MTU, "up"])? {
        return Err(Error::Refused(format!("`ip link set dev {name} up` failed")));
    }
    // The kernel drops what comes from a device without an address that other devices lead to.
    if !ip("-4", &["address", "add", TUN_ADDRESS, "dev", name])? {
        return Err(Error::Refused(format!("`ip address add {TUN_ADDRESS} dev {name}` failed")));
    }
    // Loose: the stricter of this and the setting for all would drop answers (ip-sysctl, rp_filter).
    let filter = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
    std::fs::write(filter, "2").map_err(Error::Io)?;
    for family in ["-4", "-6"] {
        let bit = bit(TUN_MARK);
        let rule = ["rule", "add", "pref", TUN_PREFERENCE, "fwmark", &bit, "lookup", TUN_ROUTES];
        let route = ["route", "add", "default", "dev", name, "table", TUN_ROUTES];
        let done = ip(family, &rule)? && ip(family, &route)?;
        if !done && family == "-4" {
            return Err(Error::Refused(format!("`ip {family} {}` failed", route.join(" "))));
        }
    }
    Ok(())
}

fn bit(mark: &str) -> String {
    format!("{mark}/{mark}")
}

/// How connections are led to the door.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// By the socket. Without a listener nothing is led anywhere.
    Tproxy,
    /// By another destination, with connection tracking.
    Redirect,
}

/// Connections that begin now are led to the door, and their packets stay with it, and so are datagrams if there is a
/// port for them; everything else goes its way. Redirected datagrams would have lost their destination.
fn script(args: &LanRulesArgs, how: How) -> String {
    let names: Vec<String> = args.lan.iter().map(|name| format!("\"{name}\"")).collect();
    let names = names.join(", ");
    let udp_port = args.udp_port.filter(|_| how == How::Tproxy);
    // Behind the rules that others usually have there.
    let kind = match how {
        How::Tproxy => "filter hook prerouting priority -149",
        How::Redirect => "nat hook prerouting priority -99",
    };
    let protocols = if udp_port.is_some() { "{ tcp, udp }" } else { "tcp" };
    let mut text = format!("table inet {TABLE} {{\n");
    if args.tun.is_some() {
        put_packets(&mut text, args, &names);
    }
    let _ = write!(
        text,
        " chain prerouting {{\n  type {kind}; policy accept;\n  \
         iifname != {{ {names} }} return\n  meta l4proto != {protocols} return\n"
    );
    put_clients(&mut text, &args.clients);
    let mark = format!("meta mark set meta mark or {MARK} accept");
    let mut lead = Vec::new();
    match how {
        How::Tproxy => {
            // Connections that are here stay here, whatever becomes of routes.
            let _ = writeln!(text, "  socket transparent 1 {mark}");
            let port = args.port;
            lead.push(format!(
                "tcp flags & (fin | syn | rst | ack) == syn tproxy to :{port} {mark}"
            ));
            lead.extend(udp_port.map(|port| format!("meta l4proto udp tproxy to :{port} {mark}")));
        }
        How::Redirect => lead.push(format!("tcp dport 1-65535 redirect to :{}", args.port)),
    }
    if args.dns && how == How::Tproxy {
        for rule in &lead {
            let _ = writeln!(text, "  fib daddr type local th dport 53 {rule}");
        }
    }
    put_exceptions(&mut text, &names);
    let _ = write!(text, "  {}\n }}\n}}\n", lead.join("\n  "));
    text
}

/// What is neither TCP nor UDP is led to the TUN device.
fn put_packets(text: &mut String, args: &LanRulesArgs, names: &str) {
    let _ = write!(
        text,
        " chain packets {{\n  type filter hook prerouting priority -149; policy accept;\n  \
         iifname != {{ {names} }} return\n  meta l4proto {{ tcp, udp }} return\n"
    );
    put_clients(text, &args.clients);
    put_exceptions(text, names);
    let _ = write!(text, "  meta mark set meta mark or {TUN_MARK}\n }}\n");
}

/// What is for this host, for hosts at the same interfaces, or for nobody goes its way.
fn put_exceptions(text: &mut String, names: &str) {
    let _ = write!(
        text,
        "  fib daddr type != unicast return\n  fib daddr oif missing return\n  fib daddr oifname {{ {names} }} return\n  \
         ip daddr 169.254.0.0/16 return\n  ip6 daddr fe80::/10 return\n"
    );
}

/// Lets hosts go their way that are no clients, if there are clients.
fn put_clients(text: &mut String, clients: &[Network]) {
    for (family, is_v4) in [("ip", true), ("ip6", false)] {
        let of_family = clients.iter().filter(|network| network.address().is_ipv4() == is_v4);
        let networks: Vec<String> = of_family.map(ToString::to_string).collect();
        let version = if is_v4 { "ipv4" } else { "ipv6" };
        // Writing to a string cannot fail.
        let _ = match networks.is_empty() {
            true if clients.is_empty() => Ok(()),
            true => writeln!(text, "  meta nfproto {version} return"),
            false => writeln!(text, "  {family} saddr != {{ {} }} return", networks.join(", ")),
        };
    }
}

fn nft(script: &str) -> Result<(), Error> {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = command.spawn().map_err(|error| no_tool("nft", error))?;
    if let Some(mut input) = process.stdin.take() {
        input.write_all(script.as_bytes()).map_err(Error::Io)?;
    }
    let done = process.wait_with_output().map_err(Error::Io)?;
    match done.status.success() {
        true => Ok(()),
        false => Err(Error::Refused(format!("nft: {}", String::from_utf8_lossy(&done.stderr)))),
    }
}

/// Whether it has done it.
fn ip(family: &str, args: &[&str]) -> Result<bool, Error> {
    let mut command = Command::new("ip");
    command.arg(family).args(args).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.stderr(Stdio::null()).status();
    status.map(|status| status.success()).map_err(|error| no_tool("ip", error))
}

fn no_tool(tool: &'static str, error: io::Error) -> Error {
    match error.kind() == io::ErrorKind::NotFound {
        true => Error::NoTool(tool),
        false => Error::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routing_rules_about_the_network_are_found() {
        let lan = ["br0".to_owned()];
        let own = [("192.168.1.1", 24), ("fd00::1", 64)];
        let own = own.map(|(address, prefix)| (address.parse().unwrap(), prefix));
        let usual = "0:\tfrom all lookup local\n99:\tfrom all fwmark 0x4000000/0x4000000 lookup 9899\n\
                     100:\tfrom 192.168.1.1 lookup 7\n101:\tfrom 192.168.2.0/24 iif br00 lookup 8\n\
                     32766:\tfrom all lookup main\n";
        assert_eq!(rule_about(usual, &lan, &own, &[]), None);
        for rule in [
            "from all iif br0 lookup vpn",
            "from 192.168.1.0/24 lookup vpn",
            "from 192.168.1.7 lookup vpn",
            "from 192.168.0.0/16 fwmark 0x1 lookup vpn",
            "from fd00::/64 lookup vpn",
        ] {
            let shown = format!("{usual}102:\t{rule}\n");
            assert_eq!(rule_about(&shown, &lan, &own, &[]).as_deref(), Some(rule));
        }
    }

    #[test]
    fn routing_rules_about_hosts_that_are_no_clients_are_not_named() {
        let lan = ["br0".to_owned()];
        let own = [("192.168.1.1".parse().unwrap(), 24), ("192.168.2.1".parse().unwrap(), 24)];
        let named = |clients: &str, rule: &str| {
            rule_about(&format!("102:\t{rule}\n"), &lan, &own, &[clients.parse().unwrap()])
        };
        for rule in ["from 192.168.2.0/24 lookup vpn", "from 192.168.2.0/24 iif br0 lookup vpn"] {
            assert_eq!(named("192.168.1.0/24", rule), None);
            assert_eq!(named("192.168.2.7", rule).as_deref(), Some(rule));
            assert_eq!(named("192.168.0.0/16", rule).as_deref(), Some(rule));
        }
        let all = "from all iif br0 lookup vpn";
        assert_eq!(named("192.168.1.0/24", all).as_deref(), Some(all));
    }

    #[test]
    fn hosts_that_are_no_clients_are_left_alone_in_both_families() {
        let network = |text: &str| text.parse().unwrap();
        let rules = |lan: &[&str], clients: &[Network], udp_port| LanRulesArgs {
            lan: lan.iter().map(ToString::to_string).collect(),
            clients: clients.to_vec(),
            port: 7,
            udp_port,
            tun: None,
            dns: false,
        };
        let some = script(&rules(&["br0"], &[network("192.168.1.0/24")], Some(8)), How::Tproxy);
        assert!(some.contains("meta l4proto != { tcp, udp } return"), "{some}");
        assert!(some.contains("udp tproxy to :8") && !some.contains("dport 53"), "{some}");
        assert!(some.contains("ip saddr != { 192.168.1.0/24 } return\n  meta nfproto ipv6 return"));
        let all = script(&rules(&["br0", "br1"], &[], Some(8)), How::Redirect);
        assert!(!all.contains("udp"), "{all}");
        assert!(!all.contains("saddr") && !all.contains("nfproto"), "{all}");
        assert!(all.contains("iifname != { \"br0\", \"br1\" } return"), "{all}");
    }
}
