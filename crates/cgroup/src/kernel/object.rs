//! The object that the compiler has made of `bpf/manypath.bpf.c`: programs, maps, and where the
//! programs name the maps. No more of ELF (64 bits, little-endian) than such an object has.

use super::maps::Kind;
use std::collections::BTreeMap;

/// Bytes of one instruction.
const INSTRUCTION: usize = 8;
/// `BPF_PSEUDO_MAP_FD` in the source register: the number is that of a map's descriptor.
const MAP_SOURCE: u8 = 1 << 4;

/// What is in the object.
#[derive(Debug, Default)]
pub(super) struct Object {
    pub(super) maps: BTreeMap<String, Kind>,
    /// By section.
    pub(super) programs: BTreeMap<String, Program>,
    /// The digest of the source that it was made of.
    pub(super) digest: String,
    pub(super) license: Vec<u8>,
}

/// A program whose maps are still to be filled in.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) code: Vec<u8>,
    /// Places in the code and the maps that they mean.
    uses: Vec<(usize, String)>,
}

#[derive(Debug, Clone, Copy)]
struct Section<'a> {
    name: &'a str,
    kind: u32,
    content: &'a [u8],
    link: u32,
    info: u32,
}

const SYMBOLS: u32 = 2;
const RELOCATIONS: u32 = 9;

impl Object {
    /// Reads an object; `None` when it is none of ours.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let sections = sections(bytes)?;
        let mut object = Self::default();
        let symbols = sections.iter().find(|section| section.kind == SYMBOLS)?;
        let names = sections.get(symbols.link as usize)?.content;
        let content = |name| sections.iter().find(|one| one.name == name).map(|one| one.content);
        let maps_at = sections.iter().position(|section| section.name == "maps")?;
        for symbol in symbols.content.chunks_exact(24) {
            if usize::from(half(symbol, 6)?) == maps_at {
                let name = text(names, word(symbol, 0)? as usize)?;
                let kind = kind(content("maps")?, long(symbol, 8)? as usize)?;
                object.maps.insert(name.to_owned(), kind);
            }
        }
        for section in sections.iter().filter(|section| section.kind == RELOCATIONS) {
            let program = sections.get(section.info as usize)?;
            let uses = section.content.chunks_exact(16).map(|entry| {
                let symbol = 24 * (long(entry, 8)? >> 32) as usize;
                let name = text(names, word(symbols.content.get(symbol..)?, 0)? as usize)?;
                Some((long(entry, 0)? as usize, name.to_owned()))
            });
            let uses = uses.collect::<Option<Vec<_>>>()?;
            let program = Program { code: program.content.to_vec(), uses };
            object.programs.insert(sections.get(section.info as usize)?.name.to_owned(), program);
        }
        object.digest = text(content("digest")?, 0)?.to_owned();
        object.license = content("license")?.to_vec();
        Some(object)
    }
}

impl Program {
    /// The code with descriptors in the places of the maps.
    pub(super) fn linked(&self, descriptor: impl Fn(&str) -> Option<i32>) -> Option<Vec<u8>> {
        let mut code = self.code.clone();
        for (at, name) in &self.uses {
            let instruction = code.get_mut(*at..at + INSTRUCTION)?;
            *instruction.get_mut(1)? |= MAP_SOURCE;
            instruction.get_mut(4..)?.copy_from_slice(&descriptor(name)?.to_ne_bytes());
        }
        Some(code)
    }
}

fn sections(bytes: &[u8]) -> Option<Vec<Section<'_>>> {
    if bytes.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = bytes.get(long(bytes, 40)? as usize..)?;
    let headers: Vec<&[u8]> = table.chunks_exact(64).take(usize::from(half(bytes, 60)?)).collect();
    let content = |header: &[u8]| {
        let (from, size) = (long(header, 24)? as usize, long(header, 32)? as usize);
        bytes.get(from..from.checked_add(size)?)
    };
    let names = content(headers.get(usize::from(half(bytes, 62)?))?)?;
    let section = |header: &&'_ [u8]| {
        Some(Section {
            name: text(names, word(header, 0)? as usize)?,
            kind: word(header, 4)?,
            content: content(header)?,
            link: word(header, 40)?,
            info: word(header, 44)?,
        })
    };
    headers.iter().map(section).collect()
}

fn kind(maps: &[u8], at: usize) -> Option<Kind> {
    let field = |number: usize| word(maps, at + 4 * number);
    Some(Kind {
        kind: field(0)?,
        key_size: field(1)?,
        value_size: field(2)?,
        max_entries: field(3)?,
        flags: field(4)?,
    })
}

fn text(names: &[u8], at: usize) -> Option<&str> {
    let rest = names.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::programs::OBJECT;
    use super::Object;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_object_was_made_of_the_source_beside_it() {
        let sources = [
            include_str!("../../bpf/manypath.bpf.c"),
            include_str!("../../bpf/common.h"),
            include_str!("../../bpf/datagrams.h"),
            include_str!("../../bpf/way.h"),
        ];
        let digest = Sha256::digest(sources.concat());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let object = Object::parse(OBJECT).expect("an object");
        assert_eq!(object.digest, digest, "make -C crates/cgroup/bpf");
    }

    #[test]
    fn every_map_and_program_is_found() {
        let object = Object::parse(OBJECT).expect("an object");
        assert_eq!((object.maps.len(), object.programs.len()), (23, 19));
        assert_eq!(object.license, b"Dual MIT/GPL\0");
        for program in object.programs.values() {
            let code = program.linked(|name| object.maps.contains_key(name).then_some(7));
            assert_eq!(code.map(|code| code.len() % 8), Some(0));
        }
    }

    #[test]
    fn cut_and_changed_objects_are_refused_or_read_but_never_panic() {
        for length in 0..OBJECT.len() {
            let _ = Object::parse(&OBJECT[..length]);
        }
        for at in 0..OBJECT.len() {
            let mut bytes = OBJECT.to_vec();
            bytes[at] ^= 0xff;
            let _ = Object::parse(&bytes);
        }
    }
}
