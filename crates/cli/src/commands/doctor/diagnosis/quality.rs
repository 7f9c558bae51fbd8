//! Why a path on which something gets through carries less than it could, or nothing.

use super::super::findings::{Findings, PathFinding, Rebinding};
use super::cause::{Cause, Weight};
use manypath_control::status::Withheld;

/// Less than this is a receive buffer that loses packets at some hundred Mbit/s, as the kernel counts it.
const SMALL_BUFFER: usize = 2 << 20;
/// An idle path is probed about so often.
const PROBED_S: f64 = 30.0;

pub(super) fn causes(findings: &Findings) -> Vec<Cause> {
    let mut causes = Vec::new();
    for path in &findings.paths {
        let wanted = [policy(path), exclusion(path), peers_policy(path)];
        let found = [mtu(path), ecn(path), nat(path), unbound(path)];
        causes.extend(wanted.into_iter().chain(found).flatten().map(|cause| cause.on(path)));
    }
    causes.extend(small_buffer(findings));
    causes.extend(withheld(findings));
    causes
}

/// The peer is told one address of this host, so the others make no paths.
fn withheld(findings: &Findings) -> Option<Cause> {
    let mut stacks = findings.paths.iter().flat_map(|path| &path.stacks);
    let lasting = |why: &Withheld| *why != Withheld::KeyExchange;
    let why = stacks.find_map(|stack| stack.withheld.filter(lasting))?;
    let text = format!(
        "an association with {} has one path from here: {}",
        findings.peer_name(),
        why.text()
    );
    let cause = Cause::new("addresses-withheld", Weight::Note, text);
    Some(match why {
        Withheld::NewKey => cause.mend(format!("manypath key show {}", findings.peer_name())),
        Withheld::NotEncrypted => cause.mend_encryption(findings),
        Withheld::KeyExchange | Withheld::NotAuthorized | Withheld::Unknown => cause,
    })
}

fn policy(path: &PathFinding) -> Option<Cause> {
    let wish = path.wanted.wish.as_ref()?;
    let enable = format!("manypath path change {} enable", wish.selector);
    match (wish.role.as_str(), wish.words.as_str()) {
        ("disabled", _) => {
            let text = format!("the path is disabled: \"{} {}\"", wish.selector, wish.words);
            Some(Cause::new("path-disabled", Weight::Degraded, text).mend(enable))
        }
        ("backup", _) => {
            let text = "the path is a backup: it carries data while no other one works";
            Some(Cause::new("path-backup", Weight::Note, text).mend(enable))
        }
        (_, "normal") => None,
        (_, words) => {
            let text = format!("the path is {words}: it may carry little or no data");
            let command = format!("manypath path remove {}", wish.selector);
            Some(Cause::new("path-restrained", Weight::Note, text).mend(command))
        }
    }
}

fn exclusion(path: &PathFinding) -> Option<Cause> {
    let rule = path.wanted.excluded_by.as_ref()?;
    let how = match rule.strict {
        true => "keeps these connections off the path",
        false => "makes the path a backup for these connections",
    };
    let text = format!("a rule {how}: {}", rule.words);
    let command = format!("manypath rules delete {}", rule.place);
    Some(Cause::new("path-excluded", Weight::Note, text).mend(command))
}

fn peers_policy(path: &PathFinding) -> Option<Cause> {
    let role = |wanted: &str| path.stacks.iter().any(|it| it.peer_policy.role == wanted);
    let (remote, local) = (path.remote.ip(), path.local);
    let local = path.outside.map_or(local, |outside| outside.ip());
    let command = format!("manypath path change {remote} peer {local} enable");
    if role("disabled") {
        let text = "the peer's user has disabled the path";
        return Some(Cause::new("peer-disables", Weight::Degraded, text).mend_on_peer(command));
    }
    let text = "the peer's user wants the path as a backup";
    role("backup").then(|| Cause::new("peer-backup", Weight::Note, text).mend_on_peer(command))
}

fn mtu(path: &PathFinding) -> Option<Cause> {
    if !path.udp.is_answered() || path.mtu == Some(path.interface_mtu) {
        return None;
    }
    let (interface, most) = (&path.interface, path.interface_mtu);
    let Some(mtu) = path.mtu else {
        let text = "small packets get through, and none of 576 bytes";
        return Some(Cause::new("mtu-black-hole", Weight::Broken, text));
    };
    if path.mtu_told.is_some() {
        let text = format!(
            "packets of {mtu} bytes get through, packets of {most} do not, as routers report"
        );
        return Some(Cause::new("mtu-smaller", Weight::Note, text));
    }
    let text = format!(
        "packets larger than {mtu} bytes vanish, and no router says so: manypath finds out, plain TCP may hang"
    );
    let command = format!("ip link set dev {interface} mtu {mtu}");
    Some(Cause::new("mtu-black-hole", Weight::Degraded, text).mend(command))
}

fn ecn(path: &PathFinding) -> Option<Cause> {
    let text =
        "packets that say that they can be marked (ECN) vanish: manypath goes on without marks";
    (path.ecn.passes == Some(false)).then(|| Cause::new("ecn-black-hole", Weight::Note, text))
}

fn nat(path: &PathFinding) -> Option<Cause> {
    let outside = path.outside.filter(|_| path.nat == Some(true))?;
    let text = format!("there is a NAT on the path: the peer sees {outside}");
    match path.rebinding {
        Some(Rebinding::Between { lost_s, .. }) if lost_s <= PROBED_S => {
            let text = format!(
                "{text}, and the NAT forgets after {lost_s} s, before an idle path is probed"
            );
            Some(Cause::new("nat-forgets", Weight::Note, text))
        }
        Some(Rebinding::Between { .. } | Rebinding::Longer { .. } | Rebinding::Unknown { .. })
        | None => Some(Cause::new("nat", Weight::Note, text)),
    }
}

fn unbound(path: &PathFinding) -> Option<Cause> {
    let why = path.unbound.as_ref()?;
    let text =
        format!("{why}: only the routing table decides by which interface its packets leave");
    Some(Cause::new("unbound", Weight::Note, text))
}

fn small_buffer(findings: &Findings) -> Option<Cause> {
    let bytes = findings.paths.iter().map(|path| path.receive_buffer).filter(|it| *it > 0).min()?;
    let text =
        format!("sockets only get a receive buffer of {bytes} bytes, so fast paths lose packets");
    let cause = || Cause::new("small-receive-buffer", Weight::Note, text);
    (bytes < SMALL_BUFFER).then(cause).map(|it| it.mend("sysctl -w net.core.rmem_max=8388608"))
}
