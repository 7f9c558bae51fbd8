//! Words of command lines, as a shell reads them.

use std::borrow::Cow;

/// Any bytes as one word: in apostrophes.
pub fn in_apostrophes(bytes: &[u8]) -> Vec<u8> {
    let mut out = b"'".to_vec();
    for byte in bytes {
        if *byte == b'\'' {
            out.extend_from_slice(b"'\\''");
        } else {
            out.push(*byte);
        }
    }
    out.push(b'\'');
    out
}

/// A word for people to copy: as it is, if a shell leaves it so.
pub fn word(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into();
    }
    String::from_utf8_lossy(&in_apostrophes(text.as_bytes())).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::{in_apostrophes, word};

    #[test]
    fn a_shell_reads_what_was_meant() {
        assert_eq!(in_apostrophes(b"it's $HOME"), b"'it'\\''s $HOME'");
        assert_eq!(word("/etc/manypath/rules"), "/etc/manypath/rules");
        assert_eq!(word("my rules"), "'my rules'");
        assert_eq!(word("it's"), "'it'\\''s'");
        assert_eq!(word(""), "''");
    }
}
