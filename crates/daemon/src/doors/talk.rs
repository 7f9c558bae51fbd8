//! What a client of a proxy says before its bytes are carried: SOCKS5 (RFC 1928, RFC 1929) or an HTTP CONNECT
//! (RFC 9110 section 9.3.6), told apart by the first byte. No I/O: bytes in, answers out.

use crate::config::Users;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Longest head of an HTTP request, in bytes. A SOCKS message has 513 bytes at most.
pub(super) const MAX_HEAD: usize = 8 << 10;
const MAX_HEADERS: usize = 64;
/// Longest name of a host (RFC 1035 section 2.3.4).
const MAX_NAME: usize = 253;

const SOCKS5: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;
const PASSWORD_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const UDP_ASSOCIATE: u8 = 3;

/// Where a client wants to go.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Target {
    pub(super) host: TargetHost,
    pub(super) port: u16,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TargetHost {
    Address(IpAddr),
    Name(String),
}

/// Why a client gets no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// What it says is none of the protocols.
    Malformed,
    /// Its HTTP head is longer than [`MAX_HEAD`].
    TooLong,
    /// An HTTP method other than CONNECT.
    Method,
    /// A SOCKS command other than CONNECT and UDP ASSOCIATE.
    Command,
    /// A kind of address that RFC 1928 does not know.
    AddressType,
    /// No user and password, or a wrong one.
    Unauthenticated,
    /// It may not reach the destination through this door.
    Forbidden,
    /// There is no such name.
    NoSuchName,
    /// The door has no room.
    Busy,
    /// The connect failed, as connect(2) says it.
    Errno(i32),
}

/// What to do about what a client has said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It has not said all.
    Wait,
    Answer(Vec<u8>),
    Connect(Target),
    /// It wants to send datagrams, from this port unless that is 0.
    Associate(u16),
    Refuse(Fault),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    First,
    SocksPassword,
    SocksRequest,
    Http,
}

/// The talk with one client.
#[derive(Debug)]
pub(super) struct Talk {
    stage: Stage,
    users: Option<Arc<Users>>,
}

impl Talk {
    /// With a client that has to be one of `users`, if there are any.
    pub(super) const fn new(users: Option<Arc<Users>>) -> Self {
        Self { stage: Stage::First, users }
    }

    /// Takes what has come; how many of the bytes are done with.
    pub(super) fn read(&mut self, bytes: &[u8]) -> (usize, Step) {
        match (self.stage, bytes.first()) {
            (_, None) => (0, Step::Wait),
            (Stage::First, Some(&SOCKS5)) => self.greet(bytes),
            (Stage::First, Some(b'A'..=b'Z')) => {
                self.stage = Stage::Http;
                self.http(bytes)
            }
            (Stage::First, Some(_)) => (0, Step::Refuse(Fault::Malformed)),
            (Stage::SocksPassword, _) => self.password(bytes),
            (Stage::SocksRequest, _) => socks_request(bytes),
            (Stage::Http, _) => self.http(bytes),
        }
    }

    fn greet(&mut self, bytes: &[u8]) -> (usize, Step) {
        let Some(count) = bytes.get(1).map(|count| usize::from(*count)) else {
            return (0, Step::Wait);
        };
        let Some(methods) = bytes.get(2..2 + count) else { return (0, Step::Wait) };
        let (method, next) = match self.users {
            None => (NO_AUTHENTICATION, Stage::SocksRequest),
            Some(_) => (USER_AND_PASSWORD, Stage::SocksPassword),
        };
        if !methods.contains(&method) {
            return (2 + count, Step::Refuse(Fault::Unauthenticated));
        }
        self.stage = next;
        (2 + count, Step::Answer(vec![SOCKS5, method]))
    }

    fn password(&mut self, bytes: &[u8]) -> (usize, Step) {
        if bytes[0] != PASSWORD_VERSION {
            return (0, Step::Refuse(Fault::Malformed));
        }
        let Some((user, rest)) = bytes.get(1..).and_then(counted) else { return (0, Step::Wait) };
        let Some((password, _)) = counted(rest) else { return (0, Step::Wait) };
        if !self.users.as_ref().is_some_and(|users| users.has(user, password)) {
            return (0, Step::Refuse(Fault::Unauthenticated));
        }
        self.stage = Stage::SocksRequest;
        (3 + user.len() + password.len(), Step::Answer(vec![PASSWORD_VERSION, 0]))
    }

