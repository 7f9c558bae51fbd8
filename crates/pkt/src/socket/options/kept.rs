//! Options that change nothing here or little. What is set can be read back.

/// Options with one number.
const PLAIN: &[&str] = &[
    "SCTP_NODELAY",
    "SCTP_EXPLICIT_EOR",
    "SCTP_AUTO_ASCONF",
    "SCTP_FRAGMENT_INTERLEAVE",
    "SCTP_PARTIAL_DELIVERY_POINT",
    "SCTP_I_WANT_MAPPED_V4_ADDR",
    "SCTP_DISABLE_FRAGMENTS",
    "SCTP_AUTOCLOSE",
    "SCTP_REUSE_PORT",
    "SO_REUSEADDR",
    "SO_REUSEPORT",
];

/// Options with a structure, and its fields.
const STRUCTURES: &[(&str, &[&str])] = &[
    ("SCTP_DEFAULT_SNDINFO", &["snd_sid", "snd_flags", "snd_ppid", "snd_context", "snd_assoc_id"]),
    (
        "SCTP_DEFAULT_SEND_PARAM",
        &[
            "sinfo_stream",
            "sinfo_ssn",
            "sinfo_flags",
            "sinfo_ppid",
            "sinfo_context",
            "sinfo_timetolive",
            "sinfo_tsn",
            "sinfo_cumtsn",
            "sinfo_assoc_id",
        ],
    ),
    ("SCTP_DEFAULT_PRINFO", &["pr_policy", "pr_value", "pr_assoc_id"]),
];

/// Options with a sctp_assoc_value.
const VALUES: &[&str] = &["SCTP_CONTEXT", "SCTP_PKTDROP_SUPPORTED"];

/// Whether an option has a sctp_assoc_value, which is kept under its name.
pub(super) fn is_value(option: &str) -> bool {
    VALUES.contains(&option)
}

/// The names under which the parts of an option are kept; none if it is not one of these.
pub(super) fn parts(option: &str) -> Option<Vec<&'static str>> {
    let plain = PLAIN.iter().find(|known| **known == option).map(|known| vec![*known]);
    let structure = || STRUCTURES.iter().find(|(known, _)| *known == option);
    plain.or_else(|| structure().map(|(_, fields)| fields.to_vec()))
}

/// What an option that was never set says.
pub(super) fn default(part: &str) -> i64 {
    i64::from(matches!(part, "SCTP_FRAGMENT_INTERLEAVE" | "SCTP_AUTO_ASCONF"))
}
