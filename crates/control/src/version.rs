//! Which languages this version speaks, and what a reader of the one before is told.

use serde::Serialize;
use serde_json::{Map, Value};

/// Version of this language. It changes whenever an old reader would misunderstand a new writer.
///
/// What a change needs beside it, so that programs and stacks of two versions in a row work together: a word in
/// [`LATER_WORDS`], or, where a message is new, a look at [`crate::ControlClient::version`] before it is sent.
pub const VERSION: u32 = 12;
/// The oldest version of the other side that is understood.
pub const OLDEST: u32 = VERSION - 1;

/// Values that came with a version, and what readers before it are told in their place.
const LATER_WORDS: &[(u32, &str, &str)] = &[
    (12, "unproven-port", "refused"),
    (12, "one-of-many", "remembered"),
    (12, "not-encrypted", "refused"),
    (12, "no-longer-encrypted", "refused"),
    (12, "key-changed", "refused"),
    (12, "key-revoked", "refused"),
    (12, "key-exchange-failed", "refused"),
    (12, "encryption-required", "refused"),
    (12, "not-authorized", "refused"),
    (12, "relay-unresolved", "refused"),
    (12, "relay-unknown", "refused"),
    (12, "not-relay", "refused"),
    (12, "not-relayed", "refused"),
    (12, "relay-circle", "refused"),
    (12, "over-quota", "busy"),
    (12, "shared-bottleneck", "congestion-window"),
    (12, "budget", "metered"),
    (12, "excluded", "disabled"),
];

/// Whether the other side can be spoken to in its own version.
#[must_use]
pub const fn is_spoken(version: u32) -> bool {
    OLDEST <= version && version <= VERSION
}

/// What a reader of `version` is told.
///
/// # Errors
/// For what has no form in JSON.
pub fn written_for(version: u32, message: &impl Serialize) -> serde_json::Result<Value> {
    Ok(translated(version, serde_json::to_value(message)?))
}

fn translated(version: u32, value: Value) -> Value {
    match value {
        Value::String(word) => Value::String(earlier(version, word)),
        Value::Array(all) => all.into_iter().map(|one| translated(version, one)).collect(),
        Value::Object(all) => {
            let mut object = Map::new();
            for (name, one) in all {
                put(&mut object, earlier(version, name), translated(version, one));
            }
            Value::Object(object)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Two words may become one: what was counted for each is added up.
fn put(object: &mut Map<String, Value>, name: String, value: Value) {
    let before = object.get(&name).and_then(Value::as_u64);
    let sum = before.zip(value.as_u64()).map(|(one, other)| Value::from(one + other));
    object.insert(name, sum.unwrap_or(value));
}

fn earlier(version: u32, word: String) -> String {
    let later = LATER_WORDS.iter().find(|(since, later, _)| version < *since && *later == word);
    later.map_or(word, |(_, _, earlier)| (*earlier).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::IdleReason;
    use crate::status::FallbackReason;
    use std::collections::BTreeMap;

    #[test]
    fn a_reader_of_the_version_before_is_told_words_that_it_knows() {
        let counted = BTreeMap::from([
            (FallbackReason::Refused, 2_u64),
            (FallbackReason::UnprovenPort, 3),
            (FallbackReason::Silent, 1),
        ]);
        let told = |version| written_for(version, &counted).unwrap();
        assert_eq!(told(OLDEST), serde_json::json!({"refused": 5, "silent": 1}));
        assert_eq!(told(VERSION)["unproven-port"], 3);
        let told = |version| written_for(version, &IdleReason::Excluded).unwrap();
        assert_eq!((told(OLDEST), told(VERSION)), ("disabled".into(), "excluded".into()));
    }
}
