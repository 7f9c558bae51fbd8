//! The window of a channel: keys `window`, `policy`, `refresh`, `cap`, `socket_buffer` of an application.

use super::error::ScenarioError;
use super::section::Section;
use super::setting::{Setting, Size, one_of};
use crate::scenario::AppKind;
use manypath_window::{Policy, Refresh, WindowConfig};

const POLICIES: [(&str, Policy); 4] = [
    ("follow", Policy::Follow),
    ("path", Policy::Path),
    ("static", Policy::Static),
    ("socket-buffer", Policy::SocketBuffer),
];

/// How refreshes of a size are written, beside their number of bytes.
const REFRESHES: [(&str, Refresh); 2] = [("fine", Refresh::Fine), ("half", Refresh::Half)];
/// More than any path takes.
const LARGEST: u64 = 1 << 30;

pub(super) fn read(section: &mut Section<'_>) -> Result<AppKind, ScenarioError> {
    let default = WindowConfig::default();
    let policy = section.read("policy", default.policy, |node| one_of(node, &POLICIES))?;
    let Size(first) = section.value("window", Size(default.first))?;
    let Size(cap) = section.value("cap", Size(LARGEST))?;
    let refresh = section.read("refresh", default.refresh, |node| {
        one_of(node, &REFRESHES)
            .or_else(|hint| Size::read(node).map(|Size(b)| Refresh::Bytes(b)).map_err(|_| hint))
    })?;
    let socket_buffer = section.optional("socket_buffer")?.map(|Size(bytes)| bytes);
    if !(1..=LARGEST).contains(&first) {
        return Err(section.error("window", "a window has between 1 byte and 1 GiB"));
    }
    if policy == Policy::SocketBuffer && socket_buffer.is_none() {
        return Err(section.error("socket_buffer", "is what this policy follows: it is missing"));
    }
    let window = match policy {
        Policy::Static => WindowConfig::fixed(first, refresh),
        Policy::Follow | Policy::Path | Policy::SocketBuffer => {
            WindowConfig { policy, refresh, first, least: default.least.min(first), cap, ..default }
        }
    };
    Ok(AppKind::Channel { window, socket_buffer })
}

/// The window as columns of a result.
pub(super) fn parameters(
    window: WindowConfig,
    socket_buffer: Option<u64>,
    add: &mut impl FnMut(&str, String),
) {
    let policy = POLICIES.iter().find(|(_, policy)| *policy == window.policy);
    add("policy", policy.map_or_else(String::new, |(name, _)| (*name).to_owned()));
    add("window", window.first.to_string());
    let refresh = match window.refresh {
        Refresh::Fine => "fine".to_owned(),
        Refresh::Half => "half".to_owned(),
        Refresh::Bytes(bytes) => bytes.to_string(),
    };
    add("refresh", refresh);
    add("cap", window.cap.to_string());
    add(
        "socket_buffer",
        socket_buffer.map_or_else(|| "none".to_owned(), |bytes| bytes.to_string()),
    );
}
