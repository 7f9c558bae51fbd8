//! Who has a UDP port of this host, as the kernel's tables and `/proc` show it.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;

/// A UDP socket and its owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UdpHolder {
    /// What it is bound to.
    pub addr: SocketAddr,
    /// The user.
    pub uid: u32,
    /// The user's name, if there is one.
    pub user: Option<String>,
    /// Process and its name, where this process may look. Control characters of the name, which its user chooses, are
    /// replaced.
    pub process: Option<(u32, String)>,
    inode: u64,
}

impl UdpHolder {
    /// Whether its user is neither root nor the one of this process.
    pub fn is_stranger(&self) -> bool {
        let own = fs::metadata("/proc/self").map_or(0, |process| process.uid());
        self.uid != 0 && self.uid != own
    }
}

impl fmt::Display for UdpHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(user) => write!(f, "user {user} (uid {})", self.uid)?,
            None => write!(f, "uid {}", self.uid)?,
        }
        match &self.process {
            Some((pid, name)) => write!(f, ", process {pid} ({name})"),
            None => Ok(()),
        }
    }
}

/// The sockets of this network namespace that keep others from binding `port` at `addr`, or at any address.
#[must_use]
pub fn udp_holders(port: u16, addr: Option<IpAddr>) -> Vec<UdpHolder> {
    let tables = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];
    let text = tables.map(|table| fs::read_to_string(table).unwrap_or_default()).concat();
    let mut holders: Vec<_> = text.lines().filter_map(parse).collect();
    holders.retain(|holder| {
        let bound = holder.addr.ip();
        let conflicts = addr.is_none_or(|addr| bound == addr || bound.is_unspecified());
        holder.addr.port() == port && conflicts
    });
    for holder in &mut holders {
        holder.user = name_of(holder.uid);
        holder.process = process_of(holder.inode);
    }
    holders
}

/// A line of the kernel's table: number, local and remote address, state, queues, timer, retransmissions, user,
/// timeout, inode.
fn parse(line: &str) -> Option<UdpHolder> {
    let words: Vec<_> = line.split_whitespace().collect();
    let addr = address(words.get(1)?)?;
    let (uid, inode) = (words.get(7)?.parse().ok()?, words.get(9)?.parse().ok()?);
    Some(UdpHolder { addr, uid, user: None, process: None, inode })
}

/// Words of 32 bits in the byte order of the host, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok();
    let bytes = |at| word(at).map(u32::to_ne_bytes);
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(bytes(0)?).into(),
        32 => {
            let all = [bytes(0)?, bytes(1)?, bytes(2)?, bytes(3)?];
            Ipv6Addr::from(<[u8; 16]>::try_from(all.as_flattened()).ok()?).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

fn name_of(uid: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let named = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    };
    users.lines().find_map(named)
}

fn process_of(inode: u64) -> Option<(u32, String)> {
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.into_iter().find(|pid| has_open(*pid, &wanted))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some((pid, name.trim_end().replace(char::is_control, "?")))
}

fn has_open(pid: u32, wanted: &str) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let mut targets = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.any(|target| target.as_os_str() == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::UdpSocket;
    use std::process::{Command, Stdio};

    #[test]
    fn a_socket_of_ours_is_found_with_its_process_and_is_no_strangers() {
        for (bound, asked) in
            [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "192.0.2.1"), ("[::1]:0", "::1")]
        {
            let socket = UdpSocket::bind(bound).unwrap();
            let addr = socket.local_addr().unwrap();
            let holders = udp_holders(addr.port(), Some(asked.parse().unwrap()));
            let holder = holders.iter().find(|holder| holder.addr == addr).unwrap();
            assert_eq!(holder.process.as_ref().map(|(pid, _)| *pid), Some(std::process::id()));
            assert!(!holder.is_stranger());
            assert!(
                udp_holders(addr.port(), Some("192.0.2.9".parse().unwrap())).is_empty()
                    || bound == "0.0.0.0:0"
            );
        }
    }

    /// Its user chooses it, and root reads it in a terminal.
    #[test]
    fn the_name_of_a_process_cannot_steer_a_terminal() {
        let named = "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('127.0.0.1', 0))
open('/proc/self/comm', 'w').write('\\x1b[2J\\nall well')
print(s.getsockname()[1], flush=True)
sys.stdin.read()";
        let mut python = Command::new("python3");
        python.args(["-c", named]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let holders = udp_holders(port.trim().parse().unwrap(), None);
        drop(child.stdin.take());
        child.wait().unwrap();
        let named: Vec<_> = holders.into_iter().filter_map(|holder| holder.process).collect();
        assert_eq!(named, [(child.id(), "?[2J?all well".to_owned())]);
    }

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let line = "  123: 0100007F:26AB 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 4711 2 0 0";
        let holder = parse(line).unwrap();
        assert_eq!(
            (holder.addr, holder.uid, holder.inode),
            ("127.0.0.1:9899".parse().unwrap(), 1000, 4711)
        );
        assert!(holder.is_stranger());
        assert_eq!(holder.to_string(), "uid 1000");
        let v6 = line.replace("0100007F", "B80D0120000000000000000001000000");
        assert_eq!(parse(&v6).unwrap().addr, "[2001:db8::1]:9899".parse().unwrap());
        assert_eq!(
            parse("   sl  local_address rem_address   st tx_queue rx_queue tr tm->when"),
            None
        );
        let known =
            UdpHolder { user: Some("bob".into()), process: Some((7, "nc".into())), ..holder };
        assert_eq!(known.to_string(), "user bob (uid 1000), process 7 (nc)");
    }
}
