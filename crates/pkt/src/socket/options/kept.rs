//! Options that change nothing here: this stack has no Nagle's algorithm, delivers whole messages
//! only, and so on. What is set can be read back.

/// Options with one number.
const PLAIN: &[&str] = &[
    "SCTP_NODELAY",
    "SCTP_FRAGMENT_INTERLEAVE",
    "SCTP_PARTIAL_DELIVERY_POINT",
    "SCTP_I_WANT_MAPPED_V4_ADDR",
    "SCTP_DISABLE_FRAGMENTS",
    "SCTP_AUTOCLOSE",
    "SCTP_REUSE_PORT",
    "SCTP_CONTEXT",
    "SO_REUSEADDR",
    "SO_REUSEPORT",
];

/// Options with a structure, and its fields.
const STRUCTURES: &[(&str, &[&str])] = &[(
    "SCTP_DEFAULT_SNDINFO",
    &["snd_sid", "snd_flags", "snd_ppid", "snd_context", "snd_assoc_id"],
)];

/// The names under which the parts of an option are kept; none if it is not one of these.
pub(super) fn parts(option: &str) -> Option<Vec<&'static str>> {
    let plain = PLAIN.iter().find(|known| **known == option).map(|known| vec![*known]);
    let structure = || STRUCTURES.iter().find(|(known, _)| *known == option);
    plain.or_else(|| structure().map(|(_, fields)| fields.to_vec()))
}

/// What an option that was never set says.
pub(super) fn default(part: &str) -> i64 {
    i64::from(part == "SCTP_NODELAY")
}
