//! Why nothing gets through on a path.

use super::super::findings::{Findings, LinkState, PathFinding, Udp};
use super::cause::{Cause, Weight};

/// Operation not permitted: what a firewall of this host says.
const EPERM: i32 = 1;
/// The first port that every user may have.
const FIRST_FREE_PORT: u16 = 1024;
/// A service that a server may offer where none was named.
const USUAL: u16 = 22;
/// Lets packets to the port in, in every chain that filters what comes in.
const OPEN_PEER: &str = "nft list chains | awk '/^table/{f=$2;t=$3} /chain/{c=$2} \
    /type filter hook input/&&f~/^(ip|ip6|inet)$/{print \"insert rule\",f,t,c,\"udp dport PORT accept\"}' | nft -f -";

pub(super) fn causes(findings: &Findings) -> Vec<Cause> {
    let (mut causes, mut unexplained) = (Vec::new(), Vec::new());
    for path in findings.paths.iter().filter(|path| !path.udp.is_answered()) {
        if findings.behind_nat.contains(&path.remote.ip()) {
            causes.push(behind_nat(path));
            continue;
        }
        match of_this_host(findings, path) {
            Some(cause) => causes.push(cause.on(path)),
            None => unexplained.push(path),
        }
    }
    let of_peer = unexplained.iter().map(|path| of_peer(findings, path));
    let mut of_peer: Vec<Cause> = of_peer.collect();
    if findings.unrouted && unexplained.len() == findings.paths.len() && !of_peer.is_empty() {
        causes.push(unrouted(findings));
        return causes;
    }
    let same = of_peer.windows(2).all(|two| two[0].name == two[1].name);
    if same && unexplained.len() == findings.paths.len() {
        // One cause, and not of a path.
        of_peer.truncate(1);
        causes.extend(of_peer);
    } else {
        causes.extend(of_peer.into_iter().zip(unexplained).map(|(cause, path)| cause.on(path)));
    }
    causes
}

/// The peer has told the address because it does not know how it is known here.
fn behind_nat(path: &PathFinding) -> Cause {
    let address = path.remote.ip();
    let text =
        format!("the peer is behind a NAT, and its own address {address} is unreachable from here");
    Cause::new("address-behind-nat", Weight::Note, text).on(path)
}

/// Without any path that works all is broken.
fn weight(findings: &Findings) -> Weight {
    let works = findings.paths.iter().any(|path| path.udp.is_answered());
    if works { Weight::Degraded } else { Weight::Broken }
}

/// The same, but networks that end at this host, such as those of containers, carry nothing anyway.
fn weight_of(findings: &Findings, path: &PathFinding) -> Weight {
    let route = &path.route;
    let leads_on = route.on_link || route.gateway.is_some() || !route.gateways.is_empty();
    let weight = weight(findings);
    if weight == Weight::Degraded && !leads_on { Weight::Note } else { weight }
}

/// What this host does to a path.
fn of_this_host(findings: &Findings, path: &PathFinding) -> Option<Cause> {
    let interface = &path.interface;
    let cause = |name, text: String| Some(Cause::new(name, weight_of(findings, path), text));
    match (path.link, &path.udp) {
        (LinkState::Off, _) => {
            return cause("link-down", format!("{interface} is down"))
                .map(|it| it.mend(format!("ip link set dev {interface} up")));
        }
        (LinkState::NoCarrier, _) => {
            let text = format!(
                "{interface} has no carrier: the cable is unplugged or the other end is off"
            );
            return cause("no-carrier", text);
        }
        (LinkState::Up, Udp::Refused { errno: EPERM, .. }) => {
            let text = format!(
                "a firewall on this host blocks outgoing UDP to port {}",
                path.remote.port()
            );
            let port = path.remote.port();
            let iptables = format!("iptables -I OUTPUT -p udp --dport {port} -j ACCEPT");
            let command = joined(&findings.open_output).unwrap_or(iptables);
            return cause("local-firewall", text).map(|it| it.mend(command));
        }
        (LinkState::Up, _) => {}
    }
    let quiet = matches!(path.udp, Udp::Silent | Udp::Unreachable | Udp::Refused { .. });
    if quiet { of_routes(findings, path) } else { None }
}

fn of_routes(findings: &Findings, path: &PathFinding) -> Option<Cause> {
    let (interface, route) = (&path.interface, &path.route);
    let new = |name, text: String| Cause::new(name, weight(findings), text);
    if let Some(command) = &route.unforbid {
        let text = format!("a routing rule or route forbids packets from {}", path.local);
        return Some(new("route-forbidden", text).mend(command));
    }
    if let Some(other) = route.reverse.as_ref().filter(|_| route.rp_filter == 1) {
        let text = format!(
            "the kernel drops what comes over {interface}, because the route to the peer goes over {other} (rp_filter is strict)"
        );
        let command = format!("sysctl -w net.ipv4.conf.{interface}.rp_filter=2");
        return Some(new("rp-filter", text).mend(command));
    }
    if path.dropped_here == Some(true) {
        let text =
            format!("answers arrive over {interface}, and a firewall on this host drops them");
        let port = path.remote.port();
        let iptables = format!("iptables -I INPUT -p udp --sport {port} -j ACCEPT");
        let command = joined(&findings.open_input).unwrap_or(iptables);
        return Some(new("answers-dropped", text).mend(command));
    }
    if route.gateway.is_none() && !route.on_link {
        return Some(no_route(findings, path));
    }
    match &path.udp {
        Udp::Refused { why, .. } => Some(new("cannot-send", format!("nothing can be sent: {why}"))),
        Udp::Answered { .. }
        | Udp::Aborted { .. }
        | Udp::PortClosed
        | Udp::Unreachable
        | Udp::Silent => None,
    }
}

