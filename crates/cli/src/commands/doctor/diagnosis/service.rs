//! What became of the connection to the service.

use super::super::findings::{Findings, Remembered, Trial};
use super::cause::{Cause, Weight};
use manypath_control::status::FallbackReason;

/// Connection refused.
const ECONNREFUSED: i32 = 111;

pub(super) fn causes(findings: &Findings) -> Vec<Cause> {
    let port = findings.port.unwrap_or(0);
    let broken = |name, text: String| Cause::new(name, Weight::Broken, text);
    let cause = match findings.trial.as_ref() {
        None | Some(Trial::Carried) => None,
        Some(Trial::Plain { reason: FallbackReason::NotAllowed }) => {
            let text = format!("the peer's manypath does not allow port {port}");
            let command = format!("manypath rules add local enable port {port}");
            Some(broken("not-allowed", text).mend_on_peer(command))
        }
        Some(Trial::Plain { reason: FallbackReason::NothingToGain }) => {
            Some(near(findings.peer_name()))
        }
        Some(Trial::Plain { reason }) if reason.is_about_encryption() => {
            Some(not_encrypted(*reason, findings))
        }
        Some(Trial::Plain { reason }) => {
            Some(broken("plain-tcp", format!("the connection would be plain TCP: {reason}")))
        }
        Some(Trial::Failed { errno: ECONNREFUSED }) => {
            let text = format!("nothing listens on TCP port {port} of {}", findings.peer_name());
            Some(broken("service-closed", text))
        }
        Some(Trial::Failed { errno }) => {
            let error = std::io::Error::from_raw_os_error(*errno);
            Some(broken(
                "service-failed",
                format!("the peer's manypath cannot reach the service: {error}"),
            ))
        }
        Some(Trial::Unknown { why }) => {
            let text = format!("could not find out whether the service is carried: {why}");
            Some(Cause::new("not-tried", Weight::Note, text))
        }
    };
    let remembered = findings.trial.is_none() && findings.remembered.iter().any(is_near);
    cause.or_else(|| remembered.then(|| near(findings.peer_name()))).into_iter().collect()
}

/// Whether the entry says that plain TCP is as good, which is no fault.
pub(super) fn is_near(entry: &Remembered) -> bool {
    entry.reason == FallbackReason::NothingToGain
}

fn not_encrypted(reason: FallbackReason, findings: &Findings) -> Cause {
    let text = format!("the connection would be plain TCP: {reason}");
    let cause = Cause::new(reason.name(), Weight::Broken, text);
    let may_be_known = [FallbackReason::KeyChanged, FallbackReason::NoLongerEncrypted];
    if reason == FallbackReason::EncryptionRequired {
        cause.mend_encryption(findings)
    } else if reason == FallbackReason::NotAuthorized {
        let cure =
            "add what this command prints to the peer's file of `--authorized`, and reload there";
        let text = format!("{}: {cure}", cause.text);
        Cause { text, ..cause }.mend("manypath key show")
    } else if may_be_known.contains(&reason) {
        cause.mend(format!("manypath key forget {}", findings.peer_name()))
    } else {
        cause
    }
}

fn near(host: &str) -> Cause {
    let text = format!(
        "connections to {host} are plain TCP: a single short path leads there, on which SCTP has nothing to gain"
    );
    let command = "manypath config set step_aside=never";
    Cause::new("nothing-to-gain", Weight::Note, text).mend(command)
}
