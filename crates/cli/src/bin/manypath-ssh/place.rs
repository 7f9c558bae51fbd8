//! Where files are: `host:path` or a local path, and what a transfer calls what it has not finished.

use crate::failure::Failure;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A path on a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Host, perhaps with a user.
    pub(crate) host: OsString,
    /// Path there; empty is the home folder.
    pub(crate) path: Vec<u8>,
}

impl Place {
    /// Reads `[user@]host:path`, with IPv6 addresses in brackets. `None` if it is a local path, as scp
    /// has it: no colon, or a slash in front of it.
    pub(crate) fn parse(text: &OsStr) -> Option<Self> {
        let bytes = text.as_bytes();
        let bracket =
            bytes.iter().position(|b| *b == b'[').filter(|at| !bytes[..*at].contains(&b':'));
        let from = bracket.and_then(|_| bytes.iter().position(|b| *b == b']')).unwrap_or(0);
        let colon = from + bytes[from..].iter().position(|b| *b == b':')?;
        let (host, path) = (&bytes[..colon], &bytes[colon + 1..]);
        let is_local = host.is_empty() || host.contains(&b'/');
        let host = host.iter().copied().filter(|b| bracket.is_none() || !b"[]".contains(b));
        let host = OsString::from_vec(host.collect());
        (!is_local).then(|| Self { host, path: path.to_vec() })
    }

    /// As [`parse`](Self::parse), of something that must be on a server.
    pub(crate) fn expect(text: &OsStr) -> Result<Self, Failure> {
        let wrong = || Failure::usage(format!("{} is not HOST:PATH", text.display()));
        Self::parse(text).ok_or_else(wrong)
    }
}

/// The last part of a path on a server.
pub(crate) fn base_name(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    let path = &path[..end];
    path.iter().rposition(|b| *b == b'/').map_or(path, |at| &path[at + 1..])
}

/// A path in a folder of a server; the folder "" is the home.
pub(crate) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder.last() {
        None | Some(b'/') => [folder, name].concat(),
        Some(_) => [folder, b"/", name].concat(),
    }
}

/// What an unfinished file is called: after the file, and after the version of the source, so that
/// one of another version is not continued.
pub(crate) fn part_name(name: &[u8], source: &[u8], size: u64, changed: u64) -> Vec<u8> {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let numbers = [size.to_be_bytes(), changed.to_be_bytes()].concat();
    for byte in source.iter().chain(&numbers) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let suffix = format!(".{:08x}.part", (hash >> 32) as u32 ^ hash as u32);
    // File systems allow names of 255 bytes.
    let kept = name.len().min(255 - suffix.len());
    [&name[..kept], suffix.as_bytes()].concat()
}

/// A name that a server gives, as one of a file in a folder here. Nothing else may come of it.
pub(crate) fn safe_name(name: &[u8]) -> Option<&Path> {
    let is_safe =
        !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0);
    is_safe.then(|| Path::new(OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Option<(String, String)> {
        let place = Place::parse(text.as_ref())?;
        let path = String::from_utf8(place.path).expect("text");
        Some((place.host.into_string().expect("text"), path))
    }

    #[test]
    fn places_are_told_from_local_paths_as_scp_does() {
        assert_eq!(place("me@host:a/b"), Some(("me@host".into(), "a/b".into())));
        assert_eq!(place("host:"), Some(("host".into(), "".into())));
        assert_eq!(place("me@[2001:db8::1]:a:b"), Some(("me@2001:db8::1".into(), "a:b".into())));
        assert_eq!(place("./a:b"), None);
        assert_eq!(place("file"), None);
    }

    #[test]
    fn parts_of_other_versions_have_other_names() {
        let name = part_name(b"f", b"host:f", 10, 1);
        assert!(name.starts_with(b"f.") && name.ends_with(b".part"));
        assert_ne!(name, part_name(b"f", b"host:f", 11, 1));
        assert_ne!(name, part_name(b"f", b"host:f", 10, 2));
    }

    #[test]
    fn a_server_cannot_name_a_file_outside_of_the_folder() {
        for name in [&b".."[..], b"", b"a/b", b"/etc/passwd", b"a\0b", b"."] {
            assert_eq!(safe_name(name), None);
        }
        assert!(safe_name(b"..a").is_some());
    }

    #[test]
    fn base_names_ignore_slashes_at_the_end() {
        assert_eq!(base_name(b"/a/b//"), b"b");
        assert_eq!(base_name(b"b"), b"b");
        assert_eq!(base_name(b"/"), b"");
    }
}