fn no_route(findings: &Findings, path: &PathFinding) -> Cause {
    let interface = &path.interface;
    let text = format!("{interface} has no route to the peer: add one through its own router");
    let cause = Cause::new("no-route", weight_of(findings, path), text);
    match path.route.gateways.first() {
        Some(gateway) => {
            cause.mend(format!("ip route add default via {gateway} dev {interface} metric 200"))
        }
        // Nobody in the network has said that it could be the router.
        None => cause,
    }
}

/// Packets were sent all the same, by sockets that are bound to their interface; programs cannot.
fn unrouted(findings: &Findings) -> Cause {
    let text =
        "this host has no route to the peer: all connects to it fail (Network is unreachable)";
    let cause = Cause::new("no-route", Weight::Broken, text);
    let known = findings.paths.iter().find_map(|path| {
        let gateway = path.route.gateway.or_else(|| path.route.gateways.first().copied());
        gateway.map(|gateway| (gateway, &path.interface))
    });
    match known {
        Some((gateway, interface)) => {
            cause.mend(format!("ip route add default via {gateway} dev {interface}"))
        }
        None => cause,
    }
}

/// What the peer, or somebody on the way, does.
fn of_peer(findings: &Findings, path: &PathFinding) -> Cause {
    let (host, port) = (findings.peer_name(), path.remote.port());
    let allow = findings.port.unwrap_or(USUAL);
    let works = weight(findings) == Weight::Degraded;
    let new = |name, text: String| Cause::new(name, weight(findings), text);
    match path.udp {
        Udp::PortClosed if works => {
            let text = format!("the peer's manypath does not listen on {}", path.remote.ip());
            new("address-not-served", text)
        }
        // Sockets of a manypath are bound to their interfaces: over another one nobody is there.
        Udp::PortClosed if may_listen_elsewhere(findings, path) => {
            let text = format!(
                "nothing listens on {} for this path, though it may for others",
                path.remote.ip()
            );
            Cause::new("address-not-served", Weight::Note, text)
        }
        Udp::PortClosed if port < FIRST_FREE_PORT => {
            let text = format!(
                "nothing listens on UDP port {port} of {host}, which needs root: no other manypath may answer for port \
                 {allow}, unless you trust all users of {host} (`manypath rules add remote enable \
                 host {} unproven=on`)",
                path.remote.ip()
            );
            new("unproven-port", text).mend_on_peer(format!("manypath serve --allow {allow}"))
        }
        Udp::PortClosed => {
            let text = format!(
                "nothing listens on UDP port {port} of {host}: manypath is not running there"
            );
            new("nobody-listens", text).mend_on_peer(format!("manypath serve --allow {allow}"))
        }
        Udp::Aborted { wants_encryption: true } => {
            let text =
                format!("{host} takes encrypted associations only, and `encrypt` is off here");
            new("encryption-required", text).mend_encryption(findings)
        }
        Udp::Aborted { wants_encryption: false } => {
            let text = format!("SCTP on UDP port {port} of {host} refuses associations");
            new("peer-refuses", text).mend_on_peer(format!("manypath serve --allow {allow}"))
        }
        Udp::Silent | Udp::Unreachable | Udp::Refused { .. } | Udp::Answered { .. } => {
            silent(findings, path)
        }
    }
}

/// Whether somebody may listen at the same address for another path: there it refuses associations, or nothing is said.
fn may_listen_elsewhere(findings: &Findings, path: &PathFinding) -> bool {
    let same = |other: &&PathFinding| other.remote == path.remote;
    let may = |udp: &Udp| matches!(udp, Udp::Silent | Udp::Aborted { .. });
    findings.paths.iter().filter(same).any(|other| may(&other.udp))
}

fn silent(findings: &Findings, path: &PathFinding) -> Cause {
    let (host, remote) = (findings.peer_name(), path.remote);
    let new = |name, text: String| Cause::new(name, weight(findings), text);
    if path.tcp == Some(true) {
        let text = format!(
            "{} answers TCP, and UDP port {} not: a firewall is in the way, most likely the peer's; \
             where it cannot be opened, --carriers at both ends goes around it",
            remote.ip(),
            remote.port()
        );
        let command = OPEN_PEER.replace("PORT", &remote.port().to_string());
        return new("udp-blocked", text).mend_on_peer(command);
    }
    let name = if weight(findings) == Weight::Broken { "peer-silent" } else { "path-silent" };
    let text = format!(
        "nothing is heard of {host} at {} from {}, neither by UDP nor by TCP",
        remote.ip(),
        path.local
    );
    new(name, text).mend(format!("ping -c 3 -I {} {}", path.local, remote.ip()))
}

fn joined(commands: &[String]) -> Option<String> {
    (!commands.is_empty()).then(|| commands.join(" && "))
}
