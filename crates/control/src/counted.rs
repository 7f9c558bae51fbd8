//! Numbers with what they count, for people.

/// `count` of what is called `one`, or `many` otherwise: "1 path", "0 paths", "2 copies".
///
/// ```
/// use manypath_control::counted;
/// assert_eq!(counted(1, "path", "paths"), "1 path");
/// assert_eq!(counted(0, "retry", "retries"), "0 retries");
/// ```
#[must_use]
pub fn counted(count: impl TryInto<u64>, one: &str, many: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{count} {}", if count == 1 { one } else { many })
}