    fn http(&self, bytes: &[u8]) -> (usize, Step) {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let length = match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return (0, Step::Wait),
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return (0, Step::Refuse(Fault::TooLong));
            }
            Err(_) => return (0, Step::Refuse(Fault::Malformed)),
        };
        let step = match (request.method, request.path.and_then(authority)) {
            (Some("CONNECT"), Some(target)) if self.is_known(request.headers) => {
                Step::Connect(target)
            }
            (Some("CONNECT"), Some(_)) => Step::Refuse(Fault::Unauthenticated),
            (Some("CONNECT"), None) => Step::Refuse(Fault::Malformed),
            _ => Step::Refuse(Fault::Method),
        };
        (length, step)
    }

    fn is_known(&self, headers: &[httparse::Header<'_>]) -> bool {
        let Some(users) = &self.users else { return true };
        let is_ours =
            |one: &&httparse::Header<'_>| one.name.eq_ignore_ascii_case("proxy-authorization");
        headers.iter().find(is_ours).is_some_and(|header| users.has_basic(header.value))
    }

    /// The answer to a client whose connection is there. `local` is its address on this side.
    pub(super) fn granted(&self, local: std::net::SocketAddr) -> Vec<u8> {
        match self.stage {
            Stage::Http => b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec(),
            Stage::First | Stage::SocksPassword | Stage::SocksRequest => {
                let mut reply = vec![SOCKS5, 0, 0];
                put_address(&mut reply, local);
                reply
            }
        }
    }

    /// The answer to a client that gets none.
    pub(super) fn refused(&self, fault: Fault) -> Vec<u8> {
        match (self.stage, fault) {
            (Stage::Http, _) => http_refusal(fault),
            (Stage::First, Fault::Unauthenticated) => vec![SOCKS5, NO_METHOD],
            (Stage::First, _) => Vec::new(),
            (Stage::SocksPassword, _) => vec![PASSWORD_VERSION, 1],
            (Stage::SocksRequest, _) => {
                vec![SOCKS5, socks_code(fault), 0, 1, 0, 0, 0, 0, 0, 0]
            }
        }
    }
}

/// Bytes whose number comes first, and what follows them.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*count))
}

fn socks_request(bytes: &[u8]) -> (usize, Step) {
    let (&[version, command, _, kind], Some(rest)) =
        (bytes.first_chunk().unwrap_or(&[SOCKS5, CONNECT, 0, 1]), bytes.get(4..))
    else {
        return (0, Step::Wait);
    };
    if version != SOCKS5 {
        return (0, Step::Refuse(Fault::Malformed));
    }
    let (host, port, length) = match socks_target(kind, rest) {
        Ok(Some(target)) => target,
        Ok(None) => return (0, Step::Wait),
        Err(fault) => return (0, Step::Refuse(fault)),
    };
    let step = match (command, host) {
        // Some name another host there, which says nothing.
        (UDP_ASSOCIATE, Some(TargetHost::Address(ip)))
            if ip.is_unspecified() || ip.is_loopback() =>
        {
            Step::Associate(port)
        }
        (UDP_ASSOCIATE, _) => Step::Associate(0),
        (CONNECT, Some(host)) => Step::Connect(Target { host, port }),
        (CONNECT, None) => Step::Refuse(Fault::NoSuchName),
        _ => Step::Refuse(Fault::Command),
    };
    (4 + length, step)
}

/// An address of this kind and a port, and how long they are: no host if its name cannot be one, and nothing if not all
/// has come.
fn socks_target(kind: u8, rest: &[u8]) -> Result<Option<(Option<TargetHost>, u16, usize)>, Fault> {
    let address = match kind {
        1 => rest.first_chunk::<4>().map(|ip| (Some(TargetHost::from(Ipv4Addr::from(*ip))), 4)),
        4 => rest.first_chunk::<16>().map(|ip| (Some(TargetHost::from(Ipv6Addr::from(*ip))), 16)),
        3 => counted(rest).map(|(name, _)| (host(name), 1 + name.len())),
        _ => return Err(Fault::AddressType),
    };
    let port = |length| rest.get(length..).and_then(<[u8]>::first_chunk).copied();
    let whole = |(host, length)| Some((host, u16::from_be_bytes(port(length)?), length + 2));
    Ok(address.and_then(whole))
}

/// A datagram of a SOCKS client: where it is to go, and what. Parts of one are dropped, which RFC 1928 lets a proxy do.
pub(super) fn datagram(bytes: &[u8]) -> Option<(Target, &[u8])> {
    let (&[_, _, 0, kind], rest) = bytes.split_first_chunk()? else { return None };
    let (host, port, length) = socks_target(kind, rest).ok()??;
    Some((Target { host: host?, port }, rest.get(length..)?))
}

