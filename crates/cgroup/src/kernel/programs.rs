//! Loading the programs, and tying them to a cgroup.

use super::object::Object;
use super::{Attributes, BPF_LINK_CREATE, BPF_PROG_LOAD, Map, address, bpf, bpf_open};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Made by `make -C crates/cgroup/bpf`.
pub(super) static OBJECT: &[u8] = include_bytes!("../../bpf/manypath.bpf.o");

/// Section, program type and attach type of each program (`linux/bpf.h`).
type Section = (&'static str, u32, u32);

const CONNECTIONS: [Section; 9] = [
    ("sockops", 13, 3),
    ("cgroup/getpeername4", 18, 29),
    ("cgroup/getpeername6", 18, 30),
    ("cgroup/getsockname4", 18, 31),
    ("cgroup/getsockname6", 18, 32),
    ("cgroup/getsockopt", 25, 21),
    ("cgroup/setsockopt", 25, 22),
    // Last: what they send to the gate, the others must know.
    ("cgroup/connect4", 18, 10),
    ("cgroup/connect6", 18, 11),
];

/// How many of the last ones those are.
const CONNECTS: usize = 2;

/// In the places of those that older kernels refuse. What each leaves out says [`Programs`].
const SUBSTITUTES: [(&str, Section); 4] = [
    ("sockops", ("sockops/older", 13, 3)),
    ("cgroup/getsockopt", ("cgroup/getsockopt/errors", 25, 21)),
    ("cgroup/connect4", ("cgroup/connect4/older", 18, 10)),
    ("cgroup/connect6", ("cgroup/connect6/older", 18, 11)),
];

/// Marks the sockets that the substitutes of the connect programs carry.
const MARKS: Section = ("cgroup/sock_create/older", 9, 2);

/// Those for datagrams, which are at work only when some are to be carried.
const DATAGRAMS: [Section; 5] = [
    ("cgroup/sock_create", 9, 2),
    ("cgroup/sock_release", 9, 34),
    ("cgroup_skb/egress", 8, 1),
    ("cgroup/recvmsg4", 18, 19),
    ("cgroup/recvmsg6", 18, 20),
];

/// What programs are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Connections,
    Datagrams,
}

/// Programs and maps in the kernel. Nothing is pinned: all of it ends with this process.
#[derive(Debug)]
pub(crate) struct Programs {
    maps: BTreeMap<String, Map>,
    /// With their attach types.
    connections: Connections<(OwnedFd, u32)>,
    /// Or why this kernel does not take them.
    datagrams: io::Result<Vec<(OwnedFd, u32)>>,
}

#[derive(Debug)]
struct Connections<T> {
    loaded: Vec<T>,
    /// Programs that this kernel refuses, and why.
    refused: BTreeMap<&'static str, io::Error>,
}

/// Programs at work on one cgroup, until this is dropped or the cgroup is gone.
#[derive(Debug)]
pub(crate) struct Links(Vec<OwnedFd>);

impl Links {
    /// Takes the programs off that see connects: the last ones.
    pub(crate) fn drop_connects(&mut self) {
        self.0.truncate(self.0.len().saturating_sub(CONNECTS));
    }
}

#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    count: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
struct Link {
    program: u32,
    target: u32,
    attach: u32,
    flags: u32,
}

impl Attributes for Load {}
impl Attributes for Link {}

impl Programs {
    /// Loads everything; nothing is at work yet.
    ///
    /// # Errors
    /// `EPERM` without root; what the kernel's verifier says when it refuses a program.
    pub(crate) fn load() -> io::Result<Self> {
        match Self::load_within_limits() {
            // Before Linux 5.11 maps count as locked memory, of which even root may have little.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && lift_limit() => {
                Self::load_within_limits()
            }
            loaded => loaded,
        }
    }

    fn load_within_limits() -> io::Result<Self> {
        let object = Object::parse(OBJECT).ok_or_else(|| io::Error::other("damaged BPF object"))?;
        let maps =
            object.maps.iter().map(|(name, kind)| Ok((name.clone(), Map::new(name, *kind)?)));
        let maps = maps.collect::<io::Result<BTreeMap<_, _>>>()?;
        let descriptor = |name: &str| maps.get(name).map(AsRawFd::as_raw_fd);
        let load = |(section, kind, attach): Section| {
            let program = object.programs.get(section).and_then(|one| one.linked(descriptor));
            let code = program.ok_or_else(|| io::Error::other("damaged BPF object"))?;
            Ok((load(section, &code, &object.license, kind, attach)?, attach))
        };
        let connections = Connections::load(load)?;
        let datagrams = DATAGRAMS.into_iter().map(load).collect();
        Ok(Self { maps, connections, datagrams })
    }

    /// Lets the programs for a purpose work on the sockets of a cgroup and of those below it.
    ///
    /// # Errors
    /// `EBADF` when the folder is not in a cgroup2 file system; `EPERM` when somebody above does
    /// not allow several programs.
    pub(crate) fn attach(&self, purpose: Purpose, cgroup: &File) -> io::Result<Links> {
        let programs = match purpose {
            Purpose::Connections => self.connections.loaded.as_slice(),
            Purpose::Datagrams => self.datagrams.as_deref().unwrap_or_default(),
        };
        let target = cgroup.as_raw_fd().cast_unsigned();
        let link = |(program, attach): &(OwnedFd, u32)| {
            let program = program.as_raw_fd().cast_unsigned();
            bpf_open(BPF_LINK_CREATE, &mut Link { program, target, attach: *attach, flags: 0 })
        };
        Ok(Links(programs.iter().map(link).collect::<io::Result<_>>()?))
    }

    /// Why the programs for datagrams are not there.
    pub(crate) fn missing(&self) -> Option<&io::Error> {
        self.datagrams.as_ref().err()
    }

    /// Why options tell of loopback and not of the way to the destination.
    pub(crate) fn mute(&self) -> Option<&io::Error> {
        self.connections.refused.get("cgroup/getsockopt")
    }

    /// Whether servers may be offered: otherwise their clients would have wrong names.
    pub(crate) fn can_serve(&self) -> bool {
        !self.connections.refused.contains_key("sockops")
    }

    /// A map of the object.
    ///
    /// # Errors
    /// When the object has no such map, which would be a mistake of ours.
    pub(crate) fn take_map(&mut self, name: &str) -> io::Result<Map> {
        self.maps.remove(name).ok_or_else(|| io::Error::other(format!("no BPF map {name}")))
    }
}

