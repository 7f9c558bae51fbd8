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
const PROGRAMS: [(&str, u32, u32); 8] = [
    ("sockops", 13, 3),
    ("cgroup/getpeername4", 18, 29),
    ("cgroup/getpeername6", 18, 30),
    ("cgroup/getsockname4", 18, 31),
    ("cgroup/getsockname6", 18, 32),
    ("cgroup/getsockopt", 25, 21),
    // Last: what they send to the gate, the others must know.
    ("cgroup/connect4", 18, 10),
    ("cgroup/connect6", 18, 11),
];

/// Programs and maps in the kernel. Nothing is pinned: all of it ends with this process.
#[derive(Debug)]
pub(crate) struct Programs {
    maps: BTreeMap<String, Map>,
    /// With their attach types.
    programs: Vec<(OwnedFd, u32)>,
}

/// Programs at work on one cgroup, until this is dropped or the cgroup is gone.
#[derive(Debug)]
pub(crate) struct Links {
    _links: Vec<OwnedFd>,
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
        let object = Object::parse(OBJECT).ok_or_else(|| io::Error::other("damaged BPF object"))?;
        let maps =
            object.maps.iter().map(|(name, kind)| Ok((name.clone(), Map::new(name, *kind)?)));
        let maps = maps.collect::<io::Result<BTreeMap<_, _>>>()?;
        let descriptor = |name: &str| maps.get(name).map(AsRawFd::as_raw_fd);
        let load = |(section, kind, attach): (&str, u32, u32)| {
            let program = object.programs.get(section).and_then(|one| one.linked(descriptor));
            let code = program.ok_or_else(|| io::Error::other("damaged BPF object"))?;
            Ok((load(section, &code, &object.license, kind, attach)?, attach))
        };
        let programs = PROGRAMS.into_iter().map(load).collect::<io::Result<_>>()?;
        Ok(Self { maps, programs })
    }

    /// Lets the programs work on the sockets of a cgroup and of those below it.
    ///
    /// # Errors
    /// `EBADF` when the folder is not in a cgroup2 file system; `EPERM` when somebody above does
    /// not allow several programs.
    pub(crate) fn attach(&self, cgroup: &File) -> io::Result<Links> {
        let target = cgroup.as_raw_fd().cast_unsigned();
        let link = |(program, attach): &(OwnedFd, u32)| {
            let program = program.as_raw_fd().cast_unsigned();
            bpf_open(BPF_LINK_CREATE, &mut Link { program, target, attach: *attach, flags: 0 })
        };
        Ok(Links { _links: self.programs.iter().map(link).collect::<io::Result<_>>()? })
    }

    /// A map of the object.
    ///
    /// # Errors
    /// When the object has no such map, which would be a mistake of ours.
    pub(crate) fn take_map(&mut self, name: &str) -> io::Result<Map> {
        self.maps.remove(name).ok_or_else(|| io::Error::other(format!("no BPF map {name}")))
    }
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
    request.log = log.as_mut_ptr().addr() as u64;
    let _ = bpf(BPF_PROG_LOAD, &mut request);
    let text = String::from_utf8_lossy(&log);
    let mut lines: Vec<&str> = text.trim_end_matches('\0').lines().rev().take(4).collect();
    lines.reverse();
    io::Error::new(error.kind(), format!("BPF program {name}: {error}: {}", lines.join("; ")))
}