/// What stands before a datagram that has come from there.
pub(super) fn datagram_head(from: std::net::SocketAddr) -> Vec<u8> {
    let mut head = vec![0; 3];
    put_address(&mut head, from);
    head
}

fn put_address(out: &mut Vec<u8>, address: std::net::SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => out.extend([&[1][..], &ip.octets()].concat()),
        IpAddr::V6(ip) => out.extend([&[4][..], &ip.octets()].concat()),
    }
    out.extend(address.port().to_be_bytes());
}

impl<T: Into<IpAddr>> From<T> for TargetHost {
    fn from(address: T) -> Self {
        // An IPv4 address in the dress of IPv6 is reached as IPv4.
        Self::Address(address.into().to_canonical())
    }
}

/// A host as text: an address, or a name that can be one.
fn host(text: &[u8]) -> Option<TargetHost> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.into());
    }
    let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let is_name = (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(fits);
    is_name.then(|| TargetHost::Name(text.to_owned()))
}

/// `HOST:PORT`; an IPv6 address stands in brackets.
fn authority(text: &str) -> Option<Target> {
    let (name, port) = text.rsplit_once(':')?;
    let port = port.bytes().all(|c| c.is_ascii_digit()).then(|| port.parse().ok())??;
    let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host = match inner {
        Some(inner) => TargetHost::from(inner.parse::<Ipv6Addr>().ok()?),
        None if name.contains(':') => return None,
        None => host(name.as_bytes())?,
    };
    Some(Target { host, port })
}

/// RFC 1928 section 6.
const fn socks_code(fault: Fault) -> u8 {
    match fault {
        Fault::Forbidden => 2,
        Fault::Errno(libc::ENETUNREACH) => 3,
        Fault::NoSuchName | Fault::Errno(libc::EHOSTUNREACH) => 4,
        Fault::Errno(libc::ECONNREFUSED) => 5,
        Fault::Errno(libc::ETIMEDOUT) => 6,
        Fault::Errno(libc::EACCES | libc::EPERM) => 2,
        Fault::Command => 7,
        Fault::AddressType => 8,
        Fault::Malformed
        | Fault::TooLong
        | Fault::Method
        | Fault::Unauthenticated
        | Fault::Busy
        | Fault::Errno(_) => 1,
    }
}