impl<T> Connections<T> {
    fn load(load: impl Fn(Section) -> io::Result<T>) -> io::Result<Self> {
        let (mut loaded, mut refused) = (Vec::new(), BTreeMap::new());
        for section in CONNECTIONS {
            let substitute = SUBSTITUTES.iter().find(|(of, _)| *of == section.0);
            loaded.push(match (load(section), substitute) {
                (Err(error), Some((_, substitute))) => {
                    refused.insert(section.0, error);
                    load(*substitute)?
                }
                (one, _) => one?,
            });
        }
        if refused.keys().any(|name| name.starts_with("cgroup/connect")) {
            loaded.insert(0, load(MARKS)?);
        }
        Ok(Self { loaded, refused })
    }
}

/// Whether this process may lock as much memory as it likes from now on.
fn lift_limit() -> bool {
    let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a plain call.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const all) == 0 }
}

fn load(name: &str, code: &[u8], license: &[u8], kind: u32, attach: u32) -> io::Result<OwnedFd> {
    let mut request = Load {
        kind,
        count: (code.len() / 8) as u32,
        code: address(code),
        license: address(license),
        attach,
        ..Load::default()
    };
    let short = name.rsplit('/').next().unwrap_or(name);
    for (to, from) in request.name.iter_mut().take(15).zip(short.bytes()) {
        *to = from;
    }
    bpf_open(BPF_PROG_LOAD, &mut request).map_err(|error| explain(name, error, request))
}

/// Why the verifier has refused a program: the end of what it says.
fn explain(name: &str, error: io::Error, mut request: Load) -> io::Error {
    if error.raw_os_error() == Some(libc::EPERM) {
        return error;
    }
    let mut log = vec![0_u8; 1 << 20];
    (request.log_level, request.log_size) = (1, log.len() as u32);
    request.log = log.as_mut_ptr().expose_provenance() as u64;
    let _ = bpf(BPF_PROG_LOAD, &mut request);
    io::Error::new(error.kind(), format!("BPF program {name}: {error}: {}", last_lines(&log)))
}

/// The last lines of what the verifier has written. It takes back what it has said of a way through the program
/// that is all right: what is left of that follows the end of the text.
fn last_lines(log: &[u8]) -> String {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(log.get(..end).unwrap_or_default());
    let mut lines: Vec<&str> = text.lines().rev().take(4).collect();
    lines.reverse();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(refused: &'static [&'static str]) -> impl Fn(Section) -> io::Result<&'static str> {
        move |(name, ..)| match refused.contains(&name) {
            true => Err(io::Error::other("too long")),
            false => Ok(name),
        }
    }

    #[test]
    fn what_the_verifier_has_taken_back_is_not_told() {
        let log = b"1\n2\n3\n4\nR1 pointer arithmetic prohibited\n\0from 2 to 3: safe\n\0\0";
        assert_eq!(last_lines(log), "2; 3; 4; R1 pointer arithmetic prohibited");
    }

    #[test]
    fn this_kernel_takes_every_program_and_every_substitute() {
        let loaded = Programs::load();
        if loaded.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EPERM)) {
            return eprintln!("SKIPPED: not root: no program is loaded");
        }
        let loaded = loaded.expect("loaded");
        assert!(loaded.mute().is_none() && loaded.missing().is_none(), "{loaded:?}");
        let object = Object::parse(OBJECT).expect("an object");
        for (name, kind, attach) in SUBSTITUTES.map(|(_, one)| one).into_iter().chain([MARKS]) {
            let program = object.programs.get(name).expect("a program");
            let code = program.linked(|name| loaded.maps.get(name).map(AsRawFd::as_raw_fd));
            load(name, &code.expect("maps"), &object.license, kind, attach).expect("taken");
        }
    }

    #[test]
    fn what_a_kernel_refuses_is_left_out_and_no_more() {
        let load = |refused| Connections::load(refuse(refused));
        let all = load(&[]).expect("all");
        assert!(all.refused.is_empty() && all.loaded.contains(&"cgroup/getsockopt"));
        for (name, substitute) in SUBSTITUTES {
            let less = Connections::load(|(section, ..)| match section == name {
                true => Err(io::Error::other("too long")),
                false => Ok(section),
            });
            let less = less.expect("less");
            assert!(less.refused.contains_key(name) && !less.loaded.contains(&name));
            assert!(less.loaded.contains(&substitute.0));
            assert_eq!(less.loaded.contains(&MARKS.0), name.starts_with("cgroup/connect"));
        }
        assert!(load(&["cgroup/getsockopt", "cgroup/getsockopt/errors"]).is_err());
        assert!(load(&["cgroup/connect4", MARKS.0]).is_err());
        assert!(load(&["cgroup/setsockopt"]).is_err());
    }
}
