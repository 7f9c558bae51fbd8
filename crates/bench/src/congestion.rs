//! The congestion control of TCP: pinned, because the default differs between machines.

use crate::place::Place;
use crate::side::Outcome;
use manypath_lab::Host;
use std::fs;
use std::path::Path;
use std::process::Stdio;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const CURRENT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Where a congestion control is pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pinned {
    /// On all sockets of the place's hosts.
    Hosts,
    /// On the programs' sockets; a stack's own sockets to them have the system's default.
    Programs,
}

impl Pinned {
    /// As in the results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hosts => "hosts",
            Self::Programs => "programs",
        }
    }

    /// Whether the kernel has it.
    ///
    /// # Errors
    /// It has others.
    pub fn check(name: &str) -> Outcome<()> {
        let available = fs::read_to_string(AVAILABLE).unwrap_or_default();
        match available.split_whitespace().any(|known| known == name) {
            true => Ok(()),
            false => {
                let available = available.trim();
                Err(format!("the kernel has no congestion control '{name}', but {available}"))
            }
        }
    }

    /// Pins it where that is possible: on hosts that are there for us alone, as root.
    ///
    /// # Errors
    /// The kernel does not have it.
    pub fn on(place: &Place, name: &str) -> Outcome<Self> {
        Self::check(name)?;
        if !place.has_own_kernel_settings() {
            return Ok(Self::Programs);
        }
        // Namespaces may choose what the first one's administrator allows, from then on for ever.
        let _allowance = Allowance::give(name);
        let set = Host::ALL.into_iter().all(|host| {
            let mut command = place.command(host, Path::new("sh"));
            command.args(["-c", &format!("echo {name} >{CURRENT}")]);
            command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        });
        Ok(if set { Self::Hosts } else { Self::Programs })
    }

    /// The system's default.
    pub fn default_of_system() -> String {
        fs::read_to_string(CURRENT).map_or_else(|_| "unknown".into(), |name| name.trim().to_owned())
    }
}

/// Lets namespaces choose a congestion control; takes that back when dropped.
struct Allowance<'a>(Option<&'a str>);

impl<'a> Allowance<'a> {
    fn give(name: &'a str) -> Self {
        let mut allowed = Self::allowed();
        if allowed.iter().any(|known| known == name) {
            return Self(None);
        }
        allowed.push(name.to_owned());
        // Without root it stays as it is.
        let written = fs::write(ALLOWED, allowed.join(" "));
        Self(written.is_ok().then_some(name))
    }

    fn allowed() -> Vec<String> {
        let text = fs::read_to_string(ALLOWED).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Allowance<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.0 {
            let others: Vec<_> = Self::allowed().into_iter().filter(|one| one != name).collect();
            // What could be written can be written again.
            let _ = fs::write(ALLOWED, others.join(" "));
        }
    }
}
