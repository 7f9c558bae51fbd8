//! Fingerprints as text and as words.

use crate::common::key;
use manypath_keys::PublicKey;
use manypath_trust::{BadFingerprint, Fingerprint, is_key_address};
use proptest::prelude::*;

/// What `ssh-keygen -l` prints for this key.
const OF_SSH: &str = "SHA256:nRD6qo0UmYRKEZK2N5peJXzlLhLxv+L+dm6rFQZzjas";

#[test]
fn the_text_is_that_of_ssh() {
    let key = PublicKey::from(*b"manypath lets any TCP program us");
    assert_eq!(Fingerprint::of(&key).to_string(), OF_SSH);
}

#[test]
fn each_key_has_an_address_that_is_its_own() {
    let key = PublicKey::from(*b"manypath lets any TCP program us");
    let address = Fingerprint::of(&key).address();
    // The base64 of OF_SSH begins with 9d10 faaa.
    assert_eq!(address.to_string(), "2001:2f:9d10:faaa:8d14:9984:4a11:92b6");
    assert!(is_key_address(address.into()));
    assert!(!is_key_address("2001:20::1".parse().unwrap()));
    assert!(!is_key_address("192.0.2.1".parse().unwrap()));
}

#[test]
fn words_and_text_are_recognised() {
    let fingerprint = Fingerprint::of(&key(1));
    let words = fingerprint.words();
    assert_eq!(words.split(' ').count(), 12, "{words}");
    let spoken = [words.to_uppercase(), words.replace(' ', "-"), format!("  {words}\n")];
    for text in spoken.iter().chain([&words, &fingerprint.to_string()]) {
        assert_eq!(fingerprint.matches(text), Ok(true), "{text}");
        assert_eq!(Fingerprint::of(&key(2)).matches(text), Ok(false), "{text}");
    }
}

#[test]
fn what_is_no_fingerprint_is_told() {
    let fingerprint = Fingerprint::of(&key(1));
    let (words, text) = (fingerprint.words(), fingerprint.to_string());
    let (_, eleven) = words.split_once(' ').unwrap();
    let longer = format!("{words} {words}");
    let bad =
        ["", "SHA256:", &text[..30], &text[7..], eleven, &longer, "MD5:00:11", "zebra zebra zebra"];
    for bad in bad {
        assert_eq!(fingerprint.matches(bad), Err(BadFingerprint), "{bad}");
    }
}

proptest! {
    #[test]
    fn any_text_may_be_compared(text in "\\PC{0,100}", bytes in any::<[u8; 32]>()) {
        let fingerprint = Fingerprint::of(&PublicKey::from(bytes));
        prop_assert!(fingerprint.matches(&text) != Ok(true));
        prop_assert_eq!(fingerprint.matches(&fingerprint.words()), Ok(true));
        prop_assert_eq!(fingerprint.matches(&fingerprint.to_string()), Ok(true));
    }
}