fn http_refusal(fault: Fault) -> Vec<u8> {
    let (status, header) = match fault {
        Fault::Malformed | Fault::Command | Fault::AddressType => ("400 Bad Request", ""),
        Fault::Forbidden | Fault::Errno(libc::EACCES | libc::EPERM) => ("403 Forbidden", ""),
        Fault::Method => ("405 Method Not Allowed", "Allow: CONNECT\r\n"),
        Fault::Unauthenticated => (
            "407 Proxy Authentication Required",
            "Proxy-Authenticate: Basic realm=\"manypath\"\r\n",
        ),
        Fault::TooLong => ("431 Request Header Fields Too Large", ""),
        Fault::Busy => ("503 Service Unavailable", ""),
        Fault::Errno(libc::ETIMEDOUT) => ("504 Gateway Timeout", ""),
        Fault::NoSuchName | Fault::Errno(_) => ("502 Bad Gateway", ""),
    };
    let text = format!("manypath: {fault}\n");
    let length = text.len();
    format!(
        "HTTP/1.1 {status}\r\n{header}Content-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}"
    )
    .into_bytes()
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Malformed => "neither SOCKS5 nor HTTP",
            Self::TooLong => "the head of the request is too long",
            Self::Method => {
                "this proxy takes CONNECT only; use it for https:// or as a SOCKS5 proxy"
            }
            Self::Command => "this proxy takes the commands CONNECT and UDP ASSOCIATE only",
            Self::AddressType => "unknown kind of address",
            Self::Unauthenticated => "a user and a password are needed",
            Self::Forbidden => "this destination is not open to clients of this proxy",
            Self::NoSuchName => "there is no such name",
            Self::Busy => "too many clients",
            Self::Errno(errno) => {
                return std::io::Error::from_raw_os_error(*errno).fmt(f);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> Option<Arc<Users>> {
        Some(Arc::new(Users::parse("ann:secret").unwrap()))
    }

    fn name(host: &str, port: u16) -> Step {
        Step::Connect(Target { host: TargetHost::Name(host.to_owned()), port })
    }

    fn address(host: &str, port: u16) -> Step {
        Step::Connect(Target { host: TargetHost::Address(host.parse().unwrap()), port })
    }

    /// Says `bytes` one after the other; what came of it, and how many of them were taken.
    fn dialogue(users: Option<Arc<Users>>, bytes: &[u8]) -> (Vec<Step>, usize, Talk) {
        let (mut talk, mut steps, mut taken) = (Talk::new(users), Vec::new(), 0);
        for end in 0..=bytes.len() {
            let (count, step) = talk.read(&bytes[taken..end]);
            taken += count;
            let over = matches!(step, Step::Connect(_) | Step::Associate(_) | Step::Refuse(_));
            steps.extend((step != Step::Wait).then_some(step));
            if over {
                break;
            }
        }
        (steps, taken, talk)
    }

    #[test]
    fn socks_clients_name_addresses_and_hosts_byte_by_byte() {
        let greeting = Step::Answer(vec![5, 0]);
        for (request, expected) in [
            (&b"\x05\x01\x00\x01\xc0\x00\x02\x07\x00\x50"[..], address("192.0.2.7", 80)),
            (b"\x05\x01\x00\x03\x09a.example\x01\xbb", name("a.example", 443)),
            (b"\x05\x01\x00\x03\x09192.0.2.7\x00\x50", address("192.0.2.7", 80)),
            (
                b"\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50",
                address("2001:db8::1", 80),
            ),
            (
                b"\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01\x00\x50",
                address("127.0.0.1", 80),
            ),
            (b"\x05\x02\x00\x01\xc0\x00\x02\x07\x00\x50", Step::Refuse(Fault::Command)),
            (b"\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00", Step::Associate(0)),
            (b"\x05\x03\x00\x01\x00\x00\x00\x00\x01\x02", Step::Associate(258)),
            (b"\x05\x03\x00\x01\x7f\x00\x00\x09\x01\x02", Step::Associate(258)),
            (b"\x05\x03\x00\x01\xc0\x00\x02\x07\x01\x02", Step::Associate(0)),
            (b"\x05\x01\x00\x02", Step::Refuse(Fault::AddressType)),
            (b"\x05\x01\x00\x03\x03a b\x00\x50", Step::Refuse(Fault::NoSuchName)),
            (b"\x05\x01\x00\x03\x00\x00\x50", Step::Refuse(Fault::NoSuchName)),
            (b"\x04\x01\x00\x50", Step::Refuse(Fault::Malformed)),
        ] {
            let said = [b"\x05\x02\x00\x02", request, b"data"].concat();
            let (steps, taken, talk) = dialogue(None, &said);
            assert_eq!(steps, [greeting.clone(), expected.clone()], "{request:x?}");
            assert!(taken <= said.len() - 4, "what follows is for the destination: {request:x?}");
            assert_eq!(talk.refused(Fault::Command)[..2], [5, 7]);
        }
    }

    #[test]
    fn datagrams_of_socks_clients_say_where_they_go() {
        let named = |bytes: &'static [u8]| {
            datagram(bytes).map(|(target, rest)| (Step::Connect(target), rest))
        };
        let v4 = b"\0\0\0\x01\xc0\x00\x02\x07\x00\x35payload";
        assert_eq!(named(v4), Some((address("192.0.2.7", 53), &b"payload"[..])));
        let empty = named(b"\0\0\0\x03\x09a.example\x01\xbb");
        assert_eq!(empty, Some((name("a.example", 443), &b""[..])));
        for wrong in [
            &b"\0\0\x01\x01\xc0\x00\x02\x07\x00\x35"[..],
            b"\0\0\0\x02\0\0\0\0\0\0",
            b"\0\0\0\x03\x03a b\0\x35",
            b"\0\0",
            b"",
        ] {
            assert_eq!(datagram(wrong), None, "{wrong:x?}");
        }
        for length in 0..10 {
            assert_eq!(datagram(&v4[..length]), None);
        }
        assert_eq!(datagram_head("192.0.2.7:53".parse().unwrap()), v4[..10]);
    }

    #[test]
    fn socks_clients_have_to_know_a_password_where_there_is_one() {
        let (steps, ..) = dialogue(users(), b"\x05\x01\x00");
        assert_eq!(steps, [Step::Refuse(Fault::Unauthenticated)]);
        let talk = Talk::new(users());
        assert_eq!(talk.refused(Fault::Unauthenticated), [5, 0xff]);
        let right = b"\x05\x01\x02\x01\x03ann\x06secret\x05\x01\x00\x01\xc0\x00\x02\x07\x00\x50";
        let (steps, ..) = dialogue(users(), right);
        let answers = [Step::Answer(vec![5, 2]), Step::Answer(vec![1, 0])];
        assert_eq!(steps, [&answers[..], &[address("192.0.2.7", 80)]].concat());
        let (steps, _, talk) = dialogue(users(), b"\x05\x01\x02\x01\x03ann\x06secreT\x05\x01");
        assert_eq!(steps[1..], [Step::Refuse(Fault::Unauthenticated)]);
        assert_eq!(talk.refused(Fault::Unauthenticated), [1, 1]);
    }

    #[test]
    fn http_clients_name_a_host_and_a_port() {
        for (target, expected) in [
            ("a.example:443", name("a.example", 443)),
            ("192.0.2.7:80", address("192.0.2.7", 80)),
            ("[2001:db8::1]:80", address("2001:db8::1", 80)),
            ("[::ffff:127.0.0.1]:80", address("127.0.0.1", 80)),
            ("a.example", Step::Refuse(Fault::Malformed)),
            ("a.example:", Step::Refuse(Fault::Malformed)),
            ("a.example:+80", Step::Refuse(Fault::Malformed)),
            ("a.example:70000", Step::Refuse(Fault::Malformed)),
            ("2001:db8::1:80", Step::Refuse(Fault::Malformed)),
            ("[a.example]:80", Step::Refuse(Fault::Malformed)),
            ("a/b:80", Step::Refuse(Fault::Malformed)),
        ] {
            let head = format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n");
            let (steps, taken, _) = dialogue(None, format!("{head}data").as_bytes());
            assert_eq!((steps, taken), (vec![expected], head.len()), "{target}");
        }
    }

    #[test]
    fn http_requests_that_are_no_connect_are_refused_with_their_status() {
        let status = |head: &str, users| {
            let (steps, _, talk) = dialogue(users, head.as_bytes());
            let Some(Step::Refuse(fault)) = steps.last() else { return String::new() };
            String::from_utf8(talk.refused(*fault)).unwrap()
        };
        let get = status("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", None);
        assert!(get.starts_with("HTTP/1.1 405 ") && get.contains("Allow: CONNECT\r\n"), "{get}");
        let unknown = status("CONNECT a.example:443 HTTP/1.1\r\n\r\n", users());
        assert!(unknown.starts_with("HTTP/1.1 407 ") && unknown.contains("Basic realm"));
        let head =
            "CONNECT a.example:443 HTTP/1.1\r\nproxy-authorization: Basic YW5uOnNlY3JldA==\r\n\r\n";
        assert_eq!(dialogue(users(), head.as_bytes()).0, [name("a.example", 443)]);
        let long = format!("CONNECT a.example:443 HTTP/1.1\r\nX: {}", "x".repeat(MAX_HEAD));
        assert!(status(&long, None).starts_with("HTTP/1.1 431 "));
        let many = format!("CONNECT a:1 HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
        assert!(status(&many, None).starts_with("HTTP/1.1 431 "));
        for wrong in
            ["GET\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\n a\r\n\r\n", "CONNECT a:1 HTTP/9\r\n\r\n"]
        {
            assert!(status(wrong, None).starts_with("HTTP/1.1 400 "), "{wrong}");
        }
    }

    #[test]
    fn errors_of_the_connect_have_their_codes() {
        let (_, _, socks) = dialogue(None, b"\x05\x01\x00");
        let (_, _, http) = dialogue(None, b"CONNECT ");
        for (fault, code, status) in [
            (Fault::Forbidden, 2, "403"),
            (Fault::Errno(libc::EACCES), 2, "403"),
            (Fault::Errno(libc::ENETUNREACH), 3, "502"),
            (Fault::Errno(libc::EHOSTUNREACH), 4, "502"),
            (Fault::NoSuchName, 4, "502"),
            (Fault::Errno(libc::ECONNREFUSED), 5, "502"),
            (Fault::Errno(libc::ETIMEDOUT), 6, "504"),
            (Fault::Errno(libc::EIO), 1, "502"),
            (Fault::Busy, 1, "503"),
        ] {
            assert_eq!(socks.refused(fault), [5, code, 0, 1, 0, 0, 0, 0, 0, 0], "{fault}");
            let text = String::from_utf8(http.refused(fault)).unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
        }
    }

    #[test]
    fn what_is_neither_socks_nor_http_hears_nothing() {
        for wrong in
            [&b"\x04\x01\x00\x50\x7f\0\0\x01\0"[..], b"\x16\x03\x01", b"get / HTTP/1.1", b"\0"]
        {
            let (steps, _, talk) = dialogue(None, wrong);
            assert_eq!(steps, [Step::Refuse(Fault::Malformed)]);
            assert!(talk.refused(Fault::Malformed).is_empty());
        }
    }
}
