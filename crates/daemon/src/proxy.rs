//! The HTTP proxy that makes connections for carriers, as the environment names it.

use base64ct::{Base64, Encoding};
use manypath_rules::KeptFile;
use std::fmt;
use std::path::Path;

const MALFORMED: &str = "HTTPS_PROXY has a malformed user or password: write other characters than letters and digits as %XX";

/// Where the proxy is, and the user and password that it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyAt {
    place: String,
    credentials: Option<String>,
}

/// Without the password.
impl fmt::Debug for ProxyAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shows = self.credentials.is_some();
        f.debug_struct("ProxyAt").field("place", &self.place).field("shows", &shows).finish()
    }
}

impl ProxyAt {
    /// The proxy at `http://[USER:PASSWORD@]HOST[:PORT]`, of which the scheme may be missing. Bytes of user and password may
    /// be written as `%40` (RFC 3986 section 2.1).
    ///
    /// # Errors
    /// Why it is not used. What was named is not repeated: it may have a password.
    pub fn parse(named: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = named.split_once("://").unwrap_or(("http", named));
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(
                "HTTPS_PROXY is not of the form http://HOST:PORT, and other proxies are not used",
            );
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // Part of a password that is not written as it should be is not taken for a host.
        if rest[authority.len()..].contains('@') {
            return Err(MALFORMED);
        }
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let credentials = user.map(|user| {
            let pair = decoded(user).filter(|pair| is_shown(pair));
            pair.map(|pair| basic(&pair)).ok_or(MALFORMED)
        });
        let port = place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let place = match (place, port) {
            ("", _) => return Err("HTTPS_PROXY is not set"),
            (_, true) => place.to_owned(),
            (_, false) => format!("{place}:80"),
        };
        Ok(Self { place, credentials: credentials.transpose()? })
    }

    /// The same with the first `USER:PASSWORD` in a file that nobody else may read; empty lines and those that begin with
    /// `#` count for nothing.
    ///
    /// # Errors
    /// What is wrong with the file, for people.
    pub fn with_user_from(self, file: &Path) -> Result<Self, String> {
        let told = |why: &dyn fmt::Display| format!("{}: {why}", file.display());
        let text = KeptFile::named(file.to_owned()).read_secret();
        let text = text.map_err(|error| told(&error.error))?;
        let text = text.ok_or_else(|| told(&"there is no such file"))?;
        let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pair = lines.next().filter(|line| line.contains(':') && is_shown(line.as_bytes()));
        let pair = pair.ok_or_else(|| told(&"expected a line USER:PASSWORD"))?;
        Ok(Self { credentials: Some(basic(pair.as_bytes())), ..self })
    }

    /// HOST:PORT.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// What stands in `Proxy-Authorization`.
    pub(crate) fn credentials(&self) -> Option<String> {
        self.credentials.clone()
    }
}

/// RFC 7617 section 2.
fn basic(pair: &[u8]) -> String {
    format!("Basic {}", Base64::encode_string(pair))
}

/// A user without a password has an empty one. No control characters (RFC 7617 section 2).
fn is_shown(pair: &[u8]) -> bool {
    !pair.iter().any(u8::is_ascii_control)
}

/// `USER:PASSWORD` of a URL.
fn decoded(user: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), user.as_bytes());
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        rest = behind;
    }
    if !bytes.contains(&b':') {
        bytes.push(b':');
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(named: &str) -> (String, Option<String>) {
        let proxy = ProxyAt::parse(named).unwrap();
        (proxy.place, proxy.credentials)
    }

    #[test]
    fn an_http_proxy_is_where_its_url_says() {
        assert_eq!(at("http://proxy.example:3128/"), ("proxy.example:3128".into(), None));
        assert_eq!(at("HTTP://192.0.2.9"), ("192.0.2.9:80".into(), None));
        assert_eq!(at("proxy.example:8080"), ("proxy.example:8080".into(), None));
        assert_eq!(at("http://[2001:db8::9]:3128"), ("[2001:db8::9]:3128".into(), None));
        for other in ["", "http://", "https://proxy.example", "socks5://proxy.example:1080"] {
            assert!(ProxyAt::parse(other).is_err(), "{other}");
        }
    }

    /// The example of RFC 7617 section 2.
    #[test]
    fn a_user_with_a_password_is_shown_to_the_proxy_and_to_nobody_else() {
        let aladdin =
            ("proxy:80".to_owned(), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned()));
        assert_eq!(at("http://Aladdin:open%20sesame@proxy"), aladdin);
        assert_eq!(at("http://a@proxy:1").1, Some(basic(b"a:")));
        assert_eq!(at("http://a:b@c@proxy:1").1, Some(basic(b"a:b@c")));
        let proxy = ProxyAt::parse("http://a:secret@proxy").unwrap();
        assert_eq!(format!("{proxy:?}"), r#"ProxyAt { place: "proxy:80", shows: true }"#);
        for wrong in
            ["http://a:%@p", "http://a:%4@p", "http://a:%+1@p", "http://a:%0a@p", "http://a:b/c@p"]
        {
            let why = ProxyAt::parse(wrong).unwrap_err();
            assert!(!why.contains("a:"), "{why}");
        }
    }

    #[test]
    fn a_file_with_the_password_is_the_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let file = std::env::temp_dir().join(format!("manypath-proxy-user-{}", std::process::id()));
        std::fs::write(&file, "# of the office\nAladdin:open sesame\n").unwrap();
        let read = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            ProxyAt::parse("http://proxy").unwrap().with_user_from(&file)
        };
        assert_eq!(read(0o600).unwrap().credentials, Some(basic(b"Aladdin:open sesame")));
        assert!(read(0o644).unwrap_err().contains("manypath-proxy-user"));
        std::fs::remove_file(&file).unwrap();
    }
}
