//! Maps: memory that the kernel's programs and this process share.

use super::{
    Attributes, BPF_BTF_LOAD, BPF_MAP_CREATE, BPF_MAP_DELETE_ELEM, BPF_MAP_GET_NEXT_KEY,
    BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, address, bpf, bpf_open,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// `BPF_MAP_TYPE_SK_STORAGE`.
const SOCKET_STORAGE: u32 = 24;

/// What a map is, as the object says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) kind: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) max_entries: u32,
    pub(crate) flags: u32,
}

/// A map; it lives as long as this or a program that uses it.
#[derive(Debug)]
pub(crate) struct Map {
    fd: OwnedFd,
    kind: Kind,
}

#[repr(C)]
#[derive(Default)]
struct Create {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; 16],
    interface: u32,
    btf: u32,
    btf_key_type: u32,
    btf_value_type: u32,
}

#[repr(C)]
struct Element {
    map: u32,
    gap: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct Types {
    types: u64,
    log: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    gap: u32,
}

impl Attributes for Create {}
impl Attributes for Element {}
impl Attributes for Types {}

impl Map {
    /// Makes a map.
    ///
    /// # Errors
    /// `EPERM` without root; `EINVAL` when this kernel has no such maps.
    pub(crate) fn new(name: &str, kind: Kind) -> io::Result<Self> {
        let Kind { kind: number, key_size, value_size, max_entries, flags } = kind;
        let mut create =
            Create { kind: number, key_size, value_size, max_entries, flags, ..Create::default() };
        for (to, from) in create.name.iter_mut().take(15).zip(name.bytes()) {
            *to = from;
        }
        // Only maps on sockets must say what they are made of.
        let types = (number == SOCKET_STORAGE).then(|| types(value_size)).transpose()?;
        if let Some(types) = &types {
            create.btf = types.as_raw_fd().cast_unsigned();
            (create.btf_key_type, create.btf_value_type) = (1, 2);
        }
        Ok(Self { fd: bpf_open(BPF_MAP_CREATE, &mut create)?, kind })
    }

    /// Puts a value in the place of whatever the key had.
    ///
    /// # Errors
    /// `E2BIG`, `ENOMEM` when the map is full.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.check(key.len(), value.len())?;
        let mut element = self.element(address(key), address(value));
        bpf(BPF_MAP_UPDATE_ELEM, &mut element).map(drop)
    }

    /// Takes a key out.
    ///
    /// # Errors
    /// `ENOENT` when it is not there.
    pub(crate) fn remove(&self, key: &[u8]) -> io::Result<()> {
        self.check(key.len(), self.kind.value_size as usize)?;
        let mut element = self.element(address(key), 0);
        bpf(BPF_MAP_DELETE_ELEM, &mut element).map(drop)
    }

    /// What a key has.
    ///
    /// # Errors
    /// `ENOENT` when it is not there.
    pub(crate) fn get(&self, key: &[u8]) -> io::Result<Vec<u8>> {
        self.check(key.len(), self.kind.value_size as usize)?;
        let mut value = vec![0; self.kind.value_size as usize];
        let to = value.as_mut_ptr().expose_provenance() as u64;
        let mut element = self.element(address(key), to);
        bpf(BPF_MAP_LOOKUP_ELEM, &mut element)?;
        Ok(value)
    }

    /// All keys, as far as nobody changes them meanwhile.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        while keys.len() < self.kind.max_entries as usize {
            let mut next = vec![0; self.kind.key_size as usize];
            let last = keys.last().map_or(0, |key| address(key.as_slice()));
            let mut element = self.element(last, next.as_mut_ptr().expose_provenance() as u64);
            if bpf(BPF_MAP_GET_NEXT_KEY, &mut element).is_err() {
                break;
            }
            keys.push(next);
        }
        keys
    }

    /// How many bytes of entries it was made for.
    pub(crate) const fn max_entries(&self) -> u32 {
        self.kind.max_entries
    }

    fn element(&self, key: u64, value: u64) -> Element {
        Element { map: self.as_raw_fd().cast_unsigned(), gap: 0, key, value, flags: 0 }
    }

    /// The kernel reads as many bytes as the map's kind says, whatever it is given.
    fn check(&self, key: usize, value: usize) -> io::Result<()> {
        let fits = key == self.kind.key_size as usize && value == self.kind.value_size as usize;
        if fits { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Map {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// The two types that a map on sockets needs: 1, an int, for its key; 2, an array of ints as large as its
/// value. The format is the kernel's (`Documentation/bpf/btf.rst`).
fn types(value_size: u32) -> io::Result<OwnedFd> {
    const NAMES: &[u8] = b"\0int\0\0\0\0";
    const INT: u32 = 1 << 24;
    const ARRAY: u32 = 3 << 24;
    const SIGNED_32_BITS: u32 = 1 << 24 | 32;
    let types: [u32; 10] = [1, INT, 4, SIGNED_32_BITS, 0, ARRAY, 0, 1, 1, value_size / 4];
    let length = std::mem::size_of_val(&types) as u32;
    let header: [u32; 6] = [1 << 16 | 0xeb9f, 24, 0, length, length, NAMES.len() as u32];
    let words = header.iter().chain(&types).flat_map(|word| word.to_ne_bytes());
    let blob: Vec<u8> = words.chain(NAMES.iter().copied()).collect();
    let size = blob.len() as u32;
    bpf_open(BPF_BTF_LOAD, &mut Types { types: address(blob.as_slice()), size, ..Types::default() })
}
