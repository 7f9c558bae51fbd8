//! Who may use a proxy, by user and password.

use base64ct::{Base64, Encoding};
use manypath_rules::KeptFile;
use std::path::Path;
use subtle::{Choice, ConstantTimeEq};

/// Longest user or password of RFC 1929, in bytes.
const MAX_PART: usize = 255;

/// Users and their passwords.
#[derive(PartialEq, Eq)]
pub struct Users(Vec<(String, String)>);

impl std::fmt::Debug for Users {
    /// Without the passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(user, _)| user)).finish()
    }
}

impl Users {
    /// Reads a file with one `USER:PASSWORD` on each line; empty lines and those that begin with `#` count for nothing.
    ///
    /// # Errors
    /// With a text for people, when the file cannot be read, when others than its owner may read or write it, when a
    /// line is none, or when it names nobody.
    pub fn read(path: &Path) -> Result<Self, String> {
        let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let text = KeptFile::named(path.to_owned()).read_secret();
        let text = text.map_err(|error| told(&error.error))?;
        let text = text.ok_or_else(|| told(&"there is no such file"))?;
        Self::parse(&text).map_err(|why| told(&why))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut users = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fits = |part: &str| (1..=MAX_PART).contains(&part.len());
            match line.split_once(':').filter(|(user, password)| fits(user) && fits(password)) {
                Some((user, password)) => users.push((user.to_owned(), password.to_owned())),
                None => return Err(format!("line {number}: expected USER:PASSWORD")),
            }
        }
        if users.is_empty() { Err("it names nobody".to_owned()) } else { Ok(Self(users)) }
    }

    /// Whether this is the password of that user. Takes the same time for all of the same length.
    pub(crate) fn has(&self, user: &[u8], password: &[u8]) -> bool {
        let is = |(name, secret): &(String, String)| {
            name.as_bytes().ct_eq(user) & secret.as_bytes().ct_eq(password)
        };
        self.0.iter().map(is).fold(Choice::from(0), |any, one| any | one).into()
    }

    /// The same for the value of a `Proxy-Authorization` (RFC 7617 section 2).
    pub(crate) fn has_basic(&self, value: &[u8]) -> bool {
        let decoded = std::str::from_utf8(value).ok().and_then(|value| {
            let (scheme, encoded) = value.trim().split_once(' ')?;
            scheme.eq_ignore_ascii_case("basic").then_some(())?;
            Base64::decode_vec(encoded.trim()).ok()
        });
        let Some(pair) = decoded else { return false };
        let mut parts = pair.splitn(2, |byte| *byte == b':');
        parts.next().zip(parts.next()).is_some_and(|(user, password)| self.has(user, password))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_user_is_known_by_the_whole_password_alone() {
        let users = Users::parse("# for the lab\nann:secret\n\nbob:a:b\n").unwrap();
        assert!(users.has(b"ann", b"secret") && users.has(b"bob", b"a:b"));
        for (user, password) in [("ann", "secre"), ("ann", ""), ("bob", "secret"), ("", "")] {
            assert!(!users.has(user.as_bytes(), password.as_bytes()), "{user}:{password}");
        }
        let basic = |pair: &str| format!("Basic {}", Base64::encode_string(pair.as_bytes()));
        assert!(users.has_basic(basic("bob:a:b").as_bytes()));
        for wrong in ["Basic", "Basic !", "Bearer YW5uOnNlY3JldA==", &basic("ann:"), &basic("ann")]
        {
            assert!(!users.has_basic(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn files_that_others_may_read_or_that_name_nobody_are_refused() {
        for text in ["", "# nobody\n", "ann\n", ":x\n", "ann:\n"] {
            assert!(Users::parse(text).is_err(), "{text}");
        }
        let path = std::env::temp_dir().join(format!("manypath-users-{}", std::process::id()));
        std::fs::write(&path, "ann:secret\n").unwrap();
        for (mode, fine) in [(0o600, true), (0o640, false), (0o602, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Users::read(&path).is_ok(), fine, "{mode:o}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(!format!("{:?}", Users::parse("ann:secret").unwrap()).contains("secret"));
    }
}
